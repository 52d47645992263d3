"""The etcd client's line on the wire: requests, answers and flow control, against a server of bare frames."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import hpack
import pytest

from fencepost.harness.coordination import ReadMode
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from tests.systems.etcd import etcd_scripts as scripts
from tests.systems.etcd import etcd_wire as wire
from tests.systems.etcd.etcd_wire import LOOPS, Peer, begun, outcome, playing

LOST = ("indefinite", "connection-lost")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on each of the two loops that the harness may live on."""

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(coroutine, 100))

    return on_loop


# A request and its answer.


def test_a_request_is_two_frames_that_need_no_table(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            told = [dict(_settings(frame.body)) for frame in peer.greeting if frame.kind == wire.SETTINGS]
            assert told == [{1: 0, 2: 0, 4: 2**31 - 1}]
            for _ in range(2):  # the second block means the same as the first
                put = begun(client.write("k", b"v"))
                head, data = await peer.frame(), await peer.frame()
                assert (head.kind, head.flags, data.kind, data.flags) == (1, wire.END_HEADERS, 0, wire.END_STREAM)
                decoder = hpack.Decoder()
                decoder.header_table_size = decoder.max_allowed_table_size = 0
                headers = {str(name): str(value) for name, value in decoder.decode(head.body)}
                assert headers[":method"] == "POST"
                assert headers[":path"] == "/etcdserverpb.KV/Put"
                assert (headers["te"], headers["content-type"]) == ("trailers", "application/grpc")
                assert rpc.PutRequest.FromString(data.body[5:]) == rpc.PutRequest(key=b"k", value=b"v")
                assert data.body[:5] == b"\0" + (len(data.body) - 5).to_bytes(4, "big")
                peer.send(wire.answer(head.stream))
                assert await put == ("ok", "")

    run(scenario())


def _settings(body: bytes) -> list[tuple[int, int]]:
    return [
        (int.from_bytes(body[i : i + 2], "big"), int.from_bytes(body[i + 2 : i + 6], "big"))
        for i in range(0, len(body), 6)
    ]


def test_nagle_is_off(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, _):
            transport = client._connection._transport
            assert transport is not None
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(scenario())


def test_answers_may_come_in_any_order_and_in_any_pieces(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            reads = [asyncio.create_task(client.read(f"k{i}", ReadMode.STRONG)) for i in range(4)]
            streams = [await peer.request() for _ in reads]
            text = b""
            for value in (3, 1, 0, 2):
                pair = rpc.KeyValue(key=b"k", value=b"%d" % value, mod_revision=value, version=1)
                body = wire.message(rpc.RangeResponse(header=rpc.ResponseHeader(revision=9), kvs=[pair]))
                text += wire.answer(streams[value], body)
            for i in range(len(text)):
                peer.send(text[i : i + 1])
                if i % 7 == 0:
                    await asyncio.sleep(0)
            assert [(await read).value for read in reads] == [b"0", b"1", b"2", b"3"]

    run(scenario())


def test_padding_priority_and_blocks_in_parts_are_understood(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            put = begun(client.write("k", b"v"))
            stream = await peer.request()
            head, end = wire.block(wire.OK_HEAD), wire.block(wire.OK_END, huffman=False)
            flags = wire.PADDED | wire.WITH_PRIORITY
            peer.send(
                wire.frame(wire.HEADERS, wire.END_HEADERS, stream, wire.block([(":status", "103"), ("link", "x")])),
                wire.frame(wire.PRIORITY, 0, 99, bytes(5)),
                wire.frame(wire.HEADERS, flags, stream, b"\x03" + bytes(5) + head[:2] + b"pad"),
                wire.frame(wire.CONTINUATION, 0, stream, head[2:4]),
                wire.frame(wire.CONTINUATION, 0, stream),
                wire.frame(wire.CONTINUATION, wire.END_HEADERS, stream, head[4:]),
                wire.frame(0xFA, 0xFF, stream, b"of a kind that is not known"),
                wire.frame(wire.DATA, wire.PADDED, stream, b"\x05" + wire.PUT[:3] + b"stuff"),
                wire.frame(wire.DATA, wire.PADDED, stream, b"\x00"),
                wire.frame(wire.DATA, 0, stream, wire.PUT[3:]),
                wire.frame(wire.HEADERS, wire.END_STREAM, stream, end[:1]),
                wire.frame(wire.CONTINUATION, wire.END_HEADERS, stream, end[1:]),
            )
            assert await put == ("ok", "")

    run(scenario())


def test_blocks_are_read_with_a_table_until_the_server_gives_it_up() -> None:
    """Until our settings are acknowledged a server may use a table; the same bytes then mean different things."""

    async def scenario() -> None:
        encoder = hpack.Encoder()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = Peer(reader, writer)
            await reader.readexactly(len(wire.PREFACE))
            peer.send(wire.settings())
            for _ in range(2):
                await _answer_with(peer, encoder)
            peer.send(wire.frame(wire.SETTINGS, wire.ACK, 0))
            encoder.header_table_size = 0
            await _answer_with(peer, encoder)
            stream = await peer.request()
            # The table is gone, so nothing stands at its first place.
            peer.send(wire.frame(wire.HEADERS, wire.END_HEADERS, stream, b"\xbe"))

        async with wire.listening(serve) as port, scripts.client_of(port) as client:
            for _ in range(3):
                assert await outcome(client.write("k", b"v")) == ("ok", "")
            assert await outcome(client.write("k", b"v")) == LOST

    async def _answer_with(peer: Peer, encoder: hpack.Encoder) -> None:
        stream = await peer.request()
        head = encoder.encode([*wire.OK_HEAD, ("x-custom", "y")])
        peer.send(wire.frame(wire.HEADERS, wire.END_HEADERS, stream, head))
        peer.send(wire.frame(wire.DATA, 0, stream, wire.PUT))
        end = encoder.encode(wire.OK_END)
        peer.send(wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, stream, end))

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_equal_bytes_may_differ_while_there_is_a_table() -> None:
    first_of_table, plain_head = b"\xbe", b"\x88"

    def entering(name: bytes, value: bytes) -> bytes:
        return b"\x40" + bytes((len(name),)) + name + bytes((len(value),)) + value

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = Peer(reader, writer)
            await reader.readexactly(len(wire.PREFACE))
            peer.send(wire.settings())
            for end in (entering(b"grpc-status", b"3"), first_of_table, entering(b"grpc-status", b"0"), first_of_table):
                stream = await peer.request()
                peer.send(
                    wire.frame(wire.HEADERS, wire.END_HEADERS, stream, plain_head),
                    wire.frame(wire.DATA, 0, stream, wire.PUT),
                    wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, stream, end),
                )

        async with wire.listening(serve) as port, scripts.client_of(port) as client:
            ends = [(await outcome(client.write("k", b"v")))[0] for _ in range(4)]
            assert ends == ["definite", "definite", "ok", "ok"]

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_pings_are_answered_and_settings_acknowledged(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (_, peer):
            assert (await peer.frame(wire.SETTINGS)).flags == wire.ACK
            peer.send(wire.frame(wire.PING, 0, 0, b"12345678"))
            assert await peer.frame() == (wire.PING, wire.ACK, 0, b"12345678")
            peer.send(wire.frame(wire.PING, wire.ACK, 0, b"12345678"), wire.settings((wire.INITIAL_WINDOW, 5)))
            assert await peer.any_frame() == (wire.SETTINGS, wire.ACK, 0, b"")

    run(scenario())


# Flow control.


def test_a_bandwidth_ping_is_answered_with_the_next_request(run: Any) -> None:
    """grpc-go sends one for every request; answered on their own they would double what is written."""
    ping = bytes((2, 4, 16, 16, 9, 14, 7, 7))

    async def scenario() -> None:
        async with playing() as (client, peer):
            peer.send(wire.frame(wire.PING, 0, 0, ping))
            assert await peer.silent()
            for value in (b"small", b"v" * 20_000):
                put = begun(client.write("k", value))
                assert await peer.frame() == (wire.PING, wire.ACK, 0, ping)
                stream = (await peer.frame()).stream
                while not (await peer.frame()).flags & wire.END_STREAM:
                    pass
                peer.send(wire.answer(stream), wire.frame(wire.PING, 0, 0, ping))
                assert await put == ("ok", "")
            peer.send(wire.frame(wire.PING, 0, 0, bytes(8)))
            assert (await peer.frame()).body == bytes(8), "another content is answered at once"
            peer.send(wire.frame(wire.PING, 0, 0, ping))
            assert (await peer.frame()).body == ping, "and so is a second one that waits"

    run(scenario())


def test_a_request_waits_for_its_streams_window(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 7))) as (client, peer):
            put = begun(client.write("k", b"v" * 100))
            stream = (await peer.frame(wire.HEADERS)).stream
            sent = await peer.frame()
            assert (sent.kind, sent.flags, len(sent.body)) == (wire.DATA, 0, 7)
            assert await peer.silent()
            # The window of the connection does not help.
            peer.send(wire.window_update(0, 1000))
            assert await peer.silent()
            peer.send(wire.window_update(stream, 20))
            more = await peer.frame()
            assert (more.flags, len(more.body)) == (0, 20)
            peer.send(wire.window_update(stream, 1000))
            last = await peer.frame()
            assert last.flags == wire.END_STREAM
            whole = sent.body + more.body + last.body
            assert rpc.PutRequest.FromString(whole[5:]).value == b"v" * 100
            peer.send(wire.answer(stream))
            assert await put == ("ok", "")

    run(scenario())


