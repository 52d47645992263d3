"""One HTTP/1.1 connection of a client. Each request gets an answer, or an exact statement about its fate.

Libraries (aiohttp, httpx, urllib3) keep pools that redial, and some send a request again when a kept connection turns
out to be closed. That hides whether a request can have reached the server. Here a request is handed to the transport in
one write or not at all, and ends in one of these ways:
  - `NotOpen`, at once: no byte of it was sent;
  - `Lost`: the connection ended after the request was handed over, and nobody knows what the server did;
  - its `Answer`.
There are no retries, no reconnects, no time-outs and no pipelining. Whoever stops waiting for an answer ends the
connection, since the late answer would be taken for the next one.

Source: RFC 9112, sections 6 (length of a message) and 7.1 (chunks).
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from fencepost.harness.coordination.client_gate import create_connection

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
#: A longer head is no answer of the servers that are asked here.
_HEAD_BYTES_MAX: Final = 1 << 16


class NotOpen(ConnectionError):
    """The connection is not open: nothing of the request was sent."""


class Lost(ConnectionError):
    """The connection ended while the request was under way."""


class Answer(NamedTuple):
    """A complete answer; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """Made by `open_connection`."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._shut: str | None = "not connected"

    @property
    def shut(self) -> str | None:
        """Why no request is accepted any more; None while the connection is good."""
        if self._shut is None and self._transport is not None and self._transport.is_closing():
            return "the connection is closing"
        return self._shut

    async def request(self, method: str, target: str, body: bytes = b"") -> Answer:
        """Send one request and return its answer, whatever its status.

        Raises:
            NotOpen: nothing was sent.
            Lost: the connection ended before the answer was complete.
            RuntimeError: another request is under way.
        """
        if self.shut is not None or self._transport is None:
            raise NotOpen(self.shut)
        if self._answer is not None:
            raise RuntimeError("one request at a time")
        self._answer = asyncio.get_running_loop().create_future()
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode("ascii") + body)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._end("its owner stopped waiting for an answer")
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Close at once, without waiting for the server. Idempotent, never raises."""
        self._end("closed by its owner")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._shut = None

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self._end(f"the server sent {len(data)} bytes that nobody asked for")
            return
        self._received += data
        try:
            answer, used = read_answer(self._received)
        except ValueError as error:
            self._end(f"the answer is not HTTP/1.1: {error}")
            return
        if answer is None:
            return
        del self._received[:used]
        self._answer.set_result(answer)
        if self._received:
            self._end("the server sent more than one answer")
        elif answer.headers.get("connection", "").lower() == "close":
            self._end("the server closes the connection after this answer")

    def eof_received(self) -> None:
        # A server that has closed its half will not answer.
        self._end("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection broke: {exc}" if exc else "the server closed the connection")

    def _end(self, why: str) -> None:
        if self._shut is None:
            self._shut = why
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Lost(why))
        if self._transport is not None:
            self._transport.abort()


async def open_connection(host: str, port: int) -> Connection:
    """Connect once; raises OSError. The caller bounds the wait."""
    return await create_connection(lambda: Connection(f"{host}:{port}"), host, port)


async def ask(host: str, port: int, target: str) -> Answer:
    """GET one target on a connection of its own; raises OSError. The caller bounds the wait."""
    connection = await open_connection(host, port)
    try:
        return await connection.request("GET", target)
    finally:
        connection.close()


def read_answer(received: bytes | bytearray) -> tuple[Answer | None, int]:
    """Read the answer at the beginning of `received`.

    Returns:
        The answer and the number of bytes that it takes; None and 0 while it is incomplete.

    Raises:
        ValueError: these bytes are no answer with a length or chunks.
    """
    end = received.find(_HEAD_END)
    if end < 0:
        if len(received) > _HEAD_BYTES_MAX or not b"HTTP/1.".startswith(received[:7]):
            raise ValueError(f"it begins with {bytes(received[:40])!r}")
        return None, 0
    status_line, *lines = received[:end].decode("latin-1").split("\r\n")
    version, _, rest = status_line.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise ValueError(f"it begins with {status_line[:40]!r}")
    headers = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    start = end + len(_HEAD_END)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, used = _chunks(received, start)
    elif "content-length" in headers:
        used = start + int(headers["content-length"])
        body = bytes(received[start:used]) if used <= len(received) else None
    else:
        raise ValueError("it names no length")
    return (None, 0) if body is None else (Answer(int(status), headers, body), used)


def _chunks(received: bytes | bytearray, start: int) -> tuple[bytes | None, int]:
    """The body whose chunks begin at `start`, and where they end; None while the last one is missing."""
    parts: list[bytes] = []
    while True:
        line_end = received.find(_LINE_END, start)
        if line_end < 0:
            return None, 0
        size = int(received[start:line_end].split(b";")[0], 16)
        begin, stop = line_end + 2, line_end + 2 + size
        if len(received) < stop + 2:
            return None, 0
        if received[stop : stop + 2] != _LINE_END:
            raise ValueError("a chunk has another length than it says, or trailers follow it")
        if size == 0:
            return b"".join(parts), stop + 2
        parts.append(bytes(received[begin:stop]))
        start = stop + 2
