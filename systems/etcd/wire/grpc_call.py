"""gRPC calls. Each ends with an answer, `Definite` or `Indefinite`.

The protocol is small (grpc/grpc, doc/PROTOCOL-HTTP2.md). A message is a byte that says whether it is compressed, the
length, and the bytes. The status of a call stands in the trailers, or in the headers where there is nothing else. The
table of `errors` decides what the server's status means; `http2` says what happened to the connection.

A stream with one request and one answer (LeaseKeepAlive, which the client closes after the request) looks the same on
the wire. A `LiveCall` is a real stream: requests go out and answers come in until one side ends it.
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
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire.frames import ErrorCode
from fencepost.systems.etcd.wire.headers import Headers, write_block
from fencepost.systems.etcd.wire.http2 import Http2Connection, open_connection
from fencepost.systems.etcd.wire.streams import (
    ConnectionClosed,
    ConnectionLost,
    GrpcResponse,
    Http2NotOpen,
    Http2Stream,
    RequestRejected,
    StreamReset,
    TooManyStreams,
)

#: One request in, one answer out; the caller cancels it when it stops waiting.
Method = Callable[[Any], Awaitable[Any]]

#: Whether the message is compressed, and its length.
_PREFIX: Final = struct.Struct(">BI")
_SERVICE: Final = "/etcdserverpb."


class GrpcStatus(IntEnum):
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
    "400": GrpcStatus.INTERNAL,
    "401": GrpcStatus.UNAUTHENTICATED,
    "403": GrpcStatus.PERMISSION_DENIED,
    "404": GrpcStatus.UNIMPLEMENTED,
    "429": GrpcStatus.UNAVAILABLE,
    "502": GrpcStatus.UNAVAILABLE,
    "503": GrpcStatus.UNAVAILABLE,
    "504": GrpcStatus.UNAVAILABLE,
}
#: For a stream that was reset (doc/PROTOCOL-HTTP2.md); any other code is INTERNAL.
_STATUS_OF_RESET: Final[dict[int, GrpcStatus]] = {
    ErrorCode.CANCEL: GrpcStatus.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: GrpcStatus.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: GrpcStatus.PERMISSION_DENIED,
}


async def connect(address: str, port: int, timeout_s: float) -> Http2Connection:
    """Connect once; raises `NotSent` when the server refuses, or does not answer within `timeout_s`."""
    where = f"{address}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            return await open_connection(address, port)
    except TimeoutError:
        raise NotSent(errors.NOT_CONNECTED, f"{where} did not answer within {timeout_s:g} s") from None
    except ConnectionRefusedError:
        raise NotSent(errors.NOT_CONNECTED, f"{where} refused the connection") from None
    except (OSError, Http2NotOpen) as error:
        raise NotSent(errors.NOT_CONNECTED, f"{where}: {error}") from None


def unary(connection: Http2Connection, method: str, answer: type[Any]) -> Method:
    """The call "Service/Method" on this connection; `answer` is the message type of its answer."""
    block = _request_block(connection.authority, _SERVICE + method)
    parse = answer.FromString

    async def call(request: Any) -> Any:
        stream = _sent(connection, block, request, None)
        try:
            response = await stream.answer
        except asyncio.CancelledError:
            connection.give_up(stream)
            raise
        except (RequestRejected, ConnectionLost, StreamReset) as why:
            raise _unanswered(why) from None
        return _message(response, parse)

    return call


class LiveCall:
    """The call "Service/Method" as a stream: the first request begins it, the server or `close` ends it.

    `heard` gets every answer as it comes, in the server's order, parsed as the message type `answer`.
    """

    def __init__(
        self, connection: Http2Connection, method: str, first: Any, answer: type[Any], heard: Callable[[Any], None]
    ) -> None:
        self._connection = connection
        self._parse = answer.FromString
        self._heard = heard
        self._rest = b""
        self._broken: str | None = None
        block = _request_block(connection.authority, _SERVICE + method)
        self._stream = _sent(connection, block, first, self._take)

    def send(self, request: Any) -> None:
        """Send another request; raises `NotSent` when the call is over."""
        try:
            self._connection.send_on(self._stream, _framed(request))
        except Http2NotOpen as why:
            raise NotSent(errors.NOT_CONNECTED, str(why)) from None

    def close(self) -> None:
        """End the call and tell the server. Idempotent."""
        self._connection.give_up(self._stream)
        self._stream.answer.cancel()

    @property
    def ended(self) -> Definite | Indefinite | None:
        """Why no more answers will come; None while some may."""
        if self._broken is not None:
            return _outcome(GrpcStatus.INTERNAL, self._broken)
        answer = self._stream.answer
        if not answer.done():
            return None
        if answer.cancelled():
            return Indefinite(errors.CLOSED, "the call was closed by its owner")
        why = answer.exception()
        if why is None:
            headers, _, trailers = answer.result()
            if trailers.get("grpc-status") == "0":
                return _outcome(GrpcStatus.CANCELLED, "the server ended the stream")
            return _outcome(*_status(headers, trailers))
        assert isinstance(why, RequestRejected | ConnectionLost | StreamReset)
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


def _sent(connection: Http2Connection, block: bytes, request: Any, live: Callable[[bytes], None] | None) -> Http2Stream:
    """Begin a call; raises `Definite` when nothing was sent."""
    try:
        return connection.request(block, _framed(request), live=live)
    except Http2NotOpen as why:
        raise NotSent(errors.NOT_CONNECTED, str(why)) from None
    except TooManyStreams as why:
        raise Definite(errors.TOO_MANY_STREAMS, str(why)) from None


def _unanswered(why: RequestRejected | ConnectionLost | StreamReset) -> Definite | Indefinite:
    """Decide what it means that a sent request got no answer (RFC 9113, 6.8 and 8.7; doc/PROTOCOL-HTTP2.md)."""
    match why:
        case RequestRejected():
            return Definite(errors.REFUSED, str(why))
        case ConnectionClosed():
            return Indefinite(errors.CLOSED, "the client was closed while the request was under way")
        case ConnectionLost():
            return Indefinite(errors.CONNECTION_LOST, str(why))
        case _:
            return _outcome(_STATUS_OF_RESET.get(why.code, GrpcStatus.INTERNAL), str(why))


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


def _message(response: GrpcResponse, parse: Callable[[bytes], Any]) -> Any:
    """Return the message of an answer; raises what the table makes of any other answer."""
    headers, body, trailers = response
    if trailers.get("grpc-status") != "0" or headers.get(":status") != "200":
        raise _outcome(*_status(headers, trailers))
    size = len(body) - _PREFIX.size
    if size < 0 or _PREFIX.unpack_from(body) != (0, size):
        raise _outcome(GrpcStatus.INTERNAL, f"an answer of {len(body)} bytes that is not one plain message")
    try:
        return parse(body[_PREFIX.size :])
    except DecodeError as error:
        raise _outcome(GrpcStatus.INTERNAL, f"an answer that cannot be read: {error}") from None


def _status(headers: Headers, trailers: Headers) -> tuple[GrpcStatus, str]:
    """The status and message of an answer that is not OK."""
    http = headers.get(":status", "none")
    code = trailers.get("grpc-status")
    if code is None:
        why = "an answer without gRPC's status" if http == "200" else f"HTTP status {http}"
        return _STATUS_OF_HTTP.get(http, GrpcStatus.UNKNOWN), why
    text = unquote(trailers.get("grpc-message", ""))
    if code == "0":
        return GrpcStatus.UNKNOWN, f"gRPC status 0 with HTTP status {http}"
    if code.isdecimal() and int(code) in GrpcStatus._value2member_map_:
        return GrpcStatus(int(code)), text
    return GrpcStatus.UNKNOWN, f"gRPC status {code!r}: {text}"


def _outcome(status: GrpcStatus, text: str) -> Definite | Indefinite:
    return errors.outcome(status.name, text)
