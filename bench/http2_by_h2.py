"""etcd's HTTP/2 connection with the library `h2` in place of the harness' own framing: what the benchmark compares.

Whatever is not framing (streams, their ends, opening, closing) is inherited, so both kinds give the client the same
outcomes, but for those that docs/explanation/own-http2.md lists. `h2` is set up to be cheap: headers are neither
validated nor normalised, and the window towards us is refilled in large steps.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack

from fencepost.harness.systems.etcd.wire import frames, http2
from fencepost.harness.systems.etcd.wire.frames import ErrorCode
from fencepost.harness.systems.etcd.wire.headers import Headers
from fencepost.harness.systems.etcd.wire.streams import (
    ConnectionLost,
    NotOpen,
    Refused,
    Stream,
    StreamReset,
    TooManyStreams,
)

_SETTINGS: Final = {
    h2.settings.SettingCodes.ENABLE_PUSH: 0,
    h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: frames.WINDOW_BYTES_MAX,
}


class H2Connection(http2.Connection):
    """A connection on `h2` with its documented interface alone."""

    def __init__(self, authority: str) -> None:
        super().__init__(authority)
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        self._h2.local_settings = h2.settings.Settings(client=True, initial_values=_SETTINGS)
        self._pong_waits = False

    def request(self, block: bytes, body: bytes, *, live: Callable[[bytes], None] | None = None) -> Stream:
        if self.shut is not None:
            raise NotOpen(self.shut)
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, _headers_of(block))
        except h2.exceptions.TooManyStreamsError as why:
            raise TooManyStreams(str(why)) from None
        except h2.exceptions.NoAvailableStreamIDError as why:
            raise NotOpen(str(why)) from None
        self._streams[number] = stream = Stream(number, self._loop.create_future(), 0, live)
        if len(body) <= self._h2.local_flow_control_window(number) and len(body) <= self._h2.max_outbound_frame_size:
            self._h2.send_data(number, body, end_stream=live is None)
            self._flush()
        else:
            stream.unsent = memoryview(body)
            self._held_back[number] = stream
            self._send_held_back()
        return stream

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(frames.WINDOW_BYTES_MAX - frames.WINDOW_BYTES)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            self._end(ConnectionLost, f"the server broke the protocol: {error}")
            self._flush()
            self._hang_up()
            return
        for event in events:
            handle = _HANDLERS.get(type(event))
            if handle is not None and not self._ended:
                handle(self, event)

    def _on_settings(self, event: h2.events.RemoteSettingsChanged) -> None:
        if not self._opened.done():
            self._shut = None
            self._opened.set_result(None)
        self._send_held_back()

    def _on_headers(self, event: h2.events.ResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.headers = headers = _text(event.headers)
            if event.stream_ended is not None:
                self._answer(stream, headers, headers)

    def _on_data(self, event: h2.events.DataReceived) -> None:
        window = self._h2.inbound_flow_control_window
        if window < frames.WINDOW_BYTES_MAX - http2._REFILL_BYTES:
            self._h2.increment_flow_control_window(frames.WINDOW_BYTES_MAX - window)
            self._flush()
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        assert stream.headers is not None
        if stream.live is not None:
            stream.live(event.data)
        else:
            stream.chunks.append(event.data)
        if event.stream_ended is not None:
            self._answer(stream, stream.headers, {})

    def _on_trailers(self, event: h2.events.TrailersReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            assert stream.headers is not None
            self._answer(stream, stream.headers, _text(event.headers))

    def _on_ping(self, event: h2.events.PingReceived) -> None:
        """Let the answer to a bandwidth ping, which `h2` has ready, go out with the next request."""
        if event.ping_data == http2._BANDWIDTH_PING and not self._pong_waits:
            self._pong_waits = True
        else:
            self._flush()

    def _on_window(self, event: h2.events.WindowUpdated) -> None:
        if self._held_back:
            self._send_held_back()

    def _on_reset(self, event: h2.events.StreamReset) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            refused = event.remote_reset and event.error_code == ErrorCode.REFUSED_STREAM and stream.headers is None
            self._fail(stream, Refused("the server refused the stream") if refused else StreamReset(event.error_code))
        self._flush()
        self._close_if_done()

    def _on_goaway(self, event: h2.events.ConnectionTerminated) -> None:
        """Refuse what the server will not do. `h2` takes the connection for closed: what still comes is a breach."""
        body = frames.GOAWAY_BODY.pack(event.last_stream_id, event.error_code) + (event.additional_data or b"")
        self._take_goaway(0, body)

    def _send_held_back(self) -> None:
        for number, stream in list(self._held_back.items()):
            while stream.unsent:
                window = self._h2.local_flow_control_window(number)
                size = min(len(stream.unsent), self._h2.max_outbound_frame_size, window)
                if size <= 0:
                    break
                part, stream.unsent = stream.unsent[:size], stream.unsent[size:]
                self._h2.send_data(number, part, end_stream=not stream.unsent and stream.live is None)
            if not stream.unsent:
                del self._held_back[number]
        self._flush()

    def _reset(self, number: int, code: ErrorCode) -> None:
        if not self._ended and self._shut is None:
            self._h2.reset_stream(number, code)
            self._flush()

    def _flush(self) -> None:
        self._pong_waits = False
        waiting = self._h2.data_to_send()
        if waiting:
            self._write(waiting)


class RememberingH2Connection(H2Connection):
    """Remembers whole header blocks, as the harness' framing does, by replacing codecs that `h2` does not document."""

    def __init__(self, authority: str) -> None:
        super().__init__(authority)
        self._h2.encoder = _RememberingEncoder()
        self._h2.decoder = _RememberingDecoder()
        initial = {**_SETTINGS, h2.settings.SettingCodes.HEADER_TABLE_SIZE: 0}
        self._h2.local_settings = h2.settings.Settings(client=True, initial_values=initial)


class _RememberingEncoder(hpack.Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.header_table_size = 0
        self._blocks: dict[tuple[Any, ...], bytes] = {}

    def encode(self, headers: Any, huffman: bool = True) -> bytes:
        key = tuple(headers)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = super().encode(key, huffman=False)
        return block


class _RememberingDecoder(hpack.Decoder):
    """Sound with a server that keeps no header table."""

    def __init__(self) -> None:
        super().__init__()
        self._headers: dict[bytes, Any] = {}

    def decode(self, data: bytes, raw: bool = False) -> Any:
        headers = self._headers.get(data)
        if headers is None:
            headers = self._headers[data] = super().decode(data, raw=raw)
        return headers


_HANDLERS: Final[dict[Any, Callable[[H2Connection, Any], None]]] = {
    h2.events.RemoteSettingsChanged: H2Connection._on_settings,
    h2.events.ResponseReceived: H2Connection._on_headers,
    h2.events.DataReceived: H2Connection._on_data,
    h2.events.TrailersReceived: H2Connection._on_trailers,
    h2.events.PingReceived: H2Connection._on_ping,
    h2.events.WindowUpdated: H2Connection._on_window,
    h2.events.StreamReset: H2Connection._on_reset,
    h2.events.ConnectionTerminated: H2Connection._on_goaway,
}


@lru_cache(maxsize=256)
def _headers_of(block: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that `headers.write_block` wrote."""
    return tuple((bytes(name), bytes(value)) for name, value in hpack.Decoder().decode(block, raw=True))


def _text(headers: Any) -> Headers:
    return {name.decode("ascii", "replace"): value.decode("ascii", "replace") for name, value in headers}
