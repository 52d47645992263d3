"""A server that speaks ZooKeeper's protocol on loopback and answers as it is told."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fencepost.systems.zookeeper.client import ZooKeeperLocks
from fencepost.systems.zookeeper.groups import ZooKeeperGroups
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.watches import WatchedStorage
from fencepost.systems.zookeeper.wire.connection import open_connection
from fencepost.systems.zookeeper.wire.jute import Op
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession
from tests.systems.contract.patience import PATIENCE_S


class ZooKeeperClient(ZooKeeperLocks, ZooKeeperGroups, WatchedStorage):
    """The requests of every interface on one session, for tests of what they have in common."""


ADDRESS = "127.0.0.1"
ZXID = (7 << 32) + 5
SESSION = 0x1234
STAT = struct.pack(">qqqqiiiqiiq", 3, (7 << 32) + 4, 0, 0, 6, 0, 0, 0, 1, 0, 3)

#: What an answer may be beside a reply's error code and record.
CLOSE = "close"
RESET = "reset"
SILENCE = "silence"


@dataclass
class Request:
    xid: int
    op: int
    record: bytes


Answer = tuple[int, bytes] | bytes | str
#: From a request and its number (pings not counted) to (error, record), raw bytes, or one of the words above.
Script = Callable[[Request, int], Answer]


@dataclass
class Scripted:
    port: int = 0
    timeout_ms: int = 60_000
    #: What clients asked a session for: (time-out in ms, session, password).
    asked: list[tuple[int, int, bytes]] = field(default_factory=list)
    #: A session is granted; else the server answers a time-out of 0, or not at all.
    grants: bool | None = True
    answers_pings: bool = True
    #: The local connection numbers, in the order of the pings.
    pings: list[int] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)


def reply(xid: int, error: int = 0, record: bytes = b"", zxid: int = ZXID) -> bytes:
    body = struct.pack(">iqi", xid, zxid, error) + record
    return struct.pack(">i", len(body)) + body


def data(value: bytes) -> bytes:
    """The record of a getData reply."""
    return struct.pack(">i", len(value)) + value + STAT


def watch(path: bytes, kind: int = 3) -> bytes:
    return reply(-1, 0, struct.pack(">iii", kind, 3, len(path)) + path, -1)


@asynccontextmanager
async def scripted(script: Script, **fields: int | bool | None) -> AsyncIterator[Scripted]:
    server_state = Scripted(**fields)  # type: ignore[arg-type]  # the tests name its fields

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_state.writers.append(writer)
        try:
            await _serve(server_state, script, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            """The client went away."""
        finally:
            writer.close()

    server = await asyncio.start_server(serve, ADDRESS, 0)
    server_state.port = server.sockets[0].getsockname()[1]
    try:
        yield server_state
    finally:
        server.close()
        for writer in server_state.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def _serve(state: Scripted, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, _, timeout_ms, session, _, password = struct.unpack_from(">iqiqi16s", await _frame(reader))
    state.asked.append((timeout_ms, session, password))
    if state.grants is None:
        await reader.read()
        return
    body = struct.pack(">iiqi16s?", 0, state.timeout_ms if state.grants else 0, SESSION, 16, b"p" * 16, False)
    writer.write(struct.pack(">i", len(body)) + body)
    while True:
        frame = await _frame(reader)
        xid, op = struct.unpack_from(">ii", frame)
        request = Request(xid, op, frame[8:])
        if request.op == Op.PING:
            state.pings.append(state.writers.index(writer))
            if state.answers_pings:
                writer.write(reply(-2))
            continue
        state.requests.append(request)
        answer = script(request, len(state.requests) - 1)
        if answer == RESET:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return
        if answer == CLOSE:
            return
        if isinstance(answer, bytes):
            writer.write(answer)
        elif isinstance(answer, tuple):
            writer.write(reply(request.xid, *answer))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


async def opened(port: int, session_timeout_ms: int = 60_000, connect_timeout_s: float = PATIENCE_S) -> ZooKeeperClient:
    connection = await open_connection(
        ADDRESS, port, session_timeout_ms=session_timeout_ms, connect_timeout_s=connect_timeout_s
    )
    return ZooKeeperClient(ZooKeeperSession(connection), SessionLeases(ADDRESS, port, connect_timeout_s))
