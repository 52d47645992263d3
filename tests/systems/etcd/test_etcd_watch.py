"""etcd's watch stream against a server of bare frames: what is heard, in which order, and how it ends."""

import asyncio
import itertools

import pytest

from fencepost.harness.coordination import (
    Bookmark,
    Change,
    Changes,
    Compacted,
    Definite,
    Heard,
    Indefinite,
    WatchBegun,
    WatchMode,
)
from fencepost.systems.etcd.watches import EtcdWatches
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from tests.systems.contract.patience import PATIENCE_S, until
from tests.systems.etcd import etcd_wire as wire
from tests.systems.etcd.etcd_wire import Peer, outcome, playing
from tests.systems.etcd.whole_client import EtcdClient

_WAIT_S = 0.05


def listen(client: EtcdClient) -> EtcdWatches:
    ticks = itertools.count(1)
    return client.watching(WatchMode.PERSISTENT, ("k0",), lambda: next(ticks))


def response(revision: int, *events: rpc.Event, **fields: object) -> bytes:
    header = rpc.ResponseHeader(revision=revision, raft_term=2)
    return wire.message(rpc.WatchResponse(header=header, events=events, **fields))  # type: ignore[arg-type]


def put(key: str, value: bytes, revision: int) -> rpc.Event:
    return rpc.Event(kv=rpc.KeyValue(key=b"watched/" + key.encode(), value=value, mod_revision=revision))


def deleted(key: str, revision: int) -> rpc.Event:
    pair = rpc.KeyValue(key=b"watched/" + key.encode(), mod_revision=revision)
    return rpc.Event(type=rpc.Event.DELETE, kv=pair)


async def asked(peer: Peer) -> tuple[int, rpc.WatchRequest]:
    """The next message on the stream, which stays open."""
    data = await peer.frame(wire.DATA)
    assert not data.flags & wire.END_STREAM, "the client may say more"
    request: rpc.WatchRequest = rpc.WatchRequest.FromString(data.body[5:])
    return data.stream, request


def data(stream: int, body: bytes) -> bytes:
    return wire.frame(wire.DATA, 0, stream, body)


async def heard(watches: EtcdWatches, count: int, confirm: str | None = None) -> tuple[Heard, ...]:
    """So much of what the server tells, in however many answers: on a busy machine it comes late."""
    async with asyncio.timeout(PATIENCE_S):
        told = await watches.hear(_WAIT_S, confirm)
        while len(told) < count:
            told += await watches.hear(_WAIT_S, None)
    return told


async def begin(watches: EtcdWatches, peer: Peer, start: int | None, revision: int) -> tuple[int, WatchBegun]:
    begun = asyncio.create_task(watches.watch(start))
    stream, request = await asked(peer)
    create = request.create_request
    assert (create.key, create.range_end, create.start_revision) == (b"watched/", b"watched0", start or 0)
    peer.send(wire.head(stream), data(stream, response(revision, created=True)))
    return stream, await begun


def test_a_watch_from_now_tells_of_what_comes_after_the_revision_that_it_was_created_at() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            stream, begun = await begin(watches, peer, None, 7)
            assert begun == WatchBegun(7, position=7, epoch=2)
            told = response(8, put("k0", b"1", 8)) + response(9, put("p0", b"2", 9), put("p1", b"2", 9))
            told += response(9) + response(10, deleted("k0", 10))
            for at in range(0, len(told), 7):
                peer.send(data(stream, told[at : at + 7]))
            assert await heard(watches, 4) == (
                Changes(1, 8, (Change(8, "put", "k0", b"1"),)),
                Changes(2, 9, (Change(9, "put", "p0", b"2"), Change(9, "put", "p1", b"2"))),
                Bookmark(3, 9),
                Changes(4, 10, (Change(10, "deleted", "k0"),)),
            )
            assert await watches.hear(0.0, None) == ()

    asyncio.run(scenario())


def test_a_resumed_watch_tells_of_what_comes_from_its_start_on() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            _, begun = await begin(listen(client), peer, 5, 9)
            assert begun == WatchBegun(4, position=9, epoch=2)

    asyncio.run(scenario())


def test_a_bookmark_is_asked_for_on_the_open_stream() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            stream, _ = await begin(watches, peer, None, 7)
            hearing = asyncio.create_task(heard(watches, 1, confirm="k0"))
            again, request = await asked(peer)
            assert (again, request.WhichOneof("request_union")) == (stream, "progress_request")
            peer.send(data(stream, response(7, watch_id=-1)))
            assert await hearing == (Bookmark(1, 7),)

    asyncio.run(scenario())


