"""How a request on the etcd client's line ends without an answer, whatever the server does; and whatever comes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.harness.coordination import NotSent
from fencepost.systems.etcd.wire.grpc_call import connect
from fencepost.systems.etcd.wire.http2 import Http2Connection
from tests.systems.contract.patience import PATIENCE_S, until
from tests.systems.etcd import etcd_wire as wire
from tests.systems.etcd.etcd_wire import LOOPS, begun, outcome, playing

LOST = ("indefinite", "connection-lost")
NOT_SENT = ("not sent", "not-connected")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on each of the two loops that the harness may live on."""

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(coroutine, 100))

    return on_loop


def test_a_server_that_goes_away_answers_what_it_has_begun(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            one, two, three = (begun(client.write("k", b"%d" % i)) for i in range(3))
            for _ in range(3):
                await peer.request()
            # The first warning of a graceful end names no stream; the second does (RFC 9113, section 6.8).
            peer.send(wire.goaway(2**31 - 1))
            await until(lambda: client._connection.shut is not None)
            assert not (one.done() or two.done() or three.done())
            assert await outcome(client.write("k", b"9")) == NOT_SENT
            peer.send(wire.goaway(3, wire.NO_ERROR, b"bye"))
            assert await three == ("definite", "refused")
            peer.send(wire.answer(1))
            assert await one == ("ok", "")
            assert not two.done()
            peer.send(wire.answer(3))
            assert await two == ("ok", "")
            with pytest.raises(NotSent, match=r"the server is going away \(GOAWAY NO_ERROR: bye\)"):
                await client.write("k", b"9")
            assert await peer.closed(), "nothing is left that it might answer"

    run(scenario())


def test_a_server_that_goes_away_and_closes_leaves_its_last_streams_unknown(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            one, two = begun(client.write("k", b"1")), begun(client.write("k", b"2"))
            await peer.request()
            await peer.request()
            peer.send(wire.goaway(1, wire.ENHANCE_YOUR_CALM, b"too_many_pings"))
            peer.writer.close()
            assert await one == LOST
            assert await two == ("definite", "refused")

    run(scenario())


def test_a_word_that_contradicts_an_answer_proves_nothing(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            one, two = begun(client.write("k", b"1")), begun(client.write("k", b"2"))
            streams = [await peer.request(), await peer.request()]
            peer.send(*map(wire.head, streams), wire.rst_stream(streams[0], wire.REFUSED_STREAM), wire.goaway(0))
            assert [await one, await two] == [("indefinite", "unforeseen-status")] * 2

    run(scenario())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (wire.REFUSED_STREAM, ("definite", "refused")),
        (wire.CANCEL, ("indefinite", "cancelled")),
        (wire.ENHANCE_YOUR_CALM, ("indefinite", "unforeseen-status")),
        (wire.NO_ERROR, ("indefinite", "unforeseen-status")),
        (wire.INTERNAL_ERROR, ("indefinite", "unforeseen-status")),
        (0xDEAD, ("indefinite", "unforeseen-status")),
    ],
)
def test_a_stream_that_is_reset_takes_no_other_along(run: Any, code: int, expected: tuple[str, str]) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            one, two = begun(client.write("k", b"1")), begun(client.write("k", b"2"))
            streams = [await peer.request(), await peer.request()]
            peer.send(wire.rst_stream(streams[0], code), wire.rst_stream(streams[0], code), wire.answer(streams[1]))
            assert [await one, await two] == [expected, ("ok", "")]

    run(scenario())


def test_a_caller_that_gives_up_says_so_and_drops_what_comes_late(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.write("k", b"1")
            stream = await peer.request()
            assert await peer.frame() == (wire.RST_STREAM, 0, stream, wire.CANCEL.to_bytes(4, "big"))
            put = begun(client.write("k", b"2"))
            # What was under way when the cancellation arrived.
            peer.send(wire.answer(stream), wire.rst_stream(stream, wire.CANCEL), wire.window_update(stream, 9))
            peer.send(wire.answer(await peer.request()))
            assert await put == ("ok", "")
            assert not client._connection._streams

    run(scenario())


@pytest.mark.parametrize("window", [7, 1 << 20])
def test_giving_up_a_request_that_is_held_back_sends_no_more_of_it(run: Any, window: int) -> None:
    """Whether its own window holds it back, or the connection's."""

    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, window))) as (client, peer):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.write("k", b"v" * 100_000)
            stream = (await peer.frame(wire.DATA)).stream
            await peer.frame(wire.RST_STREAM)
            peer.send(wire.window_update(stream, 1000), wire.window_update(0, 1000))
            assert await peer.silent()

    run(scenario())


