"""A connection to one node for repeated questions, replaced when it is lost or falls silent.

An observer may reconnect, a client may not. A connection over a link that was cut recovers only when TCP retransmits,
seconds after the heal. So after a few unanswered questions the next ones use a new connection. The old one stays open
while questions wait on it, since a paused node answers them the moment it wakes. Dialling has a short time limit: it is
cheap, and a restarted node must be seen.

A node answers the requests of one connection one after another. So each kind of question has its own connection: a
question that a superseded controller does not answer must not block the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fencepost.systems.kafka.client.client import KafkaNode, open_node

T = TypeVar("T")

#: This many unanswered questions in a row lead to a new connection.
_UNANSWERED_MAX: Final = 3
_DIAL_S: Final = 0.5


class _Line:
    """One connection, the number of waiting questions, and the number of questions since the last answer."""

    def __init__(self, node: KafkaNode) -> None:
        self.node: Final = node
        self.waiting = 0
        self.unanswered = 0


class ReconnectingClient:
    """Asks one node over a connection that is kept while it answers. Any number of questions may wait."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._line: _Line | None = None
        self._dialling = asyncio.Lock()
        self._retired: set[_Line] = set()
        self._closed = False

    async def ask(self, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """Make a request to the node and return or raise what it does; the caller bounds the wait."""
        if self._closed:
            raise RuntimeError("a question after close")
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
        """The connection in use, or a new one; the first question dials, the others wait for it."""
        async with self._dialling:
            line = self._line
            if line is None or line.node.connection.ended is not None:
                self._line = None
                node = await open_node(self._address, self._port, connect_timeout_s=_DIAL_S)
                if self._closed:
                    node.close()
                    raise RuntimeError("closed while it connected")
                line = self._line = _Line(node)
            return line

    def _replace_silent(self, line: _Line) -> None:
        """Retire a connection that fell silent; close retired ones when no question waits on them."""
        if line is self._line and line.unanswered >= _UNANSWERED_MAX + line.waiting:
            self._line = None
            self._retired.add(line)
        if line in self._retired and line.waiting == 0:
            self._retired.discard(line)
            line.node.close()
