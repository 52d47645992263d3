"""Locks and elections on etcd: a lock is a key bound to a lease; its create revision is the fencing token.

A deed is a key of its own below the trail's name, so that nothing is overwritten; its create revision orders the deeds.
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import (
    Deeds,
    Definite,
    Held,
    Indefinite,
    Interface,
    Leading,
    NotSent,
    ReadMode,
    Reply,
)
from fencepost.systems.etcd.groups import EtcdGroups
from fencepost.systems.etcd.lists import EtcdLists
from fencepost.systems.etcd.metastore import EtcdMetastores
from fencepost.systems.etcd.storage import (
    EtcdSession,
    EtcdStorage,
    absent,
    below,
    below_all,
    created_at,
    put_op,
    serializable,
)
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc


class EtcdLocks(EtcdStorage):
    """`harness.coordination.Locks` and `Elections` on etcd."""

    _lease: int | None = None

    async def acquire(self, name: str) -> Held:
        """Create the lock's key under this client's lease; the token is the key's create revision.

        A separate request before the first lock grants the lease. If the outcome of that request is unknown, the lease
        holds nothing, so the failure is definite. From the transaction on, the table decides.
        """
        lease = self._lease if self._lease is not None else await self._new_lease()
        key = _lock_key(name)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=b"%x" % lease, lease=lease))
        try:
            reply = await self._transact(absent(key), put, errors.HELD)
        except Definite as refused:
            if refused.code == "not-found":
                self._lease = None
                raise Definite(errors.LEASE_EXPIRED, str(refused)) from None
            raise
        assert reply.position is not None
        return Held(token=reply.position, handle=f"{lease:x}", epoch=reply.epoch, position=reply.position)

    async def _new_lease(self) -> int:
        try:
            answer = await self._grant(rpc.LeaseGrantRequest(TTL=round(self._options.lock_ttl.seconds)))
        except (Definite, Indefinite) as error:
            if isinstance(error, NotSent):
                raise
            raise Definite(errors.LEASE_NOT_GRANTED, str(error)) from None
        lease = int(answer.ID)
        self._lease = lease
        return lease

    async def renew(self) -> Reply:
        """Keep the lease alive for another time to live, with one request."""
        if self._lease is None:
            raise Definite(errors.LEASE_EXPIRED, "this client holds no lease")
        answer = await self._keep_alive(rpc.LeaseKeepAliveRequest(ID=self._lease))
        if answer.TTL <= 0:
            self._lease = None
            raise Definite(errors.LEASE_EXPIRED, "the server knows no such lease")
        return Reply(position=answer.header.revision, epoch=answer.header.raft_term)

    async def release(self, name: str, held: Held) -> Reply:
        key = _lock_key(name)
        delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        return await self._transact(created_at(key, held.token), delete, errors.NOT_HELD)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        compare = created_at(_lock_key(name), held.token)
        return await self._transact(compare, put_op(key.encode(), value), errors.FENCED)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        answer = await self._range(
            rpc.RangeRequest(key=_lock_key(name), serializable=serializable(mode), keys_only=True)
        )
        token = answer.kvs[0].create_revision if answer.kvs else None
        return Leading(token, position=answer.header.revision, epoch=answer.header.raft_term)

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        """Write one key for each deed, so that nothing is overwritten; its create revision orders the deeds."""
        key = below(trail) + deed.encode()
        if guarded:
            return await self._transact(created_at(_lock_key(name), held.token), put_op(key, b""), errors.FENCED)
        return await self._transact(absent(key), put_op(key, b""), errors.EXISTS)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        prefix = below(trail)
        answer = await self._range(
            rpc.RangeRequest(
                **below_all(trail),
                serializable=serializable(mode),
                keys_only=True,
            )
        )
        ordered = sorted(answer.kvs, key=lambda pair: pair.create_revision)
        deeds = tuple(pair.key[len(prefix) :].decode() for pair in ordered)
        return Deeds(deeds, position=answer.header.revision, epoch=answer.header.raft_term)


def _lock_key(name: str) -> bytes:
    return b"lock/" + name.encode()


SESSIONS: Final[Mapping[str, type[EtcdSession]]] = {
    Interface.STORAGE: EtcdStorage,
    Interface.LISTENERS: EtcdStorage,
    Interface.LOCKS: EtcdLocks,
    Interface.ELECTION: EtcdLocks,
    Interface.LEASES: EtcdGroups,
    Interface.MEMBERSHIP: EtcdGroups,
    Interface.LISTS: EtcdLists,
    Interface.METASTORE: EtcdMetastores,
}
