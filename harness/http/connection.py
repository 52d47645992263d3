"""One HTTP/1.1 connection of a client. Each request gets an answer, or an exact statement about its fate.

Libraries (aiohttp, httpx, urllib3) keep pools that redial, and some send a request again when a kept connection turns
out to be closed. That hides whether a request can have reached the server. Here a request is handed to the transport in
one write or not at all (`harness.coordination.connection`), and nothing is pipelined. Whoever stops waiting for an
answer ends the connection, since the late answer would be taken for the next one.

Source: RFC 9112, sections 6 (length of a message) and 7.1 (chunks).
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.harness.coordination import Indefinite, NotSent, connection

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
#: A longer head is no answer of the servers that are asked here.
_HEAD_BYTES_MAX: Final = 1 << 16


class HttpAnswer(NamedTuple):
    """A complete answer; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnection(connection.Connection):
    """Made by `open_connection`."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    async def request(self, method: str, target: str, body: bytes = b"") -> HttpAnswer:
        """Send one request and return its answer, whatever its status.

        Raises:
            NotSent: nothing was sent.
            Indefinite: the connection ended before the answer was complete.
            RuntimeError: another request is under way.
        """
        if self._waiting:
            raise RuntimeError("one request at a time")
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            answer: HttpAnswer = await self.ask(None, head.encode("ascii") + body)
        except asyncio.CancelledError:
            self.end("its owner stopped waiting for an answer")
            raise
        return answer

    def split(self, received: bytes, at: int) -> tuple[HttpAnswer, int] | None:
        if not self._waiting and len(received) > at:
            raise ValueError(f"the server sent {len(received) - at} bytes that nobody asked for")
        return answer_at(received, at)

    def match(self, frame: HttpAnswer) -> None:
        self.settle(None, frame)
        if frame.headers.get("connection", "").lower() == "close":
            self.end("the server closes the connection after this answer")


async def open_connection(host: str, port: int, timeout_s: float | None = None) -> HttpConnection:
    """Connect once; raises `NotSent`. Without a time limit the caller bounds the wait."""
    return await connection.dial(lambda: HttpConnection(f"{host}:{port}"), host, port, timeout_s)


async def ask(host: str, port: int, target: str) -> HttpAnswer:
    """GET one target on a connection of its own; raises OSError. The caller bounds the wait."""
    try:
        opened = await open_connection(host, port)
        try:
            return await opened.request("GET", target)
        finally:
            opened.close()
    except (NotSent, Indefinite) as error:
        raise ConnectionError(str(error)) from None


def answer_at(received: bytes, at: int) -> tuple[HttpAnswer, int] | None:
    """The answer at `at`, and where it ends; None while it is incomplete.

    Raises ValueError for bytes that are no answer with a length or chunks.
    """
    end = received.find(_HEAD_END, at)
    if end < 0:
        if len(received) - at > _HEAD_BYTES_MAX or not b"HTTP/1.".startswith(received[at : at + 7]):
            raise ValueError(f"the answer is not HTTP/1.1: it begins with {received[at : at + 40]!r}")
        return None
    status_line, *lines = received[at:end].decode("latin-1").split("\r\n")
    version, _, rest = status_line.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise ValueError(f"the answer is not HTTP/1.1: it begins with {status_line[:40]!r}")
    headers = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    start = end + len(_HEAD_END)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, used = _chunks(received, start)
    elif "content-length" in headers:
        used = start + int(headers["content-length"])
        body = received[start:used] if used <= len(received) else None
    else:
        raise ValueError("the answer is not HTTP/1.1: it names no length")
    return None if body is None else (HttpAnswer(int(status), headers, body), used)


def _chunks(received: bytes, start: int) -> tuple[bytes | None, int]:
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
        parts.append(received[begin:stop])
        start = stop + 2
