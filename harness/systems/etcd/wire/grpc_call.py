"""gRPC calls, and what became of each: an answer, `Definite` or `Indefinite`.

The protocol is small (grpc/grpc, doc/PROTOCOL-HTTP2.md): a message is a byte that says whether it is compressed, its
length and itself; the call's status stands in the trailers, or in the headers where there is nothing else. What the
server said goes through the table of `errors`; what happened to the connection is told by `http2`.

A stream of one request and one answer (LeaseKeepAlive, closed by us after the request) is on the wire just this. A
`LiveCall` is a stream in earnest: requests go out and answers come in until one side ends it.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.systems.etcd.wire import errors
from fencepost.harness.systems.etcd.wire.frames import ErrorCode
from fencepost.harness.systems.etcd.wire.headers import Headers, write_block
from fencepost.harness.systems.etcd.wire.http2 import Connection, open_connection
from fencepost.harness.systems.etcd.wire.streams import (
    Closed,
    ConnectionLost,
    NotOpen,
    Refused,
    Response,
    Stream,
    StreamReset,
    TooManyStreams,
)

#: One request in, one answer out; cancelled when nobody waits any more.
Method = Callable[[Any], Awaitable[Any]]

#: Compressed or not, and the message's length.
_PREFIX: Final = struct.Struct(">BI")
_SERVICE: Final = "/etcdserverpb."


class Status(IntEnum):
    """gRPC's status codes (grpc/grpc, doc/statuscodes.md)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


#: For an answer without a gRPC status (grpc/grpc, doc/http-grpc-status-mapping.md).
_STATUS_OF_HTTP: Final = {
    "400": Status.INTERNAL,
    "401": Status.UNAUTHENTICATED,
    "403": Status.PERMISSION_DENIED,
    "404": Status.UNIMPLEMENTED,
    "429": Status.UNAVAILABLE,
    "502": Status.UNAVAILABLE,
    "503": Status.UNAVAILABLE,
    "504": Status.UNAVAILABLE,
}
#: For a stream that was reset (doc/PROTOCOL-HTTP2.md); any other code is INTERNAL.
_STATUS_OF_RESET: Final[dict[int, Status]] = {
    ErrorCode.CANCEL: Status.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: Status.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: Status.PERMISSION_DENIED,
}


async def connect(address: str, port: int, timeout_s: float) -> Connection:
    """Connect once: raises `NotSent` at the first refusal, or when the server said nothing before the deadline."""
    where = f"{address}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            return await open_connection(address, port)
    except TimeoutError:
        raise NotSent(errors.NOT_CONNECTED, f"{where} did not answer within {timeout_s:g} s") from None
    except ConnectionRefusedError:
        raise NotSent(errors.NOT_CONNECTED, f"{where} refused the connection") from None
    except (OSError, NotOpen) as error:
        raise NotSent(errors.NOT_CONNECTED, f"{where}: {error}") from None


def unary(connection: Connection, method: str, answer: type[Any]) -> Method:
    """The call "Service/Method" on this connection; `answer` is the type of its answer."""
    block = _request_block(connection.authority, _SERVICE + method)
    parse = answer.FromString

    async def call(request: Any) -> Any:
        stream = _sent(connection, block, request, None)
        try:
            response = await stream.answer
        except asyncio.CancelledError:
            connection.give_up(stream)
            raise
        except (Refused, ConnectionLost, StreamReset) as why:
            raise _unanswered(why) from None
        return _message(response, parse)

    return call