def test_a_window_may_shrink_below_nothing(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 10))) as (client, peer):
            put = begun(client.write("k", b"v" * 100))
            stream = (await peer.frame(wire.DATA)).stream
            peer.send(wire.settings((wire.INITIAL_WINDOW, 0)), wire.window_update(stream, 10))
            assert await peer.silent()
            peer.send(wire.window_update(stream, 1))
            assert len((await peer.frame()).body) == 1
            peer.send(wire.settings((wire.INITIAL_WINDOW, 65535)))
            assert (await peer.frame()).flags == wire.END_STREAM
            peer.send(wire.answer(stream))
            assert await put == ("ok", "")

    run(scenario())


def test_a_request_waits_for_the_connections_window_and_is_cut_into_frames(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 1 << 20), (wire.MAX_FRAME, 20_000))) as (client, peer):
            put = begun(client.write("k", b"v" * 100_000))
            behind = begun(client.write("behind", b"v"))
            sizes: dict[int, list[int]] = {1: [], 3: []}
            while sum(sizes[1]) < 65_535:
                sent = await peer.frame(wire.DATA)
                sizes[sent.stream].append(len(sent.body))
            assert sizes == {1: [20_000, 20_000, 20_000, 5_535], 3: []}
            assert (await peer.frame())[:3] == (wire.HEADERS, wire.END_HEADERS, 3)
            assert await peer.silent()
            peer.send(wire.window_update(0, 1 << 20))
            while not (sent := await peer.frame(wire.DATA)).flags:
                sizes[sent.stream].append(len(sent.body))
            assert sent.stream == 1
            assert (await peer.frame(wire.DATA)).stream == 3
            peer.send(wire.answer(1), wire.answer(3))
            assert [await put, await behind] == [("ok", "")] * 2

    run(scenario())


def test_an_answer_before_the_whole_request_counts(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 7))) as (client, peer):
            put = begun(client.write("k", b"v" * 100))
            stream = (await peer.frame(wire.DATA)).stream
            peer.send(wire.end(stream, [*wire.OK_HEAD, ("grpc-status", "3"), ("grpc-message", "too much")]))
            assert await put == ("definite", "invalid-argument")
            assert await peer.frame() == (wire.RST_STREAM, 0, stream, wire.CANCEL.to_bytes(4, "big"))
            peer.send(wire.window_update(stream, 1000), wire.window_update(0, 1000))
            assert await peer.silent()

    run(scenario())


def test_no_more_requests_at_a_time_than_the_server_allows(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.MAX_STREAMS, 1))) as (client, peer):
            first = begun(client.write("k", b"1"))
            stream = await peer.request()
            assert await outcome(client.write("k", b"2")) == ("definite", "too-many-streams")
            assert await peer.silent()
            peer.send(wire.answer(stream))
            assert await first == ("ok", "")
            third = begun(client.write("k", b"3"))
            peer.send(wire.answer(await peer.request()))
            assert await third == ("ok", "")

    run(scenario())


def test_windows_towards_us_are_filled_up(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            for _ in range(2):
                put = begun(client.write("k", b"v"))
                stream = await peer.request()
                peer.send(wire.head(stream), wire.frame(wire.DATA, 0, stream, wire.PUT))
                piece = wire.frame(wire.DATA, wire.PADDED, stream, b"\xff" + bytes(255)) * 64
                for _ in range((17 << 20) // (256 * 64)):
                    peer.send(piece)
                    await peer.writer.drain()
                peer.send(wire.end(stream))
                assert await put == ("ok", "")
                granted = await peer.frame(wire.WINDOW_UPDATE)
                assert granted.stream == 0
                assert int.from_bytes(granted.body, "big") > 16 << 20
                assert await peer.silent(), "granted once"

    run(scenario())


def test_a_set_of_a_hundred_thousand_is_read_at_once(run: Any) -> None:
    async def scenario() -> None:
        pairs = [rpc.KeyValue(key=b"s/%d" % i, mod_revision=i, create_revision=i, version=1) for i in range(100_000)]
        said = rpc.RangeResponse(header=rpc.ResponseHeader(revision=100_000), kvs=pairs)
        async with scripts.scripted(lambda *_: said) as port, scripts.client_of(port) as client:
            for _ in range(2):
                assert (await client.members("s", ReadMode.STRONG)).elements == tuple(range(100_000))
            value = b"v" * 1_000_000
            assert (await client.write("k", value)).position == 100_000

    run(scenario())
