"""Decodes bytes into messages; it makes one reader for each class and version, and keeps it.

One `struct` call reads successive fields of fixed size, a field that a version lacks gets its default, and unknown
tagged fields are skipped. Bytes with any defect raise `Malformed`.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from fencepost.systems.kafka.wire.fields import Body, Fixed, Malformed, Sized, fields_of

B = TypeVar("B", bound=Body)
Reader = Callable[[bytes, int], tuple[Any, int]]
#: Reads from an offset, appends the values, and returns the offset after them.
_ReadStep = Callable[[bytes, int, list[Any]], int]

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_VARINT_BYTES_MAX: Final = 5


def decode(kind: type[B], version: int, flexible: bool, data: bytes, offset: int = 0) -> B:
    """Decode the message that fills `data` from `offset` to its end; raise `Malformed` for other bytes."""
    try:
        value, end = struct_reader(kind, version, flexible)(data, offset)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"{kind.__name__} v{version}: {error}") from None
    if end != len(data):
        raise Malformed(f"{kind.__name__} v{version}: {len(data)} bytes where {end} were expected")
    assert isinstance(value, kind)
    return value


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; also return the offset after it."""
    byte = data[offset]
    if byte < 128:
        return byte, offset + 1
    value, shift = byte & 127, 7
    for at in range(offset + 1, offset + _VARINT_BYTES_MAX):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    raise Malformed("a varint of more than five bytes")


@cache
def struct_reader(kind: type[Body], version: int, flexible: bool) -> Reader:
    """Make the reader of a structure of this version."""
    steps: list[_ReadStep] = []
    codes = ""
    tagged: dict[int, tuple[int, Reader]] = {}
    for index, field in enumerate(fields_of(kind)):
        present = field.since <= version <= field.until
        if present and field.tag is None and isinstance(field.type, Fixed):
            codes += field.type.code
            continue
        steps += _fixed_steps(codes)
        codes = ""
        if present and field.tag is None:
            steps.append(_value_step(_reader(field.type, field.nullable, version, flexible)))
            continue
        steps.append(_default_step(field.default))
        if present and field.tag is not None:
            tagged[field.tag] = (index, _reader(field.type, field.nullable, version, flexible))
    steps += _fixed_steps(codes)
    if flexible:
        steps.append(_tag_step(tagged))

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        values: list[Any] = []
        for step in steps:
            offset = step(data, offset, values)
        return kind(*values), offset

    return read


def _fixed_steps(codes: str) -> list[_ReadStep]:
    """Make one step that reads a run of fixed fields at once; none for an empty run."""
    if not codes:
        return []
    layout = struct.Struct(">" + codes)
    unpack, size = layout.unpack_from, layout.size

    def step(data: bytes, offset: int, values: list[Any]) -> int:
        values.extend(unpack(data, offset))
        return offset + size

    return [step]


def _default_step(default: Any) -> _ReadStep:
    def step(data: bytes, offset: int, values: list[Any]) -> int:
        values.append(default)
        return offset

    return step


def _value_step(read: Reader) -> _ReadStep:
    def step(data: bytes, offset: int, values: list[Any]) -> int:
        value, offset = read(data, offset)
        values.append(value)
        return offset

    return step


def _tag_step(tagged: dict[int, tuple[int, Reader]]) -> _ReadStep:
    def step(data: bytes, offset: int, values: list[Any]) -> int:
        count, offset = read_varint(data, offset)
        for _ in range(count):
            number, offset = read_varint(data, offset)
            size, offset = read_varint(data, offset)
            if number in tagged:
                index, read = tagged[number]
                values[index], end = read(data, offset)
                if end != offset + size:
                    raise Malformed(f"tagged field {number} is not as long as it says")
            offset += size
        if offset > len(data):
            raise Malformed("a tagged field is longer than the message")
        return offset

    return step


def _reader(kind: Any, nullable: bool, version: int, flexible: bool) -> Reader:
    if isinstance(kind, Fixed):
        return _fixed_reader(kind.code)
    if isinstance(kind, Sized):
        return _sized_reader(_length_reader(kind.text, flexible), kind.text, nullable)
    if isinstance(kind, list):
        return _array_reader(_length_reader(False, flexible), _reader(kind[0], False, version, flexible), nullable)
    return struct_reader(kind, version, flexible)


def _length_reader(short: bool, flexible: bool) -> Reader:
    """Make the reader of a length; -1 means null."""
    if flexible:

        def read(data: bytes, offset: int) -> tuple[int, int]:
            length, offset = read_varint(data, offset)
            return length - 1, offset

        return read
    layout = _SHORT if short else _INT
    return lambda data, offset: (layout.unpack_from(data, offset)[0], offset + layout.size)


def _fixed_reader(code: str) -> Reader:
    layout = struct.Struct(">" + code)
    return lambda data, offset: (layout.unpack_from(data, offset)[0], offset + layout.size)


def _sized_reader(read_length: Reader, text: bool, nullable: bool) -> Reader:
    def read(data: bytes, offset: int) -> tuple[str | bytes | None, int]:
        length, offset = read_length(data, offset)
        end = offset + length
        if length < 0:
            if length == -1 and nullable:
                return None, offset
            raise Malformed(f"a length of {length}")
        if end > len(data):
            raise Malformed(f"{length} bytes announced, {len(data) - offset} present")
        raw = data[offset:end]
        return raw.decode() if text else raw, end

    return read


def _array_reader(read_length: Reader, read_item: Reader, nullable: bool) -> Reader:
    def read(data: bytes, offset: int) -> tuple[tuple[Any, ...] | None, int]:
        count, offset = read_length(data, offset)
        if count < 0:
            if count == -1 and nullable:
                return None, offset
            raise Malformed(f"an array of {count} items")
        items = []
        for _ in range(count):
            item, offset = read_item(data, offset)
            items.append(item)
        return tuple(items), offset

    return read
