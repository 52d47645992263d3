"""ZooKeeper's watches against a scripted server: events and answers stay in the order in which they came."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from fencepost.harness.coordination import (
    Change,
    Changes,
    Definite,
    Heard,
    Indefinite,
    WatchBegun,
    WatchedKey,
    WatchedRead,
    WatchMode,
)
from fencepost.systems.zookeeper.watches import ZooKeeperWatches
from fencepost.systems.zookeeper.wire.errors import NO_NODE
from fencepost.systems.zookeeper.wire.jute import Op
from tests.systems.contract.patience import PATIENCE_S, until
from tests.systems.zookeeper import zookeeper_scripts as scripts
from tests.systems.zookeeper.zookeeper_scripts import ZXID, Answer, Request, Script, Scripted, opened, reply, scripted

_WAIT_S = 0.05
_ADD_WATCH = 106
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
MZXID = (7 << 32) + 4


def event(key: str, kind: int, zxid: int, *, root: str = "/fencepost/") -> bytes:
    path = (root + key).encode()
    return reply(-1, 0, struct.pack(">iii", kind, 3, len(path)) + path, zxid)


@asynccontextmanager
async def listening(
    script: Script, mode: WatchMode, keys: tuple[str, ...] = ("k0", "k1")
) -> AsyncIterator[tuple[ZooKeeperWatches, Scripted]]:
    async with scripted(script) as server:
        client = await opened(server.port)
        try:
            yield client.watching(mode, keys, lambda: 5), server
        finally:
            await client.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario()

    asyncio.run(bounded())


async def heard(watches: ZooKeeperWatches, count: int, confirm: str | None = None) -> tuple[Heard, ...]:
    """So much of what comes, in however many answers: on a busy machine it comes late."""
    found = await watches.hear(_WAIT_S, confirm)
    while len(found) < count:
        found += await watches.hear(_WAIT_S, None)
    return found


def told(*heard: object) -> list[tuple[object, ...]]:
    """Without the times."""
    found: list[tuple[object, ...]] = []
    for one in heard:
        if isinstance(one, Changes):
            found += [(change.position, change.kind, change.key) for change in one.changes]
        else:
            assert isinstance(one, WatchedRead)
            found.append((one.position, "armed" if one.arms else "look", one.key, one.value, one.value_position))
    return found


def test_a_persistent_watch_is_one_request_and_an_answer_stands_among_the_events() -> None:
    def script(request: Request, number: int) -> Answer:
        if request.op == _ADD_WATCH:
            assert request.record == struct.pack(">i", 10) + b"/fencepost" + struct.pack(">i", 1)
            return reply(request.xid, 0, struct.pack(">i", 0)) + event("k0", CHANGED, ZXID + 1)
        assert (request.op, request.record[-1:]) == (Op.GET_DATA, b"\0"), "a look leaves no watch of its own"
        return (
            event("k1", DELETED, ZXID + 2)
            + event("", CHILDREN, ZXID + 2, root="/fencepost")
            + reply(request.xid, 0, scripts.data(b"7"), ZXID + 2)
            + event("k0", CREATED, ZXID + 3)
        )

    async def scenario() -> None:
        async with listening(script, WatchMode.PERSISTENT) as (watches, _):
            assert await watches.watch(None) == WatchBegun(ZXID, position=ZXID, epoch=7)
            assert told(*await heard(watches, 4, confirm="k0")) == [
                (ZXID + 1, "changed", "k0"),
                (ZXID + 2, "deleted", "k1"),
                (ZXID + 2, "look", "k0", b"7", MZXID),
                (ZXID + 3, "created", "k0"),
            ]

    run(scenario)


def test_an_event_of_a_release_that_tells_no_zxid_has_no_position() -> None:
    def script(request: Request, number: int) -> Answer:
        return reply(request.xid, 0, struct.pack(">i", 0)) + scripts.watch(b"/fencepost/k0")

    async def scenario() -> None:
        async with listening(script, WatchMode.PERSISTENT) as (watches, _):
            await watches.watch(None)
            (one,) = await heard(watches, 1)
            assert isinstance(one, Changes)
            assert one.changes == (Change(None, "changed", "k0"),)

    run(scenario)


def test_a_look_is_not_waited_for_and_only_one_is_under_way() -> None:
    def script(request: Request, number: int) -> Answer:
        return (0, struct.pack(">i", 0)) if request.op == _ADD_WATCH else scripts.SILENCE

    async def scenario() -> None:
        async with listening(script, WatchMode.PERSISTENT) as (watches, server):
            await watches.watch(None)
            assert await watches.hear(0.0, "k0") == ()
            await until(lambda: len(server.requests) == 2)
            assert await watches.hear(_WAIT_S, "k0") == ()
            assert [request.op for request in server.requests] == [_ADD_WATCH, Op.GET_DATA]
            server.writers[0].write(reply(server.requests[1].xid, NO_NODE, zxid=ZXID + 9))
            assert told(*await heard(watches, 1)) == [(ZXID + 9, "look", "k0", None, None)]

    run(scenario)


def test_a_one_shot_is_set_by_exists_and_set_again_after_its_event() -> None:
    def script(request: Request, number: int) -> Answer:
        assert (request.op, request.record[-1:]) == (Op.EXISTS, b"\1")
        if number == 0:
            return reply(request.xid, NO_NODE, zxid=ZXID)
        zxid = ZXID + number - 1
        answer = reply(request.xid, 0, scripts.STAT, zxid)
        return answer + event("k0", CREATED, ZXID + 1) if number == 1 else answer

    async def scenario() -> None:
        async with listening(script, WatchMode.ONE_SHOT) as (watches, server):
            assert (await watches.watch(None)).after == ZXID
            assert told(*await heard(watches, 4)) == [
                (ZXID, "armed", "k0", None, None),
                (ZXID, "armed", "k1", None, MZXID),
                (ZXID + 1, "created", "k0"),
                (ZXID + 1, "armed", "k0", None, MZXID),
            ]
            assert await watches.hear(_WAIT_S, None) == ()
            assert len(server.requests) == 3

    run(scenario)


def test_what_came_before_the_connection_broke_is_told_first() -> None:
    def script(request: Request, number: int) -> Answer:
        if request.op == _ADD_WATCH:
            return reply(request.xid, 0, struct.pack(">i", 0)) + event("k0", CHANGED, ZXID + 1)
        return scripts.CLOSE

    async def scenario() -> None:
        async with listening(script, WatchMode.PERSISTENT) as (watches, _):
            await watches.watch(None)
            assert len(await heard(watches, 1, confirm="k0")) == 1
            await until(lambda: watches._session.connection.ended)
            for _ in range(2):
                with pytest.raises(Indefinite, match="connection-lost"):
                    await watches.hear(_WAIT_S, "k0")

    run(scenario)


def test_a_release_without_persistent_watches_refuses_definitely() -> None:
    async def scenario() -> None:
        async with listening(lambda request, number: (-6, b""), WatchMode.PERSISTENT) as (watches, _):
            with pytest.raises(Definite, match="not-watching"):
                await watches.hear(0.0, None)
            with pytest.raises(Definite, match="unimplemented"):
                await watches.watch(None)
            with pytest.raises(Definite, match="unsupported"):
                await watches.compact(3)

    run(scenario)


def test_a_put_writes_what_is_there_and_creates_what_is_not() -> None:
    there = True

    def script(request: Request, number: int) -> Answer:
        match request.op:
            case Op.GET_DATA:
                return (0, scripts.data(b"1")) if there else (NO_NODE, b"")
            case Op.SET_DATA:
                return (0, scripts.STAT)
            case Op.CREATE_WITH_STAT:
                return (0, struct.pack(">i", 13) + b"/fencepost/k0" + scripts.STAT)
            case _:
                return (NO_NODE, b"")

    async def scenario() -> None:
        nonlocal there
        async with listening(script, WatchMode.PERSISTENT) as (watches, server):
            assert (await watches.put("k0", b"2")).value_position == MZXID
            there = False
            assert (await watches.put("k0", b"2")).value_position == MZXID
            with pytest.raises(Definite, match="absent"):
                await watches.delete("k0")
            done = [request.op for request in server.requests]
            assert done == [Op.GET_DATA, Op.SET_DATA, Op.GET_DATA, Op.GET_DATA, Op.CREATE_WITH_STAT, Op.DELETE]

    run(scenario)


def test_entries_are_read_behind_a_write_of_the_same_session() -> None:
    def script(request: Request, number: int) -> Answer:
        if request.op == Op.SET_DATA:
            return (0, scripts.STAT)
        return (0, scripts.data(b"3")) if request.record[4:].startswith(b"/fencepost/k1") else (NO_NODE, b"")

    async def scenario() -> None:
        async with listening(script, WatchMode.PERSISTENT) as (watches, server):
            assert await watches.entries() == (WatchedKey("k1", b"3", MZXID),)
            assert [request.op for request in server.requests] == [Op.SET_DATA, Op.GET_DATA, Op.GET_DATA]

    run(scenario)
