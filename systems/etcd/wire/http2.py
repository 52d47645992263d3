"""One HTTP/2 connection of a client. Each request gets an answer, or an exact statement about its fate.

Libraries for HTTP/2 and gRPC redial, resend and buffer. That hides the one fact that the harness needs: whether a
request can have reached the server. Here a request is handed to the transport in one write or not at all, and ends in
one of these ways:
  - `Http2NotOpen`, `TooManyStreams`, at once: no byte of it was sent;
  - `RequestRejected`: the server states that it did not act on it and will not (RST_STREAM with REFUSED_STREAM before
    any answer, or a GOAWAY that names an earlier stream as the last: RFC 9113, sections 6.8 and 8.7);
  - `StreamReset`, `ConnectionLost`, `ConnectionClosed`: nobody knows. That includes bytes that were still in the
    transport's buffer when the connection ended, since some of them may have left;
  - its `GrpcResponse`.
A live request (a gRPC stream) lasts until one of these comes; meanwhile its owner gets what the server sends.
There are no retries, no reconnects, no time-outs and no tasks. Nothing waits except the part of a request that the
server's flow control holds back. A caller that stops waiting calls `give_up`.

The server gets the largest possible windows, so an answer of any size comes without pauses. The client answers pings
and sends none.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from fencepost.harness.coordination.client_gate import create_connection
from fencepost.systems.etcd.wire import frames
from fencepost.systems.etcd.wire.frames import Broken, ErrorCode
from fencepost.systems.etcd.wire.headers import BadBlock, BlockReader, Headers
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

#: The connection's window is refilled when this much of it is used.
_REFILL_BYTES: Final = 1 << 24
#: The ping by which grpc-go measures bandwidth: one for every request, none while the last is unanswered
#: (internal/transport/bdp_estimator.go). A separate answer would double the number of writes, and nobody waits for it,
#: so it leaves together with the next request. Pings with any other content are answered at once.
_BANDWIDTH_PING: Final = b"\x02\x04\x10\x10\x09\x0e\x07\x07"
#: A longer header block is an attack or a defect.
_BLOCK_BYTES_MAX: Final = 1 << 16

_GREETING: Final = (
    frames.PREFACE
    + frames.settings(
        {
            frames.SETTINGS_HEADER_TABLE_SIZE: 0,
            frames.SETTINGS_ENABLE_PUSH: 0,
            frames.SETTINGS_INITIAL_WINDOW_SIZE: frames.WINDOW_BYTES_MAX,
        }
    )
    + frames.window_update(0, frames.WINDOW_BYTES_MAX - frames.WINDOW_BYTES)
)


class Http2Connection(asyncio.Protocol):
    """Made by `open_connection`.

    Size: one protocol state machine; its frames, headers and streams have files of their own.
    """

    def __init__(self, authority: str) -> None:
        self.authority: Final = authority
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        #: Why no request is accepted; None while the connection is good.
        self._shut: str | None = "not connected"
        self._ended = False
        self._rest = b""
        self._blocks = BlockReader()
        #: The only kind of frame that may come next, where the protocol allows only one.
        self._expected: int | None = frames.SETTINGS
        #: An incomplete header block: its stream, whether it ends the stream, its bytes so far.
        self._partial: tuple[int, bool, bytearray] | None = None
        self._streams: dict[int, Http2Stream] = {}
        #: The streams whose request has not been sent completely, longest waiting first.
        self._held_back: dict[int, Http2Stream] = {}
        self._next = 1
        #: The answer to a bandwidth ping, which waits for the next request.
        self._pong = b""
        self._credit = frames.WINDOW_BYTES_MAX
        # The limits that the server sets.
        self._window = frames.WINDOW_BYTES
        self._stream_window = frames.WINDOW_BYTES
        self._frame_bytes = frames.FRAME_BYTES
        self._streams_max: float = float("inf")

    @property
    def shut(self) -> str | None:
        """Why no more requests are accepted (closed, lost, the server is going away), or None."""
        if self._shut is None and self._transport is not None and self._transport.is_closing():
            return "the connection is closing"
        return self._shut

    def request(self, block: bytes, body: bytes, *, live: Callable[[bytes], None] | None = None) -> Http2Stream:
        """Send one request: a header block (see `headers.write_block`) and a body that is not empty.

        Await the stream's `answer`. With `live` the body is only the first part (`send_on` sends more), and `live` gets
        every piece of the answer's body as it comes. Raises `Http2NotOpen` or `TooManyStreams` when nothing was sent.
        """
        transport = self._transport
        if self._shut is not None or transport is None or transport.is_closing():
            raise Http2NotOpen(self.shut)
        if len(self._streams) >= self._streams_max:
            raise TooManyStreams(f"the server allows {self._streams_max} at a time")
        number = self._next
        if number > frames.STREAM_MAX:
            raise Http2NotOpen("the connection's stream numbers are used up")
        self._next = number + 2
        self._streams[number] = stream = Http2Stream(number, self._loop.create_future(), self._stream_window, live)
        size, head = len(body), len(block)
        opening = frames.HEAD.pack(head >> 8, head & 0xFF, frames.HEADERS, frames.END_HEADERS, number)
        if size <= self._window and size <= self._stream_window and size <= self._frame_bytes:
            self._window -= size
            flags = frames.END_STREAM if live is None else 0
            data = frames.HEAD.pack(size >> 8, size & 0xFF, frames.DATA, flags, number)
            transport.write(b"".join((self._pong, opening, block, data, body)))
        else:
            transport.write(b"".join((self._pong, opening, block)))
            stream.unsent = memoryview(body)
            self._held_back[number] = stream
            self._send_held_back()
        self._pong = b""
        return stream

    def send_on(self, stream: Http2Stream, body: bytes) -> None:
        """Send another part of a live request; raises `Http2NotOpen` when the stream is over and nothing was sent."""
        if self._ended or stream.number not in self._streams:
            raise Http2NotOpen(self._shut or "the stream is over")
        stream.unsent = memoryview(bytes(stream.unsent) + body)
        self._held_back[stream.number] = stream
        self._send_held_back()

    def give_up(self, stream: Http2Stream) -> None:
        """Cancel a request: tell the server, and drop what still comes. Idempotent."""
        if self._forget(stream):
            self._reset(stream.number, ErrorCode.CANCEL)
            self._close_if_done()

    async def opened(self) -> None:
        """Wait for the server's settings; raises `Http2NotOpen` when the connection ends first."""
        await self._opened

    def close(self) -> None:
        """Close at once, without waiting for the server; requests under way end `ConnectionClosed`. Idempotent."""
        self._end(ConnectionClosed, "closed by its owner")
        self._hang_up()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        # Both loops have set TCP_NODELAY.
        self._transport.write(_GREETING)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionLost, f"the connection broke: {exc}" if exc else "the server closed the connection")

    def eof_received(self) -> None:
        # A server that has closed its half will not answer, so unsent bytes do not matter.
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._rest:
            data = self._rest + data
        offset, end = 0, len(data)
        try:
            while end - offset >= frames.HEAD_BYTES and not self._ended:
                high, low, kind, flags, number = frames.HEAD.unpack_from(data, offset)
                size = high << 8 | low
                if size > frames.FRAME_BYTES:
                    raise Broken(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes: is it HTTP/2?")
                start = offset + frames.HEAD_BYTES
                if end - start < size:
                    break
                offset = start + size
                self._take(kind, flags, number & frames.STREAM_MAX, data[start:offset])
        except Broken as error:
            self._break(error)
            return
        self._rest = data[offset:]

    # What came

    def _take(self, kind: int, flags: int, number: int, body: bytes) -> None:
        if self._expected is not None and kind != self._expected:
            raise Broken(ErrorCode.PROTOCOL_ERROR, f"a frame of kind {kind} where {self._expected} must come")
        if kind == frames.DATA:
            self._take_data(flags, number, body)
        elif kind == frames.HEADERS:
            body = frames.unpadded(flags, body)
            if flags & frames.WITH_PRIORITY:
                body = body[5:]
            self._take_block_part(flags, number, bool(flags & frames.END_STREAM), bytearray(), body)
        elif kind == frames.CONTINUATION:
            if self._partial is None or self._partial[0] != number:
                raise Broken(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION without a header block")
            _, ends, before = self._partial
            self._take_block_part(flags, number, ends, before, body)
        elif kind == frames.WINDOW_UPDATE:
            self._take_window_update(number, frames.integer(body))
        elif kind == frames.PING:
            self._take_ping(flags, number, body)
        elif kind == frames.SETTINGS:
            self._take_settings(flags, number, body)
        elif kind == frames.RST_STREAM:
            self._take_reset(number, frames.integer(body))
        elif kind == frames.GOAWAY:
            self._take_goaway(number, body)
        elif kind == frames.PUSH_PROMISE:
            raise Broken(ErrorCode.PROTOCOL_ERROR, "a PUSH_PROMISE, which the client's settings forbid")
        # PRIORITY means nothing to a client, and frames of unknown kinds must be ignored.

    def _take_data(self, flags: int, number: int, body: bytes) -> None:
        # Padding counts, and so does data that nobody waits for.
        self._credit -= len(body)
        if self._credit < 0:
            raise Broken(ErrorCode.FLOW_CONTROL_ERROR, "more data than was granted")
        if self._credit < frames.WINDOW_BYTES_MAX - _REFILL_BYTES:
            self._write(frames.window_update(0, frames.WINDOW_BYTES_MAX - self._credit))
            self._credit = frames.WINDOW_BYTES_MAX
        stream = self._stream(number)
        if flags & frames.PADDED:
            body = frames.unpadded(flags, body)
        if stream is None:
            return
        if stream.headers is None:
            self._give_up_on(stream, "data before the answer's headers")
            return
        if stream.live is not None:
            stream.live(body)
        else:
            stream.chunks.append(body)
        if flags & frames.END_STREAM:
            self._answer(stream, stream.headers, {})

    def _take_block_part(self, flags: int, number: int, ends: bool, before: bytearray, part: bytes) -> None:
        if flags & frames.END_HEADERS:
            self._expected = self._partial = None
            self._take_block(number, ends, bytes(before + part) if before else part)
            return
        before += part
        if len(before) > _BLOCK_BYTES_MAX:
            raise Broken(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of more than {_BLOCK_BYTES_MAX} bytes")
        self._partial = (number, ends, before)
        self._expected = frames.CONTINUATION

    def _take_block(self, number: int, ends: bool, block: bytes) -> None:
        try:
            headers = self._blocks.read(block)
        except BadBlock as error:
            raise Broken(ErrorCode.COMPRESSION_ERROR, f"a header block that cannot be read: {error}") from None
        stream = self._stream(number)
        if stream is None:
            return
        if ends:
            self._answer(stream, stream.headers if stream.headers is not None else headers, headers)
        elif stream.headers is not None:
            self._give_up_on(stream, "headers in the middle of an answer")
        elif not headers.get(":status", "").startswith("1"):
            stream.headers = headers

    def _take_window_update(self, number: int, increment: int) -> None:
        increment &= frames.WINDOW_BYTES_MAX
        if increment == 0:
            raise Broken(ErrorCode.PROTOCOL_ERROR, "a window update of nothing")
        if number == 0:
            self._window = frames.widened(self._window, increment)
        else:
            stream = self._stream(number)
            if stream is None:
                return
            stream.window = frames.widened(stream.window, increment)
        self._send_held_back()

    def _take_ping(self, flags: int, number: int, body: bytes) -> None:
        if len(body) != 8 or number != 0:
            raise Broken(ErrorCode.FRAME_SIZE_ERROR, f"a PING of {len(body)} bytes on stream {number}")
        if flags & frames.ACK:
            return
        answer = frames.frame(frames.PING, frames.ACK, 0, body)
        if body == _BANDWIDTH_PING and not self._pong:
            self._pong = answer
        else:
            self._write(answer)

    def _take_settings(self, flags: int, number: int, body: bytes) -> None:
        acknowledges = bool(flags & frames.ACK)
        if number != 0 or len(body) % frames.SETTING.size or (acknowledges and body):
            raise Broken(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(body)} bytes on stream {number}")
        if acknowledges:
            if self._expected is not None:
                raise Broken(ErrorCode.PROTOCOL_ERROR, "the server acknowledges settings before it sent its own")
            self._blocks.forget_table()
            return
        for name, value in frames.SETTING.iter_unpack(body):
            self._set(name, value)
        self._write(frames.SETTINGS_ACK)
        if self._expected is not None:
            self._expected = self._shut = None
            if not self._opened.done():
                self._opened.set_result(None)
        self._send_held_back()

    def _set(self, name: int, value: int) -> None:
        if name == frames.SETTINGS_MAX_CONCURRENT_STREAMS:
            self._streams_max = value
        elif name == frames.SETTINGS_INITIAL_WINDOW_SIZE:
            change = value - self._stream_window
            self._stream_window = frames.widened(0, value)
            for stream in self._streams.values():
                stream.window = frames.widened(stream.window, change)
        elif name == frames.SETTINGS_MAX_FRAME_SIZE:
            if not frames.FRAME_BYTES <= value <= frames.FRAME_BYTES_MAX:
                raise Broken(ErrorCode.PROTOCOL_ERROR, f"a largest frame of {value} bytes")
            self._frame_bytes = value
        # The size of the header table does not matter: the client's blocks use no table.

    def _take_reset(self, number: int, code: int) -> None:
        stream = self._stream(number)
        if stream is None:
            return
        if code == ErrorCode.REFUSED_STREAM and stream.headers is None:
            self._fail(stream, RequestRejected("the server refused the stream (RST_STREAM REFUSED_STREAM)"))
        else:
            self._fail(stream, StreamReset(code))
        self._close_if_done()

    def _take_goaway(self, number: int, body: bytes) -> None:
        if len(body) < frames.GOAWAY_BODY.size or number != 0:
            raise Broken(ErrorCode.FRAME_SIZE_ERROR, f"a GOAWAY of {len(body)} bytes on stream {number}")
        last, code = frames.GOAWAY_BODY.unpack_from(body)
        last &= frames.STREAM_MAX
        debug_text = body[frames.GOAWAY_BODY.size :][:200].decode("ascii", "replace")
        self._shut = f"the server is going away (GOAWAY {frames.name_of(code)}{': ' if debug_text else ''}{debug_text})"
        for stream in [stream for stream in self._streams.values() if stream.number > last]:
            # The server has begun to answer this stream, which contradicts its GOAWAY; so the GOAWAY proves nothing.
            if stream.headers is None:
                self._fail(stream, RequestRejected(f"{self._shut}, and acts on no stream after {last}"))
            else:
                self._fail(stream, StreamReset(code, self._shut))
        self._close_if_done()

    # Streams

    def _stream(self, number: int) -> Http2Stream | None:
        """The open stream; None for one that is over. A stream that was never opened breaks the protocol."""
        stream = self._streams.get(number)
        if stream is None and (number >= self._next or not number & 1):
            raise Broken(ErrorCode.PROTOCOL_ERROR, f"a frame on stream {number}, which was never opened")
        return stream

    def _forget(self, stream: Http2Stream) -> bool:
        self._held_back.pop(stream.number, None)
        return self._streams.pop(stream.number, None) is not None

    def _answer(self, stream: Http2Stream, headers: Headers, trailers: Headers) -> None:
        del self._streams[stream.number]
        if not stream.answer.done():
            chunks = stream.chunks
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            stream.answer.set_result(GrpcResponse(headers, body, trailers))
        if stream.unsent:
            # The answer came before the whole request was sent: the server does not want the rest.
            del self._held_back[stream.number]
            self._reset(stream.number, ErrorCode.CANCEL)
        if self._shut is not None:
            self._close_if_done()

    def _give_up_on(self, stream: Http2Stream, why: str) -> None:
        """Reset a stream with a malformed answer; the connection stays good (RFC 9113, section 8.1.1)."""
        self._reset(stream.number, ErrorCode.PROTOCOL_ERROR)
        self._fail(stream, StreamReset(ErrorCode.PROTOCOL_ERROR, why))

    def _fail(self, stream: Http2Stream, error: Exception) -> None:
        self._forget(stream)
        if not stream.answer.done():
            stream.answer.set_exception(error)
            stream.answer.exception()  # counts as seen: its caller may be about to be cancelled

    def _send_held_back(self) -> None:
        """Send as much of the waiting requests as the server's windows allow."""
        for stream in list(self._held_back.values()):
            while stream.unsent:
                size = min(len(stream.unsent), self._frame_bytes, self._window, stream.window)
                if size <= 0:
                    break
                part, stream.unsent = stream.unsent[:size], stream.unsent[size:]
                self._window -= size
                stream.window -= size
                flags = 0 if stream.unsent or stream.live is not None else frames.END_STREAM
                self._write(frames.frame(frames.DATA, flags, stream.number, part))
            if not stream.unsent:
                del self._held_back[stream.number]

    # The connection

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _reset(self, number: int, code: ErrorCode) -> None:
        if not self._ended:
            self._write(frames.rst_stream(number, code))

    def _close_if_done(self) -> None:
        """Close when the server is going away and no request waits for an answer."""
        if self._shut is not None and not self._streams and not self._ended:
            self._end(ConnectionLost, self._shut)
            self._hang_up()

    def _break(self, error: Broken) -> None:
        self._end(ConnectionLost, f"the server broke the protocol: {error}")
        self._write(frames.goaway(error.code))
        self._hang_up()

    def _hang_up(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # A graceful close would wait for ever for a peer that reads nothing.
        if transport.get_write_buffer_size() > 0:
            transport.abort()
        else:
            transport.close()

    def _end(self, kind: type[ConnectionLost], why: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._shut = why
        self._rest = b""
        if not self._opened.done():
            self._opened.set_exception(Http2NotOpen(why))
            self._opened.exception()
        for stream in list(self._streams.values()):
            self._fail(stream, kind(why))


async def open_connection(address: str, port: int) -> Http2Connection:
    """Connect, and wait until the server has sent its settings, so that a paused server does not count as connected.

    The caller bounds the wait by cancelling. Raises `OSError` or `Http2NotOpen`.
    """
    connection: Http2Connection | None = None

    def made() -> Http2Connection:
        nonlocal connection
        connection = Http2Connection(f"{address}:{port}")
        return connection

    try:
        await create_connection(made, address, port)
        assert connection is not None
        await connection.opened()
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection
