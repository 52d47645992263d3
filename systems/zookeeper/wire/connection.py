"""One ZooKeeper session on one server: frames out, replies and watch events in, and nothing hidden from the caller.

ZooKeeper answers the requests of a session in order, so replies are matched with a queue of sent requests; the xid only
confirms the match. When a caller stops waiting (its deadline cancelled it), the request stays in the queue and its late
reply is dropped. The connection never reconnects and never closes by itself, above all not because an answer is late.
Client libraries do close then (kazoo and the Java client after a third to two thirds of the session's time-out). They
would lose exactly the connections on which a paused leader gives stale answers when it wakes (ZOOKEEPER-1675).

A session can also be resumed on any server by its ticket, and left without ending it: this is how leases are kept alive
(`leases.py`).

With `keep_alive` a ping is sent when the session was idle for a third of its time-out; neither an answer nor its
absence matters. Without it the session ends unless its owner pings.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from fencepost.harness.coordination import connection
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import (
    CONNECTION_LOST,
    NOT_CONNECTED,
    NOT_SENT,
    NOT_SERVING,
    SESSION_OVER,
    ZooKeeperError,
)

#: Makes the value of a reply from (body, zxid).
T = TypeVar("T")
Parse = Callable[[bytes, int], T]
#: Makes a value from a refusal (error code, zxid), or None where the refusal is not an answer.
Refused = Callable[[int, int], T | None]

#: A longer frame is an error of the protocol: 64 MB is far above the server's own limit for requests (1 MB).
_FRAME_BYTES_MAX: Final = 64 << 20
#: What the answer to the request for a session is awaited under.
_SESSION: Final = "session"


class WatchEvent(NamedTuple):
    """A watch fired: `kind` is 1 created, 2 deleted, 3 changed, 4 children; `zxid` (from 3.9) is the change's."""

    kind: int
    path: str
    state: int
    received_ns: int
    zxid: int | None


