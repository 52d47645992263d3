"""What an operator asks of a member of etcd while it serves (etcd.io/docs, Maintenance and Runtime reconfiguration)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Place
from fencepost.systems.etcd.configuration import CLIENT_PORT
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

_DIAL_S: Final = 2.0
#: So many revisions are kept, so that a watch that was just away can go on.
_KEPT: Final = 50


async def _compact(place: Place) -> str:
    """Forget all but the newest revisions; the answer comes once they are removed from this member's store."""
    async with _connected(place) as connection:
        status = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
        revision = status.header.revision - _KEPT
        if revision < 1:
            raise Definite("nothing-to-compact", f"the store is at revision {status.header.revision}")
        await unary(connection, "KV/Compact", rpc.CompactionResponse)(
            rpc.CompactionRequest(revision=revision, physical=True)
        )
    return f"revisions before {revision} are gone"


async def _defragment(place: Place) -> str:
    """Rewrite this member's database file; it answers nobody meanwhile."""
    async with _connected(place) as connection:
        before = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
        await unary(connection, "Maintenance/Defragment", rpc.DefragmentResponse)(rpc.DefragmentRequest())
        after = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
    return f"{before.dbSize} bytes are {after.dbSize}"


async def _update_member(place: Place) -> str:
    """Set this member's peer URLs to those that it has: a change of the members in the log that changes nothing."""
    async with _connected(place) as connection:
        listed = await unary(connection, "Cluster/MemberList", rpc.MemberListResponse)(
            rpc.MemberListRequest(linearizable=False)
        )
        own = next((member for member in listed.members if listed.header.member_id == member.ID), None)
        if own is None:
            raise Definite("no-such-member", f"{place.name} does not list itself")
        await unary(connection, "Cluster/MemberUpdate", rpc.MemberUpdateResponse)(
            rpc.MemberUpdateRequest(ID=own.ID, peerURLs=own.peerURLs)
        )
    return f"member {own.ID:x} is at {', '.join(own.peerURLs)}"


@asynccontextmanager
async def _connected(place: Place) -> AsyncIterator[Http2Connection]:
    connection = await connect(*place.dial(CLIENT_PORT), _DIAL_S)
    try:
        yield connection
    finally:
        connection.close()


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {
    "compact": _compact,
    "defragment": _defragment,
    "update-member": _update_member,
}
