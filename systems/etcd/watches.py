"""etcd's watch: one stream with one watch of all keys below `watched/`, and the writes that it reports.

A watch begins at a start revision, or after the revision in the header of the answer that says it was created
(etcd.io/docs/v3.5/learning/api, Watch streams). It never restarts here: after its end the reports received are
returned, and then every call raises the reason. Answers are stamped when they are read from the connection.

Bookmarks come only on request (WatchProgressRequest). On a stream with one watch the answer is about that watch,
whichever id it has: releases before 3.5.8 answer for the whole stream, with watch id -1.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fencepost.harness.coordination import (
    Bookmark,
    Change,
    Changes,
    Compacted,
    Definite,
    Heard,
    Indefinite,
    NotSent,
    Reply,
    WatchBegun,
    WatchedKey,
)
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import LiveCall, unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

_PREFIX: Final = b"watched/"
_END: Final = b"watched0"

_EQUAL: Final = rpc.Compare.EQUAL


class EtcdWatches:
    """`harness.coordination.Watches` on one connection."""

    def __init__(self, connection: Http2Connection, now_ns: Callable[[], int]) -> None:
        self._connection = connection
        self._now_ns = now_ns
        self._range = unary(connection, "KV/Range", rpc.RangeResponse)
        self._put = unary(connection, "KV/Put", rpc.PutResponse)
        self._delete = unary(connection, "KV/DeleteRange", rpc.DeleteRangeResponse)
        self._txn = unary(connection, "KV/Txn", rpc.TxnResponse)
        self._compact = unary(connection, "KV/Compact", rpc.CompactionResponse)
        self._watch: _Watch | None = None

    @property
    def session_id(self) -> int | None:
        return None

    async def close(self) -> None:
        self._connection.close()

    async def put(self, key: str, value: bytes) -> Reply:
        answer = await self._put(rpc.PutRequest(key=_PREFIX + key.encode(), value=value))
        return _written(answer.header)

    async def delete(self, key: str) -> Reply:
        answer = await self._delete(rpc.DeleteRangeRequest(key=_PREFIX + key.encode()))
        if not answer.deleted:
            raise Definite(errors.ABSENT)
        return _written(answer.header)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        name = _PREFIX + key.encode()
        compare = rpc.Compare(result=_EQUAL, target=rpc.Compare.VALUE, key=name, value=old)
        answer = await self._txn(rpc.TxnRequest(compare=(compare,), success=(_put(name, new),)))
        if not answer.succeeded:
            raise Definite(errors.CAS_MISMATCH)
        return _written(answer.header)

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        puts = tuple(_put(_PREFIX + key.encode(), value) for key, value in pairs)
        return _written((await self._txn(rpc.TxnRequest(success=puts))).header)

    async def compact(self, position: int) -> None:
        """With `physical` the answer comes after the old revisions were removed from the store."""
        await self._compact(rpc.CompactionRequest(revision=position, physical=True))

    async def entries(self) -> tuple[WatchedKey, ...]:
        answer = await self._range(rpc.RangeRequest(key=_PREFIX, range_end=_END))
        return tuple(
            WatchedKey(pair.key[len(_PREFIX) :].decode(), pair.value, pair.mod_revision) for pair in answer.kvs
        )

    async def watch(self, start: int | None) -> WatchBegun:
        if self._watch is not None:
            self._watch.close()
        self._watch = watch = _Watch(self._connection, self._now_ns, start or 0)
        return await watch.begun()

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        if self._watch is None:
            raise Definite(errors.NOT_WATCHING)
        return await self._watch.hear(wait_s, ask=confirm is not None)


class _Watch:
    """One watch from its creation to its end."""

    def __init__(self, connection: Http2Connection, now_ns: Callable[[], int], start: int) -> None:
        self._now_ns = now_ns
        self._start = start
        self._heard: list[Heard] = []
        self._created: asyncio.Future[rpc.ResponseHeader] = asyncio.get_running_loop().create_future()
        self._refused: Definite | None = None
        create = rpc.WatchCreateRequest(key=_PREFIX, range_end=_END, start_revision=start)
        request = rpc.WatchRequest(create_request=create)
        self._call = LiveCall(connection, "Watch/Watch", request, rpc.WatchResponse, self._take)

    async def begun(self) -> WatchBegun:
        over = asyncio.ensure_future(self._call.over())
        either: list[asyncio.Future[Any]] = [self._created, over]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
        if not self._created.done():
            raise self._why()
        header = self._created.result()
        after = self._start - 1 if self._start else header.revision
        return WatchBegun(after, position=header.revision, epoch=header.raft_term)

    async def hear(self, wait_s: float, *, ask: bool) -> tuple[Heard, ...]:
        if ask and self._ended is None:
            self._call.send(rpc.WatchRequest(progress_request=rpc.WatchProgressRequest()))
        if self._ended is None:
            await asyncio.sleep(wait_s)
        if self._heard:
            heard, self._heard = tuple(self._heard), []
            return heard
        if self._ended is not None:
            raise self._why()
        return ()

    def close(self) -> None:
        self._call.close()

    @property
    def _ended(self) -> Definite | Indefinite | None:
        return self._refused or self._call.ended

    def _why(self) -> Definite | Indefinite:
        """The reason for the watch's end; never `NotSent`, since the watch itself was sent."""
        why = self._ended
        assert why is not None
        return Indefinite(why.code, str(why)) if isinstance(why, NotSent) else why

    def _take(self, answer: "rpc.WatchResponse") -> None:
        if answer.canceled:
            if answer.compact_revision:
                self._refused = Compacted(answer.compact_revision, answer.cancel_reason)
            else:
                self._refused = Definite(errors.WATCH_CANCELLED, answer.cancel_reason)
            self._call.close()
        elif answer.created:
            if not self._created.done():
                self._created.set_result(answer.header)
        elif answer.events:
            changes = tuple(_change(event) for event in answer.events)
            self._heard.append(Changes(self._now_ns(), answer.header.revision, changes))
        else:
            self._heard.append(Bookmark(self._now_ns(), answer.header.revision))


def _change(event: "rpc.Event") -> Change:
    pair = event.kv
    key = pair.key[len(_PREFIX) :].decode()
    if event.type == rpc.Event.DELETE:
        return Change(pair.mod_revision, "deleted", key)
    return Change(pair.mod_revision, "put", key, pair.value)


def _written(header: "rpc.ResponseHeader") -> Reply:
    return Reply(position=header.revision, value_position=header.revision, epoch=header.raft_term)


def _put(key: bytes, value: bytes) -> "rpc.RequestOp":
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))