class ZooKeeperConnection(connection.Connection):
    """A session on one server. `watch_events` holds the server's events in order."""

    not_sent = NOT_SENT
    lost = CONNECTION_LOST

    def __init__(self, ticket: wire.Ticket, keep_alive: bool, *, is_new: bool = False) -> None:
        """`is_new` says that nothing depends on this session yet: a server that closes instead refuses to serve."""
        super().__init__()
        self._ticket = ticket
        self._is_new = is_new
        self._connected: wire.Connected | None = None
        self._xid = 0
        self._pings: deque[asyncio.Future[int] | None] = deque()
        self._keeps_alive = keep_alive
        self._next_ping: asyncio.TimerHandle | None = None
        self._last_sent_s = 0.0
        self.watch_events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    @property
    def session_id(self) -> int | None:
        return self._connected.session_id if self._connected else None

    @property
    def timeout_ms(self) -> int:
        """The session's time-out as the server granted it."""
        return self._connected.timeout_ms if self._connected else 0

    @property
    def ticket(self) -> wire.Ticket:
        """The ticket by which this session can be resumed; only after it was opened."""
        assert self._connected is not None
        return wire.Ticket(*self._connected)

    @property
    def session_requested(self) -> bool:
        """Whether the request for a session was handed to the kernel."""
        return self._transport is not None

    def queue(
        self, op: int, record: bytes, parse: Parse[T], refused: Refused[T] | None = None
    ) -> "tuple[bytes, asyncio.Future[T]]":
        """Number a request and queue its answer; the caller must send the frame next (see `send`).

        `parse` and `refused` are called when the answer is read, so between the watch events before and after it.
        """
        xid = self._xid % 0x7FFFFFFF + 1
        answer: asyncio.Future[T] = self.expect(xid, (parse, refused))
        self._xid = xid
        return wire.frame(xid, op, record), answer

    def send(self, frames: bytes) -> None:
        """Hand frames to the kernel, several at once where the caller joined them."""
        assert self._transport is not None
        self._last_sent_s = self._loop.time()
        self._transport.write(frames)

    def request(self, op: int, record: bytes, parse: Parse[T]) -> "asyncio.Future[T]":
        """Send one request; the future ends with the value of `parse`, `ZooKeeperError`, or an outcome of the table."""
        frame, answer = self.queue(op, record, parse)
        self.send(frame)
        return answer

    def ping(self) -> "asyncio.Future[int]":
        """Send a ping; the future ends with the zxid of its reply."""
        self.usable()
        answer: asyncio.Future[int] = self._loop.create_future()
        self._pings.append(answer)
        self.send(wire.PING_FRAME)
        return answer

    async def begin(self) -> None:
        """Wait until the server granted a session; raises the outcome when it did not."""
        await self._granted

    def close(self) -> None:
        """Close the session if that needs no waiting, and the connection. Idempotent; never raises."""
        transport = self._transport
        granted = self.ended is None and self._connected is not None
        # Where bytes wait, the peer reads nothing: a graceful close would wait for it.
        if granted and transport and not transport.is_closing() and transport.get_write_buffer_size() == 0:
            transport.write(wire.CLOSE_FRAME)
            transport.close()
            self._transport = None
        super().close()

    def leave(self) -> None:
        """Close without ending the session. Idempotent; never raises."""
        self.end("left by its owner")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._granted = self.expect(_SESSION)
        self.send(wire.connect_frame(self._ticket))

    def eof_received(self) -> None:
        if self._is_new:
            connection.fail(self._granted, NOT_SERVING.outcome())
        super().eof_received()

    # What came

    def split(self, received: bytes, at: int) -> tuple[bytes, int] | None:
        return connection.sized(received, at, 0, _FRAME_BYTES_MAX)

    def match(self, frame: bytes) -> None:
        if self._connected is None:
            self._take_connected(frame)
            return
        xid, zxid, error = wire.HEADER.unpack_from(frame)
        if xid == wire.XID_PING:
            self._take_ping(zxid, error)
        elif xid == wire.XID_WATCH:
            kind, state, path = wire.read_watch(frame)
            self.watch_events.put_nowait(WatchEvent(kind, path, state, time.monotonic_ns(), zxid if zxid > 0 else None))
        elif (due := next(iter(self._waiting), None)) != xid:
            raise ValueError(f"an answer to request {xid} where {due or 'none'} was next")
        else:
            answer, (parse, refused) = self._waiting[xid]
            if answer.done():
                made = None
            elif not error:
                made = parse(frame, zxid)
            elif (made := refused and refused(error, zxid)) is None:
                connection.fail(answer, ZooKeeperError(error))
            self.settle(xid, made)

    def _take_connected(self, body: bytes) -> None:
        connected = wire.read_connected(body)
        if connected.timeout_ms <= 0:
            if self._ticket.session_id:
                connection.fail(self._granted, SESSION_OVER.outcome("the server refused to resume it"))
            raise ValueError("the server refused the session")
        self._connected = connected
        self.settle(_SESSION, None)
        if self._keeps_alive:
            self._wait_for_idleness()

    def _take_ping(self, zxid: int, error: int) -> None:
        answer = self._pings.popleft() if self._pings else None
        if answer is None or answer.done():
            return
        if error:
            connection.fail(answer, ZooKeeperError(error))
        else:
            answer.set_result(zxid)

    # Keeping alive and ending

    def _wait_for_idleness(self) -> None:
        assert self._connected is not None
        third_s = self._connected.timeout_ms / 3000
        due_s = self._last_sent_s + third_s
        if due_s <= self._loop.time():
            self._pings.append(None)
            self.send(wire.PING_FRAME)
            due_s = self._last_sent_s + third_s
        self._next_ping = self._loop.call_at(due_s, self._wait_for_idleness)

    def over(self, why: str) -> None:
        if self._next_ping is not None:
            self._next_ping.cancel()
        for answer in self._pings:
            if answer is not None:
                connection.fail(answer, CONNECTION_LOST.outcome(why))


async def open_connection(
    address: str, port: int, *, session_timeout_ms: int, connect_timeout_s: float, keep_alive: bool = True
) -> ZooKeeperConnection:
    """Connect and open a session.

    Raises `Definite`: "not-serving" when the server closes the connection instead, as one that neither leads nor
    follows does; "not-connected" when there is no connection, or no answer in time.
    """

    def make() -> ZooKeeperConnection:
        return ZooKeeperConnection(wire.Ticket(session_timeout_ms), keep_alive, is_new=True)

    return await connection.dial(make, address, port, connect_timeout_s, NOT_CONNECTED)
