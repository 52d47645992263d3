"""HTTP/2's frames as bytes: their numbers, those that a client writes, and reading parts of them.

Source: RFC 9113, sections 4 to 7.
"""

import struct
from enum import IntEnum
from typing import Final

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

SETTINGS_HEADER_TABLE_SIZE: Final = 0x1
SETTINGS_ENABLE_PUSH: Final = 0x2
SETTINGS_MAX_CONCURRENT_STREAMS: Final = 0x3
SETTINGS_INITIAL_WINDOW_SIZE: Final = 0x4
SETTINGS_MAX_FRAME_SIZE: Final = 0x5

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: The limits before SETTINGS change them. The client never raises its own frame limit.
FRAME_BYTES: Final = 1 << 14
FRAME_BYTES_MAX: Final = (1 << 24) - 1
WINDOW_BYTES: Final = (1 << 16) - 1
WINDOW_BYTES_MAX: Final = (1 << 31) - 1
STREAM_MAX: Final = (1 << 31) - 1

#: Length (upper 16 bits, lower 8), kind, flags, stream.
HEAD: Final = struct.Struct(">HBBBI")
HEAD_BYTES: Final = HEAD.size
INT: Final = struct.Struct(">I")
GOAWAY_BODY: Final = struct.Struct(">II")
SETTING: Final = struct.Struct(">HI")


class ErrorCode(IntEnum):
    """Why a stream or a connection was ended (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Broken(Exception):
    """The server broke the protocol: nothing after this can be trusted."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code: Final = code


def name_of(code: int) -> str:
    """The error code's name, or its number where the RFC has none."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code:#x}"


def frame(kind: int, flags: int, stream: int, body: bytes | memoryview) -> bytes:
    size = len(body)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + body


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream, INT.pack(code))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, INT.pack(increment))


def goaway(code: ErrorCode) -> bytes:
    """The client's GOAWAY: no stream of the server was served, since a server may open none."""
    return frame(GOAWAY, 0, 0, GOAWAY_BODY.pack(0, code))


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(name, value) for name, value in values.items()))


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0, b"")


def unpadded(flags: int, body: bytes) -> bytes:
    """The body of a frame of data or headers without its padding."""
    if not flags & PADDED:
        return body
    if not body or body[0] >= len(body):
        raise Broken(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return body[1 : len(body) - body[0]]


def integer(body: bytes) -> int:
    """The body of a frame that is one number."""
    if len(body) != INT.size:
        raise Broken(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {len(body)} bytes where 4 are expected")
    number: int = INT.unpack(body)[0]
    return number


def widened(window: int, change: int) -> int:
    """The size of a window after an update or new settings; a window that shrank may be negative."""
    if window + change > WINDOW_BYTES_MAX:
        raise Broken(ErrorCode.FLOW_CONTROL_ERROR, "a window of more than 2^31 - 1 bytes")
    return window + change
