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
from typing import Any, Final, NamedTuple, TypeVar, cast

from fencepost.harness.coordination.client_gate import create_connection
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import (
    CONNECTION_LOST,
    NOT_CONNECTED,
    NOT_SENT,
    NOT_SERVING,
    SESSION_OVER,
    Row,
    ServerError,
    raised,
)

#: Makes the value of a reply from (body, zxid).
T = TypeVar("T")
Parse = Callable[[bytes, int], T]
#: Makes a value from a refusal (error code, zxid), or None where the refusal is not an answer.
Refused = Callable[[int, int], T | None]

#: A longer frame is an error of the protocol: 64 MB is far above the server's own limit for requests (1 MB).
_FRAME_BYTES_MAX: Final = 64 << 20


class WatchEvent(NamedTuple):
    """A watch fired: `kind` is 1 created, 2 deleted, 3 changed, 4 children; `zxid` (from 3.9) is the change's."""

    kind: int
    path: str
    state: int
    received_ns: int
    zxid: int | None


class _Sent(NamedTuple):
    xid: int
    answer: "asyncio.Future[Any]"
    parse: Parse[Any]
    refused: "Refused[Any] | None" = None


class Connection(asyncio.Protocol):
    """A connection that `open_connection` makes. `watch_events` holds the server's events in order."""

    def __init__(self, ticket: wire.Ticket, keep_alive: bool, *, in_doubt: Row = NOT_CONNECTED) -> None:
        """`in_doubt` is the outcome when the request for the session gets no answer; a lost new session is harmless."""
        self._loop = asyncio.get_running_loop()
        self._ticket = ticket
        self._in_doubt = in_doubt
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[wire.Connected] = self._loop.create_future()
        self._connected: wire.Connected | None = None
        self._ended: str | None = None
        self._buffer = b""
        self._xid = 0
        self._sent: deque[_Sent] = deque()
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

    @property
    def ended(self) -> str | None:
        """Why nothing can be sent any more, or None."""
        return self._ended

    def queue(
        self, op: int, record: bytes, parse: Parse[T], refused: Refused[T] | None = None
    ) -> "tuple[bytes, asyncio.Future[T]]":
        """Number a request and queue its answer; the caller must send the frame next (see `send`).

        `parse` and `refused` are called when the answer is read, so between the watch events before and after it.
        """
        self._check_open()
        self._xid = xid = self._xid % 0x7FFFFFFF + 1
        answer: asyncio.Future[T] = self._loop.create_future()
        self._sent.append(_Sent(xid, answer, parse, refused))
        return wire.frame(xid, op, record), answer

    def send(self, frames: bytes) -> None:
        """Hand frames to the kernel, several at once where the caller joined them."""
        assert self._transport is not None
        self._last_sent_s = self._loop.time()
        self._transport.write(frames)

    def request(self, op: int, record: bytes, parse: Parse[T]) -> "asyncio.Future[T]":
        """Send one request; the future ends with the value of `parse`, `ServerError`, or an outcome of the table."""
        frame, answer = self.queue(op, record, parse)
        self.send(frame)
        return answer

    def ping(self) -> "asyncio.Future[int]":
        """Send a ping; the future ends with the zxid of its reply."""
        self._check_open()
        answer: asyncio.Future[int] = self._loop.create_future()
        self._pings.append(answer)
        self.send(wire.PING_FRAME)
        return answer

    async def opened(self) -> None:
        """Wait until the server granted a session; raises `Definite` when it did not."""
        await self._opened

    def close(self) -> None:
        """Close the session if that needs no waiting, and the connection. Idempotent; never raises."""
        self._stop_pings()
        transport = self._transport
        if transport is None or self._ended is not None:
            return
        self._end("closed by the caller")
        if transport.get_write_buffer_size() > 0:
            transport.abort()  # the peer reads nothing: a graceful close would wait for it
            return
        if self._connected is not None and not transport.is_closing():
            transport.write(wire.CLOSE_FRAME)
        transport.close()

    def leave(self) -> None:
        """Close without ending the session. Idempotent; never raises."""
        self._stop_pings()
        self._end("left by the caller")
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.send(wire.connect_frame(self._ticket))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_pings()
        if exc is None and not self._opened.done() and self._in_doubt is NOT_CONNECTED:
            _fail(self._opened, raised(NOT_SERVING))
        self._end(repr(exc) if exc else "closed by the server")

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        offset, end = 0, len(buffer)
        while end - offset >= 4:
            length = wire.INT.unpack_from(buffer, offset)[0]
            if not 0 <= length <= _FRAME_BYTES_MAX:
                self._break(f"a frame of {length} bytes")
                return
            if end - offset - 4 < length:
                break
            self._take(buffer[offset + 4 : offset + 4 + length])
            offset += 4 + length
            if self._ended is not None:
                return
        self._buffer = buffer[offset:]

    # What came

    def _take(self, body: bytes) -> None:
        if self._connected is None:
            self._take_connected(body)
            return
        xid, zxid, error = wire.HEADER.unpack_from(body)
        if xid == wire.XID_PING:
            self._take_ping(zxid, error)
        elif xid == wire.XID_WATCH:
            kind, state, path = wire.read_watch(body)
            self.watch_events.put_nowait(WatchEvent(kind, path, state, time.monotonic_ns(), zxid if zxid > 0 else None))
        elif not self._sent or self._sent[0].xid != xid:
            self._break(f"an answer to request {xid} where {self._sent[0].xid if self._sent else 'none'} was next")
        else:
            self._take_reply(self._sent.popleft(), body, zxid, error)

    def _take_reply(self, sent: _Sent, body: bytes, zxid: int, error: int) -> None:
        answer = sent.answer
        if answer.done():
            return
        if error:
            made = sent.refused(error, zxid) if sent.refused is not None else None
            if made is None:
                _fail(answer, ServerError(error))
            else:
                answer.set_result(made)
            return
        try:
            answer.set_result(sent.parse(body, zxid))
        except Exception as failure:
            self._sent.appendleft(sent)
            self._break(f"an answer that cannot be read: {failure!r}")

    def _take_connected(self, body: bytes) -> None:
        connected = wire.read_connected(body)
        if connected.timeout_ms <= 0:
            if self._ticket.session_id and not self._opened.done():
                _fail(self._opened, raised(SESSION_OVER, "the server refused to resume it"))
            self._break("the server refused the session")
            return
        self._connected = connected
        if not self._opened.done():
            self._opened.set_result(connected)
        if self._keeps_alive:
            self._wait_for_idleness()

    def _take_ping(self, zxid: int, error: int) -> None:
        answer = self._pings.popleft() if self._pings else None
        if answer is None or answer.done():
            return
        if error:
            _fail(answer, ServerError(error))
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

    def _stop_pings(self) -> None:
        if self._next_ping is not None:
            self._next_ping.cancel()
            self._next_ping = None

    def _check_open(self) -> None:
        if self._ended is not None:
            raise raised(NOT_SENT, self._ended)
        if self._connected is None or self._transport is None or self._transport.is_closing():
            raise raised(NOT_SENT, "the connection is closing" if self._transport else "not connected")

    def _break(self, why: str) -> None:
        """End the connection, since the server broke the protocol and nothing more can be trusted."""
        self._end(why)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: str) -> None:
        if self._ended is not None:
            return
        self._ended = why
        self._buffer = b""
        if not self._opened.done():
            _fail(self._opened, raised(self._in_doubt, why))
        waiting: list[asyncio.Future[Any] | None] = [*(sent.answer for sent in self._sent), *self._pings]
        self._sent.clear()
        self._pings.clear()
        for answer in waiting:
            if answer is not None and not answer.done():
                _fail(answer, raised(CONNECTION_LOST, why))


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    """End a future with an error that counts as seen: its caller may be cancelled, or await another future first."""
    answer.set_exception(error)
    answer.exception()


async def open_connection(
    address: str, port: int, *, session_timeout_ms: int, connect_timeout_s: float, keep_alive: bool = True
) -> Connection:
    """Connect and open a session.

    Raises `Definite`: "not-serving" when the server closes the connection instead, as one that neither leads nor
    follows does; "not-connected" when there is no connection, or no answer in time.
    """
    connection: Connection | None = None
    try:
        async with asyncio.timeout(connect_timeout_s):
            ticket = wire.Ticket(session_timeout_ms)
            connection = await create_connection(lambda: Connection(ticket, keep_alive), address, port)
            await connection.opened()
    except (OSError, TimeoutError) as error:
        if connection is not None:
            connection.close()
        raise raised(NOT_CONNECTED, f"{address}:{port}: {error!r}") from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection
