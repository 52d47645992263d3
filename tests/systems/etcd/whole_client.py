"""A client with the requests of every interface of etcd on one connection, for tests of what they have in common."""

from fencepost.harness.base.options import seconds
from fencepost.systems.etcd.client import EtcdLocks
from fencepost.systems.etcd.groups import EtcdGroups
from fencepost.systems.etcd.lists import EtcdLists
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.wire.grpc_call import connect
from tests.systems.contract.patience import PATIENCE_S


class EtcdClient(EtcdLocks, EtcdGroups, EtcdLists):
    pass


async def opened(host: str, port: int, connect_timeout_s: float = PATIENCE_S, *, lock_ttl_s: int = 2) -> EtcdClient:
    return EtcdClient(await connect(host, port, connect_timeout_s), EtcdOptions(lock_ttl=seconds(lock_ttl_s)))
