"""One request on an HTTP/2 connection, its answer, and every way in which it can end without one."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from fencepost.harness.systems.etcd.wire import frames
from fencepost.harness.systems.etcd.wire.headers import Headers


class NotOpen(Exception):
    """Not sent: the connection is not open, or takes no further request."""


class TooManyStreams(Exception):
    """Not sent: as many requests are under way as the server allows."""


class Refused(Exception):
    """The server said that it did not act on the request and will not."""


class StreamReset(Exception):
    """The server, or we upon nonsense, gave this one request up."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(why or f"the stream was reset: {frames.name_of(code)}")
        self.code: Final = code


class ConnectionLost(Exception):
    """The connection ended before the answer."""


class Closed(ConnectionLost):
    """It ended because its owner closed it."""


class Response(NamedTuple):
    """A whole answer. One of headers alone (gRPC's "trailers only") has them as trailers as well."""

    headers: Headers
    body: bytes
    trailers: Headers


class Stream:
    """One request under way.

    A *live* one is not over when its first part was sent: more may follow, and its owner is handed every piece of the
    answer as it comes. `answer` then only tells how the stream ended.
    """

    __slots__ = ("answer", "chunks", "headers", "live", "number", "unsent", "window")

    def __init__(
        self,
        number: int,
        answer: "asyncio.Future[Response]",
        window: int,
        live: Callable[[bytes], None] | None = None,
    ) -> None:
        self.number: Final = number
        self.answer: Final = answer
        self.live: Final = live
        #: What the server lets us send on this stream; may be negative after its SETTINGS changed.
        self.window = window
        #: What the windows hold back of the request; a view, since a large one is sent in many parts.
        self.unsent = memoryview(b"")
        self.headers: Headers | None = None
        self.chunks: list[bytes] = []
