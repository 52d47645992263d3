"""Groups on etcd: a member is the key `<group>/<id>` on a lease, created by a transaction that finds it absent.

One range shows all members with their data at one revision. The watch of a group begins at the revision after the list
that it follows, so no change falls between the two; any change of a key below the group's name is news.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from fencepost.harness.coordination import Definite, Granted, Indefinite, ListedMember, NotSent, ReadMode, Reply, Roster
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.storage import EtcdStorage, absent, below, below_all, written
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import LiveCall
from fencepost.systems.etcd.wire.http2 import Http2Connection

T = TypeVar("T")

_ROOT: Final = "groups/"


class EtcdGroups(EtcdStorage):
    """`harness.coordination.Memberships` on etcd."""

    _watch: LiveCall | None = None

    def __init__(self, connection: Http2Connection, options: EtcdOptions) -> None:
        super().__init__(connection, options)
        self._news = asyncio.Event()

    # Leases. They belong to no connection, so whoever knows the number may ask any member.

    async def grant(self, ttl_ms: int) -> Granted:
        """Request whole seconds, as etcd counts them; the answer says what was granted."""
        answer = await self._grant(rpc.LeaseGrantRequest(TTL=-(-ttl_ms // 1000)))
        return Granted(f"{answer.ID:x}", answer.TTL * 1000, answer.header.revision, answer.header.raft_term)

    async def keep_alive(self, handle: str) -> Granted:
        answer = await self._keep_alive(rpc.LeaseKeepAliveRequest(ID=int(handle, 16)))
        if answer.TTL <= 0:
            raise Definite(errors.LEASE_EXPIRED, "the server knows no such lease")
        return Granted(handle, answer.TTL * 1000, answer.header.revision, answer.header.raft_term)

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        key = below(name) + str(element).encode()
        put = self._put(rpc.PutRequest(key=key, value=handle.encode(), lease=int(handle, 16)))
        return written((await _unless_expired(put)).header)

    async def revoke(self, handle: str) -> Reply:
        answer = await _unless_expired(self._revoke(rpc.LeaseRevokeRequest(ID=int(handle, 16))))
        return written(answer.header)

    # Groups.

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        key = below(_ROOT + group) + member.encode()
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=data, lease=int(handle, 16)))
        return await _unless_expired(self._transact(absent(key), put, errors.EXISTS))

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        request = rpc.RangeRequest(**below_all(_ROOT + group), serializable=mode is not ReadMode.STRONG)
        answer = await self._range(request)
        first = len(below(_ROOT + group))
        return Roster(
            tuple(ListedMember(pair.key[first:].decode(), pair.value, pair.create_revision) for pair in answer.kvs),
            position=answer.header.revision,
            epoch=answer.header.raft_term,
        )

    async def watch_roster(self, group: str) -> Roster:
        roster = await self.roster(group, ReadMode.PLAIN)
        if self._watch is not None:
            self._watch.close()
        self._news.clear()
        create = rpc.WatchCreateRequest(**below_all(_ROOT + group), start_revision=(roster.position or 0) + 1)
        request = rpc.WatchRequest(create_request=create)
        self._watch = LiveCall(self._connection, "Watch/Watch", request, rpc.WatchResponse, self._take)
        return roster

    async def roster_changed(self, wait_s: float) -> bool:
        watch = self._watch
        if watch is None:
            raise Definite(errors.NOT_WATCHING)
        over = asyncio.ensure_future(watch.over())
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((over, news), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            news.cancel()
        if self._news.is_set():
            return True
        ended = watch.ended
        if ended is not None:
            raise Indefinite(ended.code, str(ended)) if isinstance(ended, NotSent) else ended
        return False

    def _take(self, answer: "rpc.WatchResponse") -> None:
        if answer.canceled and self._watch is not None:
            self._watch.close()
        elif answer.events:
            self._news.set()


async def _unless_expired(request: Awaitable[T]) -> T:
    """Await the answer; "not found" means that the lease which the request names does not exist."""
    try:
        return await request
    except Definite as refused:
        if refused.code == "not-found":
            raise Definite(errors.LEASE_EXPIRED, str(refused)) from None
        raise