class LiveCall:
    """The call "Service/Method" as a stream: begun by its first request, over when the server or `close` ends it.

    `heard` is handed every answer, parsed by the type `answer`, in the server's order and as it comes.
    """

    def __init__(
        self, connection: Connection, method: str, first: Any, answer: type[Any], heard: Callable[[Any], None]
    ) -> None:
        self._connection = connection
        self._parse = answer.FromString
        self._heard = heard
        self._rest = b""
        self._broken: str | None = None
        block = _request_block(connection.authority, _SERVICE + method)
        self._stream = _sent(connection, block, first, self._take)

    def send(self, request: Any) -> None:
        """Another request; raises `NotSent` when the call is over."""
        try:
            self._connection.send_on(self._stream, _framed(request))
        except NotOpen as why:
            raise NotSent(errors.NOT_CONNECTED, str(why)) from None

    def close(self) -> None:
        """Tell the server that nobody listens any more. Idempotent."""
        self._connection.give_up(self._stream)
        self._stream.answer.cancel()

    @property
    def ended(self) -> Definite | Indefinite | None:
        """Why nothing more will be heard; None while something may."""
        if self._broken is not None:
            return _outcome(Status.INTERNAL, self._broken)
        answer = self._stream.answer
        if not answer.done():
            return None
        if answer.cancelled():
            return Indefinite(errors.CLOSED, "the call was closed by its owner")
        why = answer.exception()
        if why is None:
            headers, _, trailers = answer.result()
            if trailers.get("grpc-status") == "0":
                return _outcome(Status.CANCELLED, "the server ended the stream")
            return _outcome(*_status(headers, trailers))
        assert isinstance(why, Refused | ConnectionLost | StreamReset)
        return _unanswered(why)

    async def over(self) -> None:
        """Wait until the call is over."""
        await asyncio.wait([self._stream.answer])

    def _take(self, data: bytes) -> None:
        data = self._rest + data
        while len(data) >= _PREFIX.size and self._broken is None:
            compressed, size = _PREFIX.unpack_from(data)
            end = _PREFIX.size + size
            if len(data) < end:
                break
            try:
                if compressed:
                    raise DecodeError("it is compressed")
                message = self._parse(data[_PREFIX.size : end])
            except DecodeError as error:
                self._broken = f"an answer that cannot be read: {error}"
                self.close()
                break
            self._heard(message)
            data = data[end:]
        self._rest = data


def _framed(request: Any) -> bytes:
    message = request.SerializeToString()
    return _PREFIX.pack(0, len(message)) + bytes(message)


def _sent(connection: Connection, block: bytes, request: Any, live: Callable[[bytes], None] | None) -> Stream:
    """Begin a call; raises `Definite` when nothing was sent."""
    try:
        return connection.request(block, _framed(request), live=live)
    except NotOpen as why:
        raise NotSent(errors.NOT_CONNECTED, str(why)) from None
    except TooManyStreams as why:
        raise Definite(errors.TOO_MANY_STREAMS, str(why)) from None


def _unanswered(why: Refused | ConnectionLost | StreamReset) -> Definite | Indefinite:
    """What it means that a request under way ended without an answer."""
    match why:
        case Refused():
            return Definite(errors.REFUSED, str(why))
        case Closed():
            return Indefinite(errors.CLOSED, "the client was closed while the request was under way")
        case ConnectionLost():
            return Indefinite(errors.CONNECTION_LOST, str(why))
        case _:
            return _outcome(_STATUS_OF_RESET.get(why.code, Status.INTERNAL), str(why))


@lru_cache(maxsize=256)
def _request_block(authority: str, path: str) -> bytes:
    return write_block(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fencepost"),
        ]
    )


def _message(response: Response, parse: Callable[[bytes], Any]) -> Any:
    """The answer's message; raises what the table makes of any other answer."""
    headers, body, trailers = response
    if trailers.get("grpc-status") != "0" or headers.get(":status") != "200":
        raise _outcome(*_status(headers, trailers))
    size = len(body) - _PREFIX.size
    if size < 0 or _PREFIX.unpack_from(body) != (0, size):
        raise _outcome(Status.INTERNAL, f"an answer of {len(body)} bytes that is not one plain message")
    try:
        return parse(body[_PREFIX.size :])
    except DecodeError as error:
        raise _outcome(Status.INTERNAL, f"an answer that cannot be read: {error}") from None


def _status(headers: Headers, trailers: Headers) -> tuple[Status, str]:
    """What an answer that is not simply OK says."""
    http = headers.get(":status", "none")
    said = trailers.get("grpc-status")
    if said is None:
        why = "an answer without gRPC's status" if http == "200" else f"HTTP status {http}"
        return _STATUS_OF_HTTP.get(http, Status.UNKNOWN), why
    text = unquote(trailers.get("grpc-message", ""))
    if said == "0":
        return Status.UNKNOWN, f"gRPC status 0 with HTTP status {http}"
    if said.isdecimal() and int(said) in Status._value2member_map_:
        return Status(int(said)), text
    return Status.UNKNOWN, f"gRPC status {said!r}: {text}"


def _outcome(status: Status, text: str) -> Definite | Indefinite:
    return errors.outcome(status.name, text)
