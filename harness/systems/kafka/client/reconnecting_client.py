"""A line to one node for questions that are asked again and again, remade when it is lost or has gone silent.

An observer may reconnect, a client may not. A connection through a link that was dropped recovers only when TCP sends
again, seconds after healing, so after a few unanswered questions the next ones go over a fresh one. The old one stays
open while questions wait on it: a paused node answers them the moment it wakes. Dialling is cheap and given up soon,
since a restarted node must be seen.

A node answers the requests of one connection one after the other. So each kind of question has a line of its own: one
that hangs on a superseded controller must not silence the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node

T = TypeVar("T")

#: Questions in a row without an answer before a fresh connection is tried.
_UNANSWERED_MAX: Final = 3
_DIAL_S: Final = 0.5


class _Line:
    """One connection, with how many wait on it and how many asked since its last answer."""

    def __init__(self, node: KafkaNode) -> None:
        self.node: Final = node
        self.waiting = 0
        self.unanswered = 0


class KeptLine:
    """Asks one node over a connection that is kept while it answers. Any number of questions may be open."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._line: _Line | None = None
        self._dialling = asyncio.Lock()
        self._retired: set[_Line] = set()
        self._closed = False

    async def ask(self, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """What `request` makes of a connected node, whatever it raises included; the caller bounds the wait."""
        if self._closed:
            raise RuntimeError("asked after close")
        line = await self._open_line()
        line.waiting += 1
        line.unanswered += 1
        received = line.node.connection.received
        try:
            return await request(line.node)
        finally:
            line.waiting -= 1
            if line.node.connection.received != received:
                line.unanswered = 0
            self._replace_silent(line)

    async def close(self) -> None:
        self._closed = True
        for line in [*self._retired, *([self._line] if self._line else [])]:
            line.node.close()
        self._retired.clear()
        self._line = None

    async def _open_line(self) -> _Line:
        """The line in use, or a new one; one dial at a time, made by whoever asks first."""
        async with self._dialling:
            line = self._line
            if line is None or line.node.connection.ended is not None:
                self._line = None
                node = await open_node(self._address, self._port, connect_timeout_s=_DIAL_S)
                if self._closed:
                    node.close()
                    raise RuntimeError("closed while it was asked")
                line = self._line = _Line(node)
            return line

    def _replace_silent(self, line: _Line) -> None:
        """Retire a line that has gone silent; close retired ones that nobody waits on any more."""
        if line is self._line and line.unanswered >= _UNANSWERED_MAX + line.waiting:
            self._line = None
            self._retired.add(line)
        if line in self._retired and line.waiting == 0:
            self._retired.discard(line)
            line.node.close()
