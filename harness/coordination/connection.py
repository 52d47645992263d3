"""The connection to one server that a client stands on; a system says what a frame is, and whose answer.

Nothing is sent twice and nothing reconnects. A request has no time limit of its own: whoever waits for the answer
stops waiting at its deadline. So a request ends in one of these ways:

what happened                                     how the request ends
its answer came                                   with what `match` made of it
the connection had ended before                   `NotSent`: no byte was handed over
the connection ends while it waits, whoever       `Indefinite`
ends it, also for a frame that cannot be read
its caller was cancelled                          a late answer is dropped
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar, cast

from fencepost.harness.coordination.client_gate import create_connection
from fencepost.harness.coordination.session import CONNECTION_LOST, NOT_CONNECTED, Indefinite, NotSent, Row

_LENGTH: Final = struct.Struct(">i")


class Connection(asyncio.Protocol):
    """Made by `dial`; a system's own has `split` and `match`, and methods that make its requests."""

    #: The rows of the system's table for a request that cannot be sent, and for one whose answer cannot come any more.
    not_sent: ClassVar[Row] = NOT_CONNECTED
    lost: ClassVar[Row] = CONNECTION_LOST

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        #: Why nothing can be sent any more; None while the connection is good.
        self.ended: str | None = None
        self._transport: asyncio.Transport | None = None
        self._received = b""
        #: Requests without an answer, in the order in which they were made, and what is needed to read the answers.
        self._waiting: dict[Any, tuple[asyncio.Future[Any], Any]] = {}

    # What a system says

    def split(self, received: bytes, at: int) -> tuple[Any, int] | None:
        """Read the frame that begins at `at`: the frame and where it ends, None while it is incomplete.

        Raises ValueError for bytes that are no frame: they end the connection.
        """
        raise NotImplementedError

    def match(self, frame: Any) -> None:
        """Give the frame to whom it is for, by `settle`; what it raises ends the connection."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Say hello, where the protocol has it; within the time limit of `dial`."""

    def over(self, why: str) -> None:
        """Told once, when the connection has ended."""

    # What a system uses

    def usable(self) -> asyncio.Transport:
        """The transport to write a request to; raises `NotSent` when that cannot reach the server any more."""
        transport = self._transport
        if self.ended is not None or transport is None or transport.is_closing():
            raise self.not_sent.outcome(self.ended or "the connection is closing")
        return transport

    def expect(self, key: object, how: object = None) -> "asyncio.Future[Any]":
        """Let an answer be waited for under this key; the request must be handed over next. Raises `NotSent`."""
        self.usable()
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[key] = answer, how
        return answer

    def ask(self, key: object, frame: bytes, how: object = None) -> "asyncio.Future[Any]":
        """Hand over one request; the future is its answer. Raises `NotSent`."""
        transport = self.usable()
        answer = self._loop.create_future()
        self._waiting[key] = answer, how
        transport.write(frame)
        return answer

    def settle(self, key: object, value: object) -> None:
        """End the request with its answer; one that nobody waits for any more is dropped."""
        pending = self._waiting.pop(key, None)
        if pending is not None and not pending[0].done():
            pending[0].set_result(value)

    def end(self, why: str) -> None:
        """End the connection at once, and all that waits for an answer. Idempotent, never raises."""
        if self.ended is None:
            self.ended = why
            self._received = b""
            waiting, self._waiting = self._waiting, {}
            for answer, _ in waiting.values():
                fail(answer, self.lost.outcome(why))
            self.over(why)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close at once, without waiting for the server. Idempotent, never raises."""
        self.end("closed by its owner")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        at, size = 0, len(received)
        try:
            while at < size and self.ended is None and (next_frame := self.split(received, at)) is not None:
                frame, at = next_frame
                self.match(frame)
        except Exception as error:
            self.end(str(error) if isinstance(error, ValueError) else f"an answer that cannot be read: {error!r}")
        if self.ended is None:
            self._received = received[at:]

    def eof_received(self) -> None:
        # A server that has closed its half will not answer.
        self.end("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(f"the connection broke: {exc}" if exc else "the server closed the connection")


def sized(received: bytes, at: int, least: int, most: int) -> tuple[bytes, int] | None:
    """What stands at `at` behind its own length in four bytes, and where it ends (see `Connection.split`)."""
    start = at + 4
    if len(received) < start:
        return None
    (length,) = _LENGTH.unpack_from(received, at)
    if not least <= length <= most:
        raise ValueError(f"an answer of {length} bytes")
    end = start + length
    return None if len(received) < end else (received[start:end], end)


def fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    """End a future with an error that counts as seen: its caller may be cancelled, or await another future first."""
    if not answer.done():
        answer.set_exception(error)
        answer.exception()


C = TypeVar("C", bound=Connection)


async def dial(make: Callable[[], C], address: str, port: int, timeout_s: float | None, row: Row = NOT_CONNECTED) -> C:
    """Connect once, and wait until the server has greeted; all within one time limit (None: the caller bounds it).

    Raises:
        Definite: `row` where the server cannot be reached, ends the connection or says nothing; else what `begin` says.
    """
    connection: C | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await create_connection(make, address, port)
            await connection.begin()
            return connection
    except BaseException as error:
        ended = None
        if connection is not None:
            ended = connection.ended
            connection.close()
        match error:
            case TimeoutError() if timeout_s is not None:
                why = f" did not answer within {timeout_s:g} s"
            case ConnectionRefusedError():
                why = " refused the connection"
            case OSError() | Indefinite() | NotSent():
                why = f": {ended or error}"
            case _:
                raise
        raise row.outcome(f"{address}:{port}{why}") from None
