"""Servers that answer as they are told, for the rows of etcd's error table that no fault provokes."""

import asyncio
import contextlib
import os
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.systems.etcd import whole_client
from tests.systems.etcd.whole_client import EtcdClient

# Its servers tell stderr of every connection that a client closes, unless they are told before the first import.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
import grpc.aio

_SETTINGS, _HEADERS, _RST_STREAM, _GOAWAY = 4, 1, 3, 7
REFUSED_STREAM = 7
INTERNAL_ERROR = 2


@contextlib.asynccontextmanager
async def client_of(port: int, *, lock_ttl_s: int = 2) -> AsyncIterator[EtcdClient]:
    client = await whole_client.opened("127.0.0.1", port, lock_ttl_s=lock_ttl_s)
    try:
        yield client
    finally:
        await client.close()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, answer: Callable[[str, bytes], Any]) -> None:
        self.answer = answer

    def service(self, handler_call_details: Any) -> Any:
        method = str(handler_call_details.method)

        async def behave(request: bytes, context: Any) -> Any:
            answer = self.answer(method, request)
            if isinstance(answer, tuple):
                await context.abort(*answer)
            if asyncio.iscoroutine(answer):
                answer = await answer
            return answer.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(behave)


@contextlib.asynccontextmanager
async def scripted(answer: Callable[[str, bytes], Any]) -> AsyncIterator[int]:
    """A gRPC server on loopback: `answer(method, request)` gives a message, (status, details), or an awaitable."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handler(answer),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@dataclass(slots=True)
class Wire:
    """What came in over the wire: connections made, requests begun."""

    port: int = 0
    connections: int = 0
    requests: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def cut(self) -> None:
        """Close every connection."""
        for writer in self.writers:
            writer.close()


def _frame(kind: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes((kind, 0)) + struct.pack(">I", stream) + body


def rst_stream(stream: int, code: int) -> bytes:
    return _frame(_RST_STREAM, stream, struct.pack(">I", code))


def goaway(last_stream: int) -> bytes:
    return _frame(_GOAWAY, 0, struct.pack(">II", last_stream, 0))


@contextlib.asynccontextmanager
async def raw(answer: Callable[[int], bytes | None], *, settings: bool = True) -> AsyncIterator[Wire]:
    """Bare HTTP/2 frames: `answer(stream)` is sent for every request, after which None closes the connection."""
    wire = Wire()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.connections += 1
        wire.writers.append(writer)
        if settings:
            writer.write(_frame(_SETTINGS, 0, b""))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readexactly(24)  # the preface
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == _HEADERS:
                    wire.requests += 1
                    told = answer(int.from_bytes(head[5:], "big"))
                    if told is None:
                        break
                    writer.write(told)
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.cut()
        server.close()
        await server.wait_closed()
