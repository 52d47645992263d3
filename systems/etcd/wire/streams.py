"""One request on an HTTP/2 connection, its answer, and every way in which it can end without one."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from fencepost.systems.etcd.wire import frames
from fencepost.systems.etcd.wire.headers import Headers


class Http2NotOpen(Exception):
    """Not sent: the connection is not open, or accepts no more requests."""


class TooManyStreams(Exception):
    """Not sent: the server allows no more requests at the same time."""


class RequestRejected(Exception):
    """The server states that it did not act on the request and will not."""


class StreamReset(Exception):
    """The server ended this request, or the client did because of a malformed answer."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(why or f"the stream was reset: {frames.name_of(code)}")
        self.code: Final = code


class ConnectionLost(Exception):
    """The connection ended before the answer."""


class ConnectionClosed(ConnectionLost):
    """The connection ended because its owner closed it."""


class GrpcResponse(NamedTuple):
    """A complete answer. An answer of headers alone (gRPC's "trailers only") has them as trailers too."""

    headers: Headers
    body: bytes
    trailers: Headers


class Http2Stream:
    """One request under way.

    A *live* stream may send more parts after the first one, and its owner gets every piece of the answer as it comes.
    `answer` then only says how the stream ended.
    """

    __slots__ = ("answer", "chunks", "headers", "live", "number", "unsent", "window")

    def __init__(
        self,
        number: int,
        answer: "asyncio.Future[GrpcResponse]",
        window: int,
        live: Callable[[bytes], None] | None = None,
    ) -> None:
        self.number: Final = number
        self.answer: Final = answer
        self.live: Final = live
        #: How many bytes the server accepts on this stream now; may be negative after its SETTINGS changed.
        self.window = window
        #: The part of the request that the windows hold back; a view, since a large one is sent in many parts.
        self.unsent = memoryview(b"")
        self.headers: Headers | None = None
        self.chunks: list[bytes] = []
