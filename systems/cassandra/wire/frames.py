"""Frames of CQL's binary protocol, version 4: requests as bytes, answers as rows or as an error.

A value is bytes or None; whoever asks knows the types of the columns. Statements are sent with their values (QUERY) and
not prepared, so every call is one request.

Source: Apache Cassandra, doc/native_protocol_v4.spec.
"""

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

HEADER: Final = struct.Struct(">BBhBi")
#: The first byte of a request and of an answer.
REQUEST: Final = 0x04
ANSWER: Final = 0x84

_VALUES: Final = 0x01
_SERIAL: Final = 0x10
_WARNING: Final = 0x08
_ROWS: Final = 2
_GLOBAL_TABLE: Final = 0x01
_PAGING_STATE: Final = 0x02
_LIST: Final = 0x20
#: The errors that name the level that was not reached: unavailable, the time-outs and failures of reads and writes, and
#: the unknown outcome of a compare-and-set.
_NAME_LEVEL: Final = frozenset({0x1000, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700})


class Opcode(IntEnum):
    ERROR = 0x00
    STARTUP = 0x01
    READY = 0x02
    QUERY = 0x07
    RESULT = 0x08


class Consistency(IntEnum):
    """How many replicas must answer; the two serial ones are for Paxos, and the last one asks the node itself alone."""

    ONE = 0x01
    QUORUM = 0x04
    ALL = 0x05
    SERIAL = 0x08
    LOCAL_SERIAL = 0x09
    NODE_LOCAL = 0x0B


#: A row by the names of its columns.
Row = Mapping[str, bytes | None]


class CassandraError(NamedTuple):
    """An ERROR; `consistency` is the level that was not reached, where the error names one."""

    code: int
    text: str
    consistency: int | None


#: What the server sent: flags, stream, opcode and body.
Frame = tuple[int, int, int, bytes]


def frame_at(received: bytes, at: int) -> tuple[Frame, int] | None:
    """The frame at `at`, and where it ends; None while it is incomplete. Raises ValueError for what is no frame."""
    start = at + HEADER.size
    if len(received) < start:
        return None
    version, flags, stream, opcode, length = HEADER.unpack_from(received, at)
    if version != ANSWER or length < 0:
        raise ValueError(f"the server's frame begins with {received[at:start]!r}")
    end = start + length
    return None if len(received) < end else ((flags, stream, opcode, received[start:end]), end)


def startup() -> bytes:
    return struct.pack(">HH11sH5s", 1, 11, b"CQL_VERSION", 5, b"3.0.0")


def query(statement: str, values: Sequence[bytes], consistency: Consistency, serial: Consistency) -> bytes:
    """The body of a QUERY; `serial` is the level of Paxos where the statement is conditional.

    No timestamp is sent: the coordinator stamps the writes with its own clock.
    """
    text = statement.encode()
    flags = _SERIAL | (_VALUES if values else 0)
    parts = [struct.pack(">i", len(text)), text, struct.pack(">HB", consistency, flags)]
    if values:
        parts.append(struct.pack(">H", len(values)))
        parts += [part for value in values for part in (struct.pack(">i", len(value)), value)]
    return b"".join((*parts, struct.pack(">H", serial)))


def answer(opcode: int, flags: int, body: bytes) -> CassandraError | list[Row]:
    """Read an answer; one without rows is empty. Raises ValueError for what is no answer to a request."""
    reader = _Reader(body)
    try:
        if flags & _WARNING:
            for _ in range(reader.short()):
                reader.text()
        if opcode == Opcode.ERROR:
            return _error(reader)
        if opcode == Opcode.RESULT:
            return _rows(reader) if reader.number() == _ROWS else []
    except struct.error as error:
        raise ValueError(f"an answer of {len(body)} bytes ends too early: {error}") from None
    if opcode == Opcode.READY:
        return []
    raise ValueError(f"an answer with the opcode {opcode:#04x}")


def _error(reader: "_Reader") -> CassandraError:
    code, text = reader.number(), reader.text()
    return CassandraError(code, text, reader.short() if code in _NAME_LEVEL else None)


def _rows(reader: "_Reader") -> list[Row]:
    flags, columns = reader.number(), reader.number()
    if flags & _PAGING_STATE:
        reader.value()
    if flags & _GLOBAL_TABLE:
        reader.text(), reader.text()
    names = []
    for _ in range(columns):
        if not flags & _GLOBAL_TABLE:
            reader.text(), reader.text()
        names.append(reader.text())
        reader.skip_type()
    return [{name: reader.value() for name in names} for _ in range(reader.number())]


class _Reader:
    """Reads a body from its beginning."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def number(self) -> int:
        return self._unpack(">i", 4)

    def short(self) -> int:
        return self._unpack(">H", 2)

    def text(self) -> str:
        return self._bytes(self.short()).decode()

    def value(self) -> bytes | None:
        length = self.number()
        return None if length < 0 else self._bytes(length)

    def skip_type(self) -> None:
        """Pass over the type of a column; of the types with parts, lists alone are asked for."""
        kind = self.short()
        if kind == _LIST:
            self.skip_type()
            return
        if not 0x00 < kind < 0x20:
            raise ValueError(f"a column of the type {kind:#06x}")

    def _unpack(self, layout: str, size: int) -> int:
        (number,) = struct.unpack(layout, self._bytes(size))
        return int(number)

    def _bytes(self, length: int) -> bytes:
        piece = self._body[self._at : self._at + length]
        if len(piece) != length:
            raise struct.error(f"{length} bytes are expected at {self._at}")
        self._at += length
        return piece
