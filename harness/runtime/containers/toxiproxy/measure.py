"""Measures a link by our own connections over its probe proxy, independently of the servers under test.

The probe proxy of a link carries the same toxics as the link itself, on the way back to us (`downstream`), and its
other end is the proxy server's own HTTP interface, which answers our requests. So no further container takes part, and
a probe also works while the nodes are paused or dead. The request passes freely; the answer meets the toxics.
"""

import asyncio
import time
from typing import Final, cast

from fencepost.harness.runtime.network import ConnectionEnding, Experience

_ROUND_TRIPS: Final = 5
#: The number of answers requested at once: some kilobytes each, because each lists every proxy of the cluster.
_BULK_ANSWERS: Final = 16
#: This many bytes show a rate and a size of pieces; nobody needs to wait for the end of a slow answer.
_BULK_WAIT_S: Final = 1.5
_VERSION: Final = b"GET /version HTTP/1.1\r\nHost: fencepost\r\n\r\n"
_PROXIES: Final = b"GET /proxies HTTP/1.1\r\nHost: fencepost\r\n\r\n"
_LAST_PROXIES: Final = b"GET /proxies HTTP/1.1\r\nHost: fencepost\r\nConnection: close\r\n\r\n"
_ANSWER: Final = b"HTTP/1.1 200 "


class _Asking(asyncio.Protocol):
    """Collects the received bytes, counts the pieces, and wakes the waiting caller."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.byte_count = 0
        self.pieces = 0
        self.last_s = 0.0
        self.ending: ConnectionEnding | None = None
        self.transport: asyncio.Transport | None = None
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.byte_count += len(data)
        self.pieces += 1
        self.last_s = time.perf_counter()
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ending = ConnectionEnding.RESET if isinstance(exc, ConnectionResetError) else ConnectionEnding.CLOSED
        self._news.set()

    def ask(self, request: bytes) -> None:
        self.received.clear()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(request)

    async def news(self) -> None:
        await self._news.wait()
        self._news.clear()


async def experience(host: str, port: int, timeout_s: float) -> Experience:
    """Measure some round trips, then many bytes, over one new connection, until the deadline at most."""
    asking = _Asking()
    trips: list[float] = []
    begun = sent = time.perf_counter()
    asks_bulk = False
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            await asyncio.get_running_loop().create_connection(lambda: asking, host, port)
            while len(trips) < _ROUND_TRIPS and asking.ending is None:
                sent = time.perf_counter()
                asking.ask(_VERSION)
                while asking.ending is None and not _one_answer(asking.received):
                    await asking.news()
                if _one_answer(asking.received):
                    trips.append((asking.last_s - sent) * 1e3)
            if asking.ending is None:
                asks_bulk = True
                deadline.reschedule(min(deadline.when() or 0.0, asyncio.get_running_loop().time() + _BULK_WAIT_S))
                sent = time.perf_counter()
                asking.ask(_PROXIES * (_BULK_ANSWERS - 1) + _LAST_PROXIES)
                while asking.ending is None:
                    await asking.news()
    except TimeoutError:
        ending = ConnectionEnding.SILENT
    except ConnectionResetError:
        ending = ConnectionEnding.RESET
    except OSError:
        ending = ConnectionEnding.CLOSED
    else:
        assert asking.ending is not None
        whole = asks_bulk and asking.received.count(_ANSWER) == _BULK_ANSWERS and _is_ended(asking.received)
        ending = ConnectionEnding.COMPLETE if whole and asking.ending is ConnectionEnding.CLOSED else asking.ending
    finally:
        if asking.transport is not None:
            asking.transport.abort()
    ended = time.perf_counter()
    last = asking.last_s or begun
    return Experience(
        ending=ending,
        round_trips_ms=tuple(trips),
        byte_count=asking.byte_count,
        pieces=asking.pieces,
        rate_kb_s=len(asking.received) / 1000 / (last - sent) if asks_bulk and last > sent else 0.0,
        closing_ms=(ended - last) * 1e3,
        ended_ms=(ended - begun) * 1e3,
    )


def _one_answer(received: bytearray) -> bool:
    """Say whether the answer to GET /version is complete: its headers hold its length."""
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if separator and name.lower() == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


def _is_ended(received: bytearray) -> bool:
    """Say whether the last answer is complete: chunked ones end in an empty chunk, short ones state their length."""
    if received.endswith(b"\r\n0\r\n\r\n"):
        return True
    return _one_answer(received[received.rindex(_ANSWER) :])
