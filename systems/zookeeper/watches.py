"""ZooKeeper's watches on one session, and the writes that they report.

PERSISTENT is one recursive `addWatch` of everything below `/fencepost` (from 3.6). ONE_SHOT is an `exists` with a watch
for every key, set again after each event; the answer to `exists` shows the newest change that was seen.

Events and answers come on one connection. ZooKeeper promises their order, so it is kept: the answer to a read is noted
when it is read from the connection, after the events before it. A read is sent without waiting for it; a paused server
answers it when it wakes, and nothing is cancelled meanwhile. The zxid of an answer is the last transaction that the
server had applied; the zxid of an event (from 3.9) is that of its change. The server runs no read while it applies a
write (CommitProcessor). So after the answer to `addWatch` with zxid z, every change above z is reported.

A lost session is not resumed: its watch is gone, and nothing reports the changes in between.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.harness.coordination import (
    Change,
    Changes,
    Definite,
    Heard,
    Indefinite,
    NotSent,
    ReadMode,
    Reply,
    WatchBegun,
    WatchedKey,
    WatchedRead,
    WatchMode,
)
from fencepost.systems.zookeeper.storage import ROOT, ZooKeeperStorage
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import CONNECTION_LOST, NO_NODE, ZooKeeperError
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, Op
from fencepost.systems.zookeeper.wire.session import ANY_VERSION, ZooKeeperSession, raise_outcome, zxid_of

_ADD_WATCH: Final = 106
_PERSISTENT_RECURSIVE: Final = wire.INT.pack(1)
_KINDS: Final = {1: "created", 2: "deleted", 3: "changed"}
_NOT_WATCHING: Final = "not-watching"


class WatchedStorage(ZooKeeperStorage):
    """`harness.coordination.Watchable`."""

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> "ZooKeeperWatches":
        return ZooKeeperWatches(self, ROOT, mode, keys, now_ns)


class ZooKeeperWatches:
    """`harness.coordination.Watches` on the session of a storage client; `root` is the znode above the keys."""

    def __init__(
        self, storage: ZooKeeperStorage, root: str, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]
    ) -> None:
        self._storage = storage
        self._session: ZooKeeperSession = storage.session
        self._root = root
        self._mode = mode
        self._keys = keys
        self._now_ns = now_ns
        #: Events are stamped by the machine's monotonic clock.
        self._zero_ns = time.monotonic_ns() - now_ns()
        self._heard: list[Heard] = []
        self._fired: dict[str, None] = {}
        self._watching = False
        self._asked: asyncio.Future[WatchedRead] | None = None

    @property
    def session_id(self) -> int | None:
        return self._storage.session_id

    async def close(self) -> None:
        await self._storage.close()

    # Writes

    async def put(self, key: str, value: bytes) -> Reply:
        """Read the znode, then `setData` or `create`; when the read is lost, nothing was written."""
        try:
            await self._storage.read(key, ReadMode.PLAIN)
        except Definite as refused:
            if refused.code != "no-node":
                raise
            return await self._storage.create(key, value)
        except Indefinite as error:
            raise NotSent(error.code, "at the read") from None
        return await self._storage.write(key, value)

    async def delete(self, key: str) -> Reply:
        """Delete the key; the answer's zxid is the deletion's own, since a server answers a write as it applies it."""
        try:
            zxid = await self._session.call(Op.DELETE, wire.version_record(self._path(key), ANY_VERSION), zxid_of)
        except ZooKeeperError as error:
            raise_outcome(error, {NO_NODE: "absent"})
        return Reply(position=zxid, value_position=zxid, epoch=zxid >> 32)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        return await self._storage.cas(key, old, new)

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        sets = [(Op.SET_DATA, wire.set_record(self._path(key), value, ANY_VERSION)) for key, value in pairs]
        try:
            zxid, results = await self._session.call_multi(sets)
        except ZooKeeperError as error:
            raise_outcome(error)
        stat = results[0].stat
        assert stat is not None
        return Reply(position=zxid, value_position=stat.mzxid, epoch=zxid >> 32)

    async def compact(self, position: int) -> None:
        raise Definite("unsupported", "ZooKeeper keeps no history to compact")

    async def entries(self) -> tuple[WatchedKey, ...]:
        """Read all keys; the first read follows a write of this session, so it and the later ones are current."""
        entries = []
        mode = ReadMode.BARRIER
        for key in self._keys:
            try:
                reply = await self._storage.read(key, mode)
            except Definite as refused:
                if refused.code != "no-node":
                    raise
            else:
                if reply.value is not None and reply.value_position is not None:
                    entries.append(WatchedKey(key, reply.value, reply.value_position))
            mode = ReadMode.PLAIN
        return tuple(entries)

    # Watches

    async def watch(self, start: int | None) -> WatchBegun:
        self._drain()
        self._heard.clear()
        if self._mode is WatchMode.PERSISTENT:
            record = wire.text(self._root) + _PERSISTENT_RECURSIVE
            try:
                zxid = await self._ask(_ADD_WATCH, record, zxid_of)
            except ZooKeeperError as error:
                raise_outcome(error)
        else:
            looks = await asyncio.gather(*self._arm(self._keys))
            zxid = min(look.position for look in looks)
        self._watching = True
        return WatchBegun(zxid, position=zxid, epoch=zxid >> 32)

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        if not self._watching:
            raise Definite(_NOT_WATCHING)
        ended = self._session.connection.ended
        if ended is None:
            self._drain()
            if confirm is not None and (self._asked is None or self._asked.done()):
                self._asked = self._look(confirm)
            fired, self._fired = tuple(self._fired), {}
            self._arm(fired)
            await asyncio.sleep(wait_s)
        self._drain()
        if self._heard:
            heard, self._heard = tuple(self._heard), []
            return heard
        ended = self._session.connection.ended
        if ended is not None:
            raise CONNECTION_LOST.outcome(ended)
        return ()

    def _arm(self, keys: Iterable[str]) -> "list[asyncio.Future[WatchedRead]]":
        """Set the watches of these keys, in one send."""
        frames, looks = b"", []
        for key in keys:
            queued, look = self._queue(Op.EXISTS, key, arms=True)
            frames += queued
            looks.append(look)
        if frames:
            self._session.connection.send(frames)
        return looks

    def _look(self, key: str) -> "asyncio.Future[WatchedRead]":
        queued, look = self._queue(Op.GET_DATA, key, arms=False)
        self._session.connection.send(queued)
        return look

    def _queue(self, op: Op, key: str, *, arms: bool) -> "tuple[bytes, asyncio.Future[WatchedRead]]":
        """Queue one read of a key; its answer is noted in order. That there is no such znode is an answer too."""

        def answered(body: bytes, zxid: int) -> WatchedRead:
            if arms:
                return self._seen(key, zxid, None, wire.read_stat(body, HEADER_BYTES).mzxid, arms)
            data, stat = wire.read_data(body, HEADER_BYTES)
            return self._seen(key, zxid, data or None, stat.mzxid, arms)

        def refused(code: int, zxid: int) -> WatchedRead | None:
            return self._seen(key, zxid, None, None, arms) if code == NO_NODE else None

        record = wire.path_and_watch(self._path(key), arms)
        return self._session.connection.queue(op, record, answered, refused)

    def _seen(self, key: str, zxid: int, value: bytes | None, mzxid: int | None, arms: bool) -> WatchedRead:
        """Note an answer after the events that came before it."""
        self._drain()
        look = WatchedRead(self._now_ns(), zxid, key, value, mzxid, arms)
        self._heard.append(look)
        return look

    def _drain(self) -> None:
        """Note the events that have arrived."""
        events = self._session.watch_events
        while not events.empty():
            event = events.get_nowait()
            kind = _KINDS.get(event.kind)
            if kind is None or not event.path.startswith(f"{self._root}/"):
                continue  # an event of the session itself, or of the znode above the keys
            key = event.path[len(self._root) + 1 :]
            change = Change(event.zxid, kind, key)
            self._heard.append(Changes(event.received_ns - self._zero_ns, event.zxid, (change,)))
            if self._mode is WatchMode.ONE_SHOT:
                self._fired[key] = None

    def _path(self, key: str) -> bytes:
        return wire.text(f"{self._root}/{key}")

    async def _ask(self, op: int, record: bytes, parse: Callable[[bytes, int], int]) -> int:
        return await self._session.connection.request(op, record, parse)
