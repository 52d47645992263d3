"""A relay between one client and one node that counts what is sent, and loses, holds, ends or resets on command."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from enum import Enum
from typing import Final

from fencepost.harness.runtime.node import Place

_PIECE: Final = 1 << 16
#: Closing then sends a reset instead of a normal end.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Passing(Enum):
    """What the relay passes on."""

    ALL = "all"
    #: Requests are lost: the server gets nothing more.
    NO_REQUESTS = "no requests"
    #: Answers are lost: the client gets nothing more.
    NO_ANSWERS = "no answers"


class CountedWire:
    """The connections that a client opened through the relay, and every byte that it sent over them."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.passing = Passing.ALL
        self.connections = 0
        self._sent = bytearray()
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter | None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def times(self, marker: str) -> int:
        """How often the client has sent these bytes."""
        return bytes(self._sent).count(marker.encode())

    async def await_sent(self, marker: str, timeout_s: float) -> bool:
        """Wait until the client has sent these bytes; False when it has not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.times(marker):
                    await asyncio.sleep(0.005)
                return True
        return False

    def reset(self) -> None:
        """End every connection of the client by a reset."""
        for client, _ in self._pairs:
            with contextlib.suppress(OSError):
                client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            client.transport.abort()

    def finish(self) -> None:
        """End every connection as a server does that closes it."""
        for client, _ in self._pairs:
            client.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._pairs.append((writer, inner_writer))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._requests(reader, inner_writer))
            group.create_task(self._answers(inner_reader, writer))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pair in self._pairs:
            for end in filter(None, pair):
                end.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                self._sent += piece
                if self.passing is not Passing.NO_REQUESTS:
                    writer.write(piece)
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self.passing is not Passing.NO_ANSWERS:
                    writer.write(piece)
        writer.close()


@contextlib.asynccontextmanager
async def wired(place: Place, port: int) -> AsyncIterator[tuple[CountedWire, Place]]:
    """A relay to this node, and the node's place as a client finds it behind the relay."""
    wire = CountedWire(place.dial(port))
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    address: tuple[str, int] = server.sockets[0].getsockname()[:2]
    try:
        yield wire, replace(place, endpoints={**place.endpoints, port: address})
    finally:
        server.close()
        await wire.close()