def test_a_server_that_closes_its_half_answers_no_more(run: Any) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            put = begun(client.write("k", b"1"))
            await peer.request()
            peer.writer.write_eof()
            assert await put == LOST
            assert await outcome(client.write("k", b"2")) == NOT_SENT
            assert await peer.closed()

    run(scenario())


def test_what_lay_in_the_transports_buffer_is_in_doubt(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 2**31 - 1)), wire.window_update(0, 1 << 30)) as (
            client,
            peer,
        ):
            transport = client._connection._transport
            assert transport is not None
            peer.stop_reading()
            large = begun(client.write("k", b"v" * (32 << 20)))
            await asyncio.sleep(0.1)
            assert transport.get_write_buffer_size() > 0
            small = begun(client.write("k", b"v"))
            await asyncio.sleep(0.05)
            peer.writer.transport.abort()
            assert [await large, await small] == [LOST, LOST]

    run(scenario())


def test_closing_does_not_wait_for_a_peer_that_reads_nothing(run: Any) -> None:
    async def scenario() -> None:
        async with playing(wire.settings((wire.INITIAL_WINDOW, 2**31 - 1)), wire.window_update(0, 1 << 30)) as (
            client,
            peer,
        ):
            peer.stop_reading()
            large = begun(client.write("k", b"v" * (32 << 20)))
            await asyncio.sleep(0.1)
            await client.close()
            assert await large == ("indefinite", "closed")
            peer.read_again()
            assert await peer.rest() < 32 << 20

    run(scenario())


# A server that breaks the protocol.

BLOCK = wire.block(wire.OK_HEAD)
BREACHES: dict[str, tuple[bytes, int]] = {
    "a frame that is too large": (wire.frame(wire.DATA, 0, 1, bytes(16_385)), wire.FRAME_SIZE_ERROR),
    "not HTTP/2": (b"HTTP/1.1 400 Bad Request\r\n\r\n", wire.FRAME_SIZE_ERROR),
    "more padding than frame": (wire.frame(wire.DATA, wire.PADDED, 1, b"\x04abc"), wire.PROTOCOL_ERROR),
    "padding without a length": (wire.frame(wire.HEADERS, wire.PADDED, 1), wire.PROTOCOL_ERROR),
    "data on no stream": (wire.frame(wire.DATA, 0, 0, b"x"), wire.PROTOCOL_ERROR),
    "an answer that was not asked for": (wire.answer(3), wire.PROTOCOL_ERROR),
    "a stream of the server's": (wire.head(2), wire.PROTOCOL_ERROR),
    "a reset of nothing": (wire.rst_stream(5, wire.CANCEL), wire.PROTOCOL_ERROR),
    "a reset that is cut": (wire.frame(wire.RST_STREAM, 0, 1, b"\0"), wire.FRAME_SIZE_ERROR),
    "a window update of nothing": (wire.window_update(0, 0), wire.PROTOCOL_ERROR),
    "a window update that is cut": (wire.frame(wire.WINDOW_UPDATE, 0, 0, b"\0"), wire.FRAME_SIZE_ERROR),
    "a window beyond the limit": (wire.window_update(0, 2**31 - 1), wire.FLOW_CONTROL_ERROR),
    "a stream's window beyond the limit": (wire.window_update(1, 2**31 - 1), wire.FLOW_CONTROL_ERROR),
    "initial windows beyond the limit": (wire.settings((wire.INITIAL_WINDOW, 2**31)), wire.FLOW_CONTROL_ERROR),
    "frames below the least size": (wire.settings((wire.MAX_FRAME, 100)), wire.PROTOCOL_ERROR),
    "settings that are cut": (wire.frame(wire.SETTINGS, 0, 0, b"12345"), wire.FRAME_SIZE_ERROR),
    "settings of a stream": (wire.frame(wire.SETTINGS, 0, 1), wire.FRAME_SIZE_ERROR),
    "a ping that is cut": (wire.frame(wire.PING, 0, 0, b"1"), wire.FRAME_SIZE_ERROR),
    "a goaway that is cut": (wire.frame(wire.GOAWAY, 0, 0, b"1"), wire.FRAME_SIZE_ERROR),
    "a push": (wire.frame(wire.PUSH_PROMISE, wire.END_HEADERS, 1, bytes(4) + BLOCK), wire.PROTOCOL_ERROR),
    "a block that is cut": (wire.frame(wire.HEADERS, wire.END_HEADERS, 1, BLOCK[:-3]), wire.COMPRESSION_ERROR),
    "a table that we forbade": (wire.frame(wire.HEADERS, wire.END_HEADERS, 1, b"\x3f\xe1\x1f"), wire.COMPRESSION_ERROR),
    "a continuation of nothing": (wire.frame(wire.CONTINUATION, wire.END_HEADERS, 1, BLOCK), wire.PROTOCOL_ERROR),
    "a frame within a block": (
        wire.frame(wire.HEADERS, 0, 1, BLOCK) + wire.frame(wire.PING, 0, 0, bytes(8)),
        wire.PROTOCOL_ERROR,
    ),
    "a block of two streams": (
        wire.frame(wire.HEADERS, 0, 1, BLOCK) + wire.frame(wire.CONTINUATION, wire.END_HEADERS, 3),
        wire.PROTOCOL_ERROR,
    ),
    "a block without an end": (
        wire.frame(wire.HEADERS, 0, 1) + wire.frame(wire.CONTINUATION, 0, 1, bytes(16_384)) * 5,
        wire.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_server_that_breaks_the_protocol_is_left(run: Any, breach: str) -> None:
    told, code = BREACHES[breach]

    async def scenario() -> None:
        async with playing() as (client, peer):
            put = begun(client.write("k", b"1"))
            await peer.request()
            peer.send(told)
            assert await put == LOST
            assert await outcome(client.write("k", b"2")) == NOT_SENT
            bye = await peer.frame(wire.GOAWAY)
            assert bye.body == bytes(4) + code.to_bytes(4, "big")
            assert await peer.closed()

    run(scenario())


@pytest.mark.parametrize(
    "told",
    [wire.frame(wire.DATA, 0, 1, wire.PUT), wire.head(1) + wire.head(1)],
    ids=["data before headers", "headers amidst"],
)
def test_a_malformed_answer_ends_its_stream_alone(run: Any, told: bytes) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            one, two = begun(client.write("k", b"1")), begun(client.write("k", b"2"))
            await peer.request()
            await peer.request()
            peer.send(told)
            assert await one == ("indefinite", "unforeseen-status")
            assert await peer.frame() == (wire.RST_STREAM, 0, 1, wire.PROTOCOL_ERROR.to_bytes(4, "big"))
            peer.send(wire.answer(3))
            assert await two == ("ok", "")

    run(scenario())


# Opening.


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"", "the server closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it HTTP/2"),
        (wire.frame(wire.PING, 0, 0, bytes(8)), "broke the protocol"),
        (wire.frame(wire.SETTINGS, wire.ACK, 0), "before it sent its own"),
    ],
    ids=["closes", "speaks HTTP/1.1", "pings first", "acknowledges first"],
)
def test_a_server_that_does_not_greet_is_not_connected(run: Any, told: bytes, why: str) -> None:
    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(24)
            writer.write(told)
            writer.close()

        async with wire.listening(serve) as port:
            with pytest.raises(NotSent, match=why) as caught:
                await connect("127.0.0.1", port, PATIENCE_S)
            assert caught.value.code == "not-connected"

    run(scenario())