@pytest.mark.parametrize("late", [False, True])
def test_a_compacted_start_is_told_with_where_history_begins(late: bool) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            refusal = response(20, canceled=True, compact_revision=15)
            if late:
                stream, _ = await begin(watches, peer, 5, 20)
                peer.send(data(stream, response(20, put("k0", b"1", 16)) + refusal))
                assert [type(one) for one in await heard(watches, 1)] == [Changes]
                refused = watches.hear(_WAIT_S, None)
            else:
                begun = asyncio.create_task(watches.watch(5))
                stream, _ = await asked(peer)
                peer.send(wire.head(stream), data(stream, refusal))
                refused = begun  # type: ignore[assignment]
            with pytest.raises(Compacted) as compacted:
                await refused
            assert (compacted.value.code, compacted.value.position) == ("compacted", 15)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("abort", ("indefinite", "connection-lost")),
        ("end", ("indefinite", "cancelled")),
        ("unavailable", ("indefinite", "unavailable")),
        ("reset", ("indefinite", "cancelled")),
        ("canceled", ("definite", "watch-cancelled")),
        ("nonsense", ("indefinite", "unforeseen-status")),
    ],
)
def test_what_came_before_the_end_is_told_first_and_then_always_why_it_ended(
    ending: str, expected: tuple[str, str]
) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            stream, _ = await begin(watches, peer, None, 7)
            watch = watches._watch
            assert watch is not None
            peer.send(data(stream, response(8, put("k0", b"1", 8))))
            match ending:
                case "end":
                    peer.send(wire.end(stream))
                case "unavailable":
                    peer.send(wire.end(stream, [("grpc-status", "14"), ("grpc-message", "etcdserver: no leader")]))
                case "reset":
                    peer.send(wire.rst_stream(stream, wire.CANCEL))
                case "canceled":
                    peer.send(data(stream, response(8, canceled=True)))
                case "nonsense":
                    peer.send(data(stream, b"\0\0\0\0\x02\x0a\x7f"))
                case _:
                    await until(lambda: watch._heard)
                    peer.writer.transport.abort()
            await until(lambda: watch._ended)
            assert len(await watches.hear(0.0, None)) == 1
            assert await outcome(watches.hear(0.0, None)) == expected
            assert await outcome(watches.hear(0.0, "k0")) == expected

    asyncio.run(scenario())


def test_another_watch_ends_the_one_before_it_on_the_same_connection() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            first, _ = await begin(watches, peer, None, 7)
            begun = asyncio.create_task(watches.watch(8))
            given_up = await peer.frame(wire.RST_STREAM)
            assert given_up.stream == first
            stream, _ = await asked(peer)
            assert stream != first
            peer.send(data(first, response(8, put("k0", b"1", 8))))
            peer.send(wire.head(stream), data(stream, response(8, created=True)))
            assert (await begun).after == 7
            assert await watches.hear(_WAIT_S, None) == ()

    asyncio.run(scenario())


def test_a_listener_that_never_began_hears_nothing() -> None:
    async def scenario() -> None:
        async with playing() as (client, _):
            assert await outcome(listen(client).hear(0.0, None)) == ("definite", "not-watching")

    asyncio.run(scenario())


def test_deleting_what_is_not_there_is_no_change() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            deleting = asyncio.create_task(listen(client).delete("k0"))
            stream = await peer.request()
            answer = rpc.DeleteRangeResponse(header=rpc.ResponseHeader(revision=7), deleted=0)
            peer.send(wire.answer(stream, wire.message(answer)))
            [ended] = await asyncio.gather(deleting, return_exceptions=True)
            assert isinstance(ended, Definite)
            assert ended.code == "absent"

    asyncio.run(scenario())


def test_a_watch_on_a_closed_connection_was_not_begun() -> None:
    async def scenario() -> None:
        async with playing() as (client, _):
            watches = listen(client)
            await watches.close()
            assert await outcome(watches.watch(None)) == ("not sent", "not-connected")

    asyncio.run(scenario())


def test_nobody_waits_for_a_watch_that_is_closed_while_it_begins() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            watches = listen(client)
            begun = asyncio.create_task(watches.watch(None))
            await asked(peer)
            await watches.close()
            [ended] = await asyncio.gather(begun, return_exceptions=True)
            assert isinstance(ended, Indefinite)
            assert ended.code == "closed"

    asyncio.run(scenario())
