"""Groups on etcd: a member is the key `<group>/<id>` on a lease, created by a transaction that finds it absent.

One range shows all members with their data at one revision. The watch of a group begins at the revision after the list
that it follows, so no change falls between the two; any change of a key below the group's name is news.
"""

import asyncio
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, Member, NotSent, ReadMode, Reply, Roster
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import LiveCall, unary
from fencepost.systems.etcd.wire.http2 import Connection

_ROOT: Final = b"groups/"
_SEPARATOR: Final = b"/"
_AFTER_SEPARATOR: Final = b"0"


class EtcdGroups:
    """The part of `harness.coordination.Memberships` that is about groups, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._channel = connection
        self._list = unary(connection, "KV/Range", rpc.RangeResponse)
        self._enter = unary(connection, "KV/Txn", rpc.TxnResponse)
        self._watch: LiveCall | None = None
        self._news = asyncio.Event()

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        key = _below(group) + member.encode()
        absent = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.CREATE, key=key, create_revision=0)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=data, lease=int(handle, 16)))
        try:
            answer = await self._enter(rpc.TxnRequest(compare=(absent,), success=(put,)))
        except Definite as refused:
            if refused.code == "not-found":
                raise Definite(errors.LEASE_EXPIRED, str(refused)) from None
            raise
        if not answer.succeeded:
            raise Definite(errors.EXISTS)
        header = answer.header
        return Reply(position=header.revision, value_position=header.revision, epoch=header.raft_term)

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        request = rpc.RangeRequest(key=_below(group), range_end=_end(group), serializable=mode is not ReadMode.STRONG)
        answer = await self._list(request)
        first = len(_below(group))
        return Roster(
            tuple(Member(pair.key[first:].decode(), pair.value, pair.create_revision) for pair in answer.kvs),
            position=answer.header.revision,
            epoch=answer.header.raft_term,
        )

    async def watch_roster(self, group: str) -> Roster:
        roster = await self.roster(group, ReadMode.PLAIN)
        if self._watch is not None:
            self._watch.close()
        self._news.clear()
        create = rpc.WatchCreateRequest(
            key=_below(group), range_end=_end(group), start_revision=(roster.position or 0) + 1
        )
        request = rpc.WatchRequest(create_request=create)
        self._watch = LiveCall(self._channel, "Watch/Watch", request, rpc.WatchResponse, self._take)
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


def _below(group: str) -> bytes:
    return _ROOT + group.encode() + _SEPARATOR


def _end(group: str) -> bytes:
    return _ROOT + group.encode() + _AFTER_SEPARATOR