def test_an_opening_that_is_given_up_leaves_no_connection(run: Any) -> None:
    async def scenario() -> None:
        accepted, closed = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set()
            await reader.read()
            closed.set()
            writer.close()

        async with wire.listening(serve) as port:
            opening = asyncio.create_task(connect("127.0.0.1", port, 3600.0))
            await accepted.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await closed.wait()

    run(scenario())


# Whatever comes.


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0


_FRAMES = st.builds(
    wire.frame,
    st.integers(0, 10),
    st.integers(0, 63),
    st.sampled_from([0, 1, 1, 1, 3, 5, 2, 2**31 - 1]),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([wire.PUT, BLOCK, wire.block(wire.OK_END), bytes(4), bytes(8), b"\xbe", b"\x3f\xe1\x1f"]),
        st.binary(max_size=12).map(lambda noise: BLOCK[: len(noise)] + noise),
    ),
)


@given(st.lists(_FRAMES, max_size=12), st.lists(st.integers(0, 200), max_size=4), st.booleans())
@settings(deadline=None)
def test_whatever_comes_every_request_ends_once_or_waits(parts: list[bytes], cuts: list[int], acks: bool) -> None:
    async def scenario() -> None:
        connection = Http2Connection("here")
        transport = _Transport()
        connection.connection_made(transport)
        connection.data_received(wire.settings())
        if acks:
            connection.data_received(wire.frame(wire.SETTINGS, wire.ACK, 0))
        streams = [connection.request(b"\x88", b"request") for _ in range(3)]
        text, before = b"".join(parts), 0
        for cut in [*sorted(cuts), len(text)]:
            connection.data_received(text[before:cut])
            before = max(before, cut)
        still = {stream.number for stream in streams if not stream.answer.done()}
        assert still == set(connection._streams)
        assert not (still and transport.closed)
        connection.connection_lost(None)
        assert all(stream.answer.done() for stream in streams)
        assert connection.shut is not None

    asyncio.run(scenario())
