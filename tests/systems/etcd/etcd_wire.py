"""A server of bare HTTP/2 frames that a test plays by hand, frame by frame; independent of the client's own code."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import hpack
import uvloop

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.etcd import whole_client
from tests.systems.etcd.whole_client import EtcdClient

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 6, 7, 8, 9, 11
MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME = 3, 4, 5

#: The two loops that the harness may live on.
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OK_HEAD = [(":status", "200"), ("content-type", "application/grpc")]
OK_END = [("grpc-status", "0"), ("grpc-message", "")]


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    body: bytes


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def goaway(last: int, code: int = NO_ERROR, said: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + said)


def block(headers: list[tuple[str, str]], *, huffman: bool = True) -> bytes:
    """A block that needs no table, as any server may send."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(headers, huffman=huffman)


def message(answer: Any) -> bytes:
    body: bytes = answer.SerializeToString()
    return struct.pack(">BI", 0, len(body)) + body


#: What a put is answered with, unless a test says otherwise.
PUT = message(rpc.PutResponse(header=rpc.ResponseHeader(revision=7, raft_term=3)))


def head(stream: int, headers: list[tuple[str, str]] | None = None) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, block(headers or OK_HEAD))


def end(stream: int, headers: list[tuple[str, str]] | None = None) -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block(headers or OK_END))


def answer(stream: int, body: bytes = PUT) -> bytes:
    return head(stream) + frame(DATA, 0, stream, body) + end(stream)


@dataclass
class Peer:
    """The server's end of one connection. `frame` gives what the client sent, its greeting left out."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: list[Frame] = field(default_factory=list)

    async def any_frame(self) -> Frame:
        async with asyncio.timeout(PATIENCE_S):
            start = await self.reader.readexactly(9)
            body = await self.reader.readexactly(int.from_bytes(start[:3], "big"))
        return Frame(start[3], start[4], int.from_bytes(start[5:], "big"), body)

    async def frame(self, *kinds: int) -> Frame:
        """The next frame of one of these kinds; of any kind but acknowledged settings, when none is named."""
        while True:
            got = await self.any_frame()
            if got.kind in kinds or (not kinds and got.kind != SETTINGS):
                return got

    async def request(self) -> int:
        """A whole small request: its stream."""
        began = await self.frame(HEADERS)
        data = await self.frame(DATA)
        assert (data.stream, data.flags) == (began.stream, END_STREAM)
        return began.stream

    async def silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing but settings came for that long."""
        try:
            async with asyncio.timeout(seconds):
                await self.frame()
        except TimeoutError:
            return True
        return False

    async def rest(self) -> int:
        """How much more comes before the client closes."""
        size = 0
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(PATIENCE_S):
                while some := await self.reader.read(1 << 16):
                    size += len(some)
        return size

    async def closed(self) -> bool:
        """Whether the client closed, whatever it sent before."""
        return await self.rest() >= 0

    def stop_reading(self) -> None:
        """Let the client's bytes pile up, as a paused server does."""
        cast(asyncio.Transport, self.writer.transport).pause_reading()

    def read_again(self) -> None:
        cast(asyncio.Transport, self.writer.transport).resume_reading()

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))


@contextlib.asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    writers: list[asyncio.StreamWriter] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def playing(*first: bytes) -> AsyncIterator[tuple[EtcdClient, Peer]]:
    """A connected client and the server's end; the server greets with `first`, or with empty settings."""
    accepted: asyncio.Queue[Peer] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        peer.greeting = [await peer.any_frame(), await peer.any_frame()]
        peer.send(*(first or (settings(),)), frame(SETTINGS, ACK, 0))
        accepted.put_nowait(peer)

    async with listening(serve) as port:
        client = await whole_client.opened("127.0.0.1", port)
        try:
            yield client, await accepted.get()
        finally:
            await client.close()


async def outcome(request: Awaitable[object]) -> tuple[str, str]:
    try:
        await request
    except NotSent as error:
        return "not sent", error.code
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code
    return "ok", ""


def begun(request: Coroutine[Any, Any, object]) -> "asyncio.Task[tuple[str, str]]":
    return asyncio.create_task(outcome(request))
