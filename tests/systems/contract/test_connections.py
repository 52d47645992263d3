"""Every way in which a request ends without its answer, on the connection of every system and on both event loops."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest
import uvloop
from kafka.protocol.metadata.api_versions import ApiVersionsResponse
from kafka.protocol.producer.transaction import InitProducerIdRequest, InitProducerIdResponse

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.connection import Connection
from fencepost.harness.http.connection import open_connection as open_http
from fencepost.systems.cassandra.wire import connection as cassandra
from fencepost.systems.cassandra.wire import frames
from fencepost.systems.example import client as example
from fencepost.systems.kafka.wire import connection as kafka
from fencepost.systems.kafka.wire.messages import INIT_PRODUCER_ID
from fencepost.systems.nats.wire import connection as nats
from fencepost.systems.redis import wire as redis
from fencepost.systems.zookeeper.wire import connection as zookeeper
from fencepost.systems.zookeeper.wire.jute import Op
from tests.fakes.kafka_broker import answer_frame, everything, read_request
from tests.systems.contract.patience import PATIENCE_S, refused_port
from tests.systems.http.scripted import answer as http_answer
from tests.systems.nats.jetstream_script import frame as nats_frame
from tests.systems.zookeeper.zookeeper_scripts import reply as zookeeper_reply

HOST = "127.0.0.1"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Reader = asyncio.StreamReader


class Speech(NamedTuple):
    """How one system is spoken."""

    #: Opens the client's connection on a port, within a time.
    opened: Callable[[int, float], Awaitable[Any]]
    ask: Callable[[Any], Awaitable[object]]
    #: The server's part: what it says first; reads a hello and gives the answer; reads a request and gives the answer.
    first: bytes
    greeting: Callable[[Reader], Awaitable[bytes]] | None
    answer: Callable[[Reader], Awaitable[bytes]]
    #: Bytes that are no frame.
    wrong: bytes


async def sized(reader: Reader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


async def example_answer(reader: Reader) -> bytes:
    return json.dumps({"id": json.loads(await reader.readuntil(b"\n"))["id"]}).encode() + b"\n"


async def nats_greeting(reader: Reader) -> bytes:
    await reader.readuntil(b"PING\r\n")
    return b"PONG\r\n"


async def nats_answer(reader: Reader) -> bytes:
    inbox = (await reader.readuntil(b"\r\n")).split()[2]
    await reader.readuntil(b"\r\n")
    return nats_frame(inbox, b"", b"{}")


async def one_over_http(reader: Reader) -> bytes:
    await reader.readuntil(b"\r\n\r\n")
    return http_answer(200, "text", chunked=True)


async def cassandra_answer(reader: Reader) -> bytes:
    _, _, stream, opcode, length = frames.HEADER.unpack(await reader.readexactly(frames.HEADER.size))
    await reader.readexactly(length)
    kind, body = (frames.Opcode.RESULT, b"\0\0\0\1") if opcode == frames.Opcode.QUERY else (frames.Opcode.READY, b"")
    return frames.HEADER.pack(frames.ANSWER, 0, stream, kind, len(body)) + body


async def zookeeper_greeting(reader: Reader) -> bytes:
    await sized(reader)
    return struct.pack(">iiiqi16s?", 37, 0, 60_000, 77, 16, b"p" * 16, False)


async def zookeeper_answer(reader: Reader) -> bytes:
    return zookeeper_reply(int.from_bytes((await sized(reader))[:4]))


async def kafka_greeting(reader: Reader) -> bytes:
    offers = [
        ApiVersionsResponse.ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in everything().items()
    ]
    return answer_frame(read_request(await sized(reader)), ApiVersionsResponse(api_keys=offers))


async def kafka_answer(reader: Reader) -> bytes:
    return answer_frame(read_request(await sized(reader)), InitProducerIdResponse(producer_id=7, producer_epoch=1))


async def redis_answer(reader: Reader) -> bytes:
    await reader.readuntil(b"\r\nGET\r\n")
    return b"$4\r\ntext\r\n"


SPEECHES = {
    "redis": Speech(
        lambda port, s: redis.connect(HOST, port, s), lambda c: c.command(("GET",)), b"", None, redis_answer, b"?\r\n"
    ),
    "example": Speech(
        lambda port, s: example.connect(HOST, port, s), lambda c: c.request({}), b"", None, example_answer, b"{\n"
    ),
    "nats": Speech(
        lambda port, s: nats.connect(HOST, port, s),
        lambda c: c.request("a", b"1"),
        b'INFO {"server_id":"A","client_id":1}\r\n',
        nats_greeting,
        nats_answer,
        b"MSG x\r\n",
    ),
    "http": Speech(
        lambda port, s: open_http(HOST, port, s),
        lambda c: c.request("PUT", "/a", b""),
        b"",
        None,
        one_over_http,
        b"SSH-2.0-x\r\n",
    ),
    "cassandra": Speech(
        lambda port, s: cassandra.connect(HOST, port, s),
        lambda c: c.query("SELECT"),
        b"",
        cassandra_answer,
        cassandra_answer,
        b"\x04" * frames.HEADER.size,
    ),
    "zookeeper": Speech(
        lambda port, s: zookeeper.open_connection(HOST, port, session_timeout_ms=60_000, connect_timeout_s=s),
        lambda c: c.request(Op.SYNC, b"", lambda body, zxid: zxid),
        b"",
        zookeeper_greeting,
        zookeeper_answer,
        struct.pack(">i", -7),
    ),
    "kafka": Speech(
        lambda port, s: kafka.open_connection(HOST, port, connect_timeout_s=s),
        lambda c: c.request(INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)),
        b"",
        kafka_greeting,
        kafka_answer,
        struct.pack(">i", 1 << 30),
    ),
}


class Server:
    """Greets each connection, then plays what a test gives it for the requests; counts both."""

    def __init__(self, speech: Speech, play: "Play", *, silent: bool = False) -> None:
        self.speech = speech
        self.connections = self.requests = 0
        self._play, self._silent = play, silent

    async def serve(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            writer.write(b"" if self._silent else self.speech.first)
            if self.speech.greeting is not None and not self._silent:
                writer.write(await self.speech.greeting(reader))
            await self._play(self, reader, writer)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, reader: Reader) -> bytes:
        """The answer to the next request."""
        answer = await self.speech.answer(reader)
        self.requests += 1
        return answer


Play = Callable[[Server, Reader, asyncio.StreamWriter], Awaitable[None]]


def says(part: Callable[[Speech, bytes], bytes], *, then: str) -> Play:
    """Say this part of the answer to one request, or something else, and then end the connection, or do not."""

    async def play(server: Server, reader: Reader, writer: asyncio.StreamWriter) -> None:
        writer.write(part(server.speech, await server.answer(reader)))
        await writer.drain()
        if then == "reset":
            writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif then == "close":
            writer.close()

    return play


ENDINGS = {
    "closed": says(lambda speech, answer: b"", then="close"),
    "reset": says(lambda speech, answer: b"", then="reset"),
    "half an answer": says(lambda speech, answer: answer[:-1], then="close"),
    "no answer": says(lambda speech, answer: speech.wrong, then="waits"),
}


async def says_nothing(server: Server, reader: Reader, writer: asyncio.StreamWriter) -> None:
    await server.answer(reader)


async def in_pieces(server: Server, reader: Reader, writer: asyncio.StreamWriter) -> None:
    for _ in range(2):
        for byte in await server.answer(reader):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.0005)


async def late(server: Server, reader: Reader, writer: asyncio.StreamWriter) -> None:
    first = await server.answer(reader)
    writer.write(first + await server.answer(reader))


async def hangs_up(server: Server, reader: Reader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@contextlib.asynccontextmanager
async def serving(speech: Speech, play: Play, *, silent: bool = False) -> AsyncIterator[tuple[Server, int]]:
    server = Server(speech, play, silent=silent)
    listening = await asyncio.start_server(server.serve, HOST, 0)
    async with listening:
        yield server, listening.sockets[0].getsockname()[1]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    def on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(scenario(), 100)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(bounded())

    return on_loop


Run = Callable[[Callable[[], Awaitable[None]]], None]
every_system = pytest.mark.parametrize("speech", SPEECHES.values(), ids=SPEECHES)
every_greeting = pytest.mark.parametrize(
    "speech", [s for s in SPEECHES.values() if s.greeting], ids=[n for n, s in SPEECHES.items() if s.greeting]
)


async def no_more_is_sent(speech: Speech, connection: Connection, server: Server) -> None:
    assert connection.ended is not None
    with pytest.raises(NotSent):
        await speech.ask(connection)
    assert (server.connections, server.requests) == (1, 1)
    connection.close()


@every_system
@pytest.mark.parametrize("play", ENDINGS.values(), ids=ENDINGS)
def test_a_request_under_way_is_in_doubt_when_the_connection_ends(run: Run, speech: Speech, play: Play) -> None:
    async def scenario() -> None:
        async with serving(speech, play) as (server, port):
            connection = await speech.opened(port, PATIENCE_S)
            with pytest.raises(Indefinite, match=r"^connection-lost: ."):
                await speech.ask(connection)
            await no_more_is_sent(speech, connection, server)

    run(scenario)


@every_system
def test_an_owner_that_closes_learns_the_same(run: Run, speech: Speech) -> None:
    async def scenario() -> None:
        async with serving(speech, says_nothing) as (server, port):
            connection = await speech.opened(port, PATIENCE_S)
            asking = asyncio.ensure_future(speech.ask(connection))
            while not server.requests:
                await asyncio.sleep(0.001)
            connection.close()
            connection.close()
            with pytest.raises(Indefinite, match=r"^connection-lost: closed by"):
                await asking
            await no_more_is_sent(speech, connection, server)

    run(scenario)


@every_system
def test_answers_are_the_same_in_whatever_pieces_they_arrive(run: Run, speech: Speech) -> None:
    async def scenario() -> None:
        async with serving(speech, in_pieces) as (_, port):
            connection = await speech.opened(port, PATIENCE_S)
            for _ in range(2):
                await speech.ask(connection)
            connection.close()

    run(scenario)


@every_system
def test_a_late_answer_is_nobodys(run: Run, speech: Speech) -> None:
    async def scenario() -> None:
        async with serving(speech, late) as (server, port):
            connection = await speech.opened(port, PATIENCE_S)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await speech.ask(connection)
            if speech is SPEECHES["http"]:  # without numbers it would be the next one's
                await no_more_is_sent(speech, connection, server)
            else:
                await speech.ask(connection)
                assert (connection.ended, len(connection._waiting), server.requests) == (None, 0, 2)
            connection.close()

    run(scenario)


@every_system
def test_nobody_there(run: Run, speech: Speech) -> None:
    async def scenario() -> None:
        with refused_port() as port, pytest.raises(Definite, match=r"^not-connected: .* refused the connection"):
            await speech.opened(port, PATIENCE_S)

    run(scenario)


@every_greeting
def test_a_server_that_does_not_greet_is_not_connected_to(run: Run, speech: Speech) -> None:
    async def scenario() -> None:
        async with serving(speech, says_nothing, silent=True) as (_, port):
            with pytest.raises(Definite, match=r"^not-connected: .* did not answer within 0.1 s"):
                await speech.opened(port, 0.1)
        async with serving(speech, hangs_up, silent=True) as (_, port):
            with pytest.raises(Definite, match=r"^not-(connected|serving)"):
                await speech.opened(port, PATIENCE_S)

    run(scenario)
