"""Encodes messages as bytes; it makes one writer for each class and version, and keeps it."""

import struct
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final

from fencepost.systems.kafka.wire.fields import Body, Fixed, Sized, fields_of

Writer = Callable[[bytearray, Any], None]

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


def encode(value: Body, version: int, flexible: bool) -> bytes:
    """Encode `value`; raises struct.error for a number that does not fit, which is the caller's mistake."""
    out = bytearray()
    struct_writer(type(value), version, flexible)(out, value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 128:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


@cache
def struct_writer(kind: type[Body], version: int, flexible: bool) -> Writer:
    """Make the writer of a structure of this version; it leaves out a field that the version lacks."""
    steps: list[Writer] = []
    names: list[str] = []
    codes = ""
    tagged: list[tuple[int, Any, Any, Writer]] = []
    for field in fields_of(kind):
        if not field.since <= version <= field.until:
            continue
        if field.tag is not None:
            writer = _writer(field.type, field.nullable, version, flexible)
            tagged.append((field.tag, attrgetter(field.name), field.default, writer))
        elif isinstance(field.type, Fixed):
            codes += field.type.code
            names.append(field.name)
        else:
            steps += _fixed_writers(codes, names)
            codes, names = "", []
            steps.append(_part_writer(field.name, _writer(field.type, field.nullable, version, flexible)))
    steps += _fixed_writers(codes, names)
    if flexible:
        steps.append(_tag_writer(sorted(tagged, key=lambda entry: entry[0])))

    def write(out: bytearray, value: Any) -> None:
        for step in steps:
            step(out, value)

    return write


def _fixed_writers(codes: str, names: list[str]) -> list[Writer]:
    if not codes:
        return []
    pack = struct.Struct(">" + codes).pack
    get = attrgetter(*names)
    if len(names) == 1:
        return [lambda out, value: out.extend(pack(get(value)))]
    return [lambda out, value: out.extend(pack(*get(value)))]


def _part_writer(name: str, write: Writer) -> Writer:
    get = attrgetter(name)
    return lambda out, value: write(out, get(value))


def _tag_writer(tagged: list[tuple[int, Any, Any, Writer]]) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        given = [(number, get(value), part) for number, get, default, part in tagged if get(value) != default]
        out.extend(varint(len(given)))
        for number, item, part in given:
            content = bytearray()
            part(content, item)
            out.extend(varint(number) + varint(len(content)) + content)

    return write


def _writer(kind: Any, nullable: bool, version: int, flexible: bool) -> Writer:
    if isinstance(kind, Fixed):
        pack = struct.Struct(">" + kind.code).pack
        return lambda out, value: out.extend(pack(value))
    if isinstance(kind, Sized):
        return _sized_writer(_length_writer(kind.text, flexible), kind.text, nullable)
    if isinstance(kind, list):
        return _array_writer(_length_writer(False, flexible), _writer(kind[0], False, version, flexible), nullable)
    return struct_writer(kind, version, flexible)


def _length_writer(short: bool, flexible: bool) -> Callable[[int], bytes]:
    if flexible:
        return lambda length: varint(length + 1)
    return (_SHORT if short else _INT).pack


def _sized_writer(length_of: Callable[[int], bytes], text: bool, nullable: bool) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            assert nullable
            out.extend(length_of(-1))
            return
        raw = value.encode() if text else value
        out.extend(length_of(len(raw)))
        out.extend(raw)

    return write


def _array_writer(length_of: Callable[[int], bytes], write_item: Writer, nullable: bool) -> Writer:
    def write(out: bytearray, items: Any) -> None:
        if items is None:
            assert nullable
            out.extend(length_of(-1))
            return
        out.extend(length_of(len(items)))
        for item in items:
            write_item(out, item)

    return write
