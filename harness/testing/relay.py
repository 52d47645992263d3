"""Passes TCP connections from this machine into the lab.

The test's process listens on loopback and hands the socket to the cluster's process, which connects inside.
A connection that ends with an error on one side is reset on the other, so that a client sees what it would see inside.
A server that refuses shows as a connection that is reset as soon as it is open.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Final

from fencepost.harness.testing.cluster_messages import Address

_CONNECT_S: Final = 30.0
_PIECE: Final = 1 << 16
#: Closing then sends a reset instead of a normal end.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Relay:
    """Passes every connection to one listening socket on to one address, until it is closed."""

    def __init__(self, listening: socket.socket, target: Address) -> None:
        self._listening, self._target = listening, target
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._listening.getsockname()
        return host, port

    async def open(self) -> None:
        """Accept connections from now on."""
        self._server = await asyncio.start_server(self._connected, sock=self._listening)

    async def close(self) -> None:
        """Accept no more connections, and end those that are open."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._relay(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        except (OSError, TimeoutError, asyncio.CancelledError):
            _reset(writer)
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass(reader, inner_writer))
                group.create_task(_pass(inner_reader, writer))
        except* OSError:
            _reset(writer)
            _reset(inner_writer)
        finally:
            for end in (writer, inner_writer):
                end.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
