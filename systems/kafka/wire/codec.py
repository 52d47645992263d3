"""Kafka's messages as bytes, by the message classes of kafka-python (`kafka.protocol`).

The library makes its classes, and a reader and a writer for each version, from Kafka's own definitions; it opens no
socket, and nothing else of it is used. It is imported with the first message, since its package imports all its
clients. It reads bytes that are cut off, and null where there must be a value, without an error, so `decode` looks for
both. An id of zero bytes is None.

`structure` makes a class of the same kind for what the library lacks.
"""

import struct
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from fencepost.harness.base.errors import without

if TYPE_CHECKING:
    from kafka.protocol.data_container import DataContainer
    from kafka.protocol.schemas import BaseField

M = TypeVar("M", bound="DataContainer")

#: What the library's readers raise for bytes that are no message.
_UNREADABLE: Final = (AssertionError, IndexError, OverflowError, ValueError, struct.error)
_VARINT_BYTES_MAX: Final = 5
_MAY_BE_NULL: Final = frozenset({"string", "bytes", "records"})


def require_library() -> None:
    """Raise MachineError where the library is missing, before anything is started that needs it."""
    if find_spec("kafka") is None:
        raise without("kafka-python", "kafka")


class MalformedMessage(ValueError):
    """Raised when bytes are not the expected message."""


def encode(message: "DataContainer", version: int, flexible: bool) -> bytes:
    """Encode `message`; raises struct.error for a number that does not fit, which is the caller's mistake."""
    buffers, write = _writer(type(message), version, flexible)
    with buffers.acquire() as out:
        write(message, out)
        return bytes(out.result())


def decode(kind: type[M], version: int, flexible: bool, data: bytes, offset: int = 0) -> M:
    """Decode the message that fills `data` from `offset` to its end; raise `MalformedMessage` for other bytes."""
    read, parts = _reader(kind, version, flexible)
    value: M
    try:
        value, end = read(data, offset)
        if end != len(data):
            raise MalformedMessage(f"{len(data)} bytes where {end} were expected")
        _find_null(value, parts)
    except _UNREADABLE as error:
        raise MalformedMessage(f"{kind.__name__} v{version}: {error}") from None
    return value


def id_bytes(id: uuid.UUID | None) -> bytes:
    """The 16 bytes of an id that was read."""
    return bytes(16) if id is None else id.bytes


def layout_of(kind: "type[DataContainer]") -> Any:
    """The fields of a message class, with the library's reader and writer; it has no public name for them."""
    return kind._struct


class _Part(NamedTuple):
    """A field that is null on the wire where it must not be, or that has such fields."""

    name: str
    nullable: bool
    is_array: bool
    inner: "tuple[_Part, ...]"


@cache
def _writer(kind: "type[DataContainer]", version: int, flexible: bool) -> tuple[Any, Callable[[Any, Any], None]]:
    from kafka.protocol.schemas.fields.codecs.encode_buffer import EncodeBufferPool

    return EncodeBufferPool, layout_of(kind).compiled_encode_into(version, compact=flexible, tagged=flexible)


@cache
def _reader(
    kind: type[M], version: int, flexible: bool
) -> tuple[Callable[[bytes, int], tuple[M, int]], tuple[_Part, ...]]:
    layout = layout_of(kind)
    read = layout.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=kind)
    return read, _parts(layout.fields, version)


def _parts(fields: "Mapping[str, BaseField]", version: int) -> tuple[_Part, ...]:
    return tuple(
        _Part(
            field.name,
            field.nullable_for_version_q(version),
            field.is_array(),
            _parts(field.fields, version) if field.is_struct() or field.is_struct_array() else (),
        )
        for field in fields.values()
        if field.for_version_q(version)
        and not field.tagged_field_q(version)  # absent, and None then
        and (field.is_array() or field.is_struct() or field.type_str in _MAY_BE_NULL)
    )


def _find_null(value: Any, parts: tuple[_Part, ...]) -> None:
    for name, nullable, is_array, inner in parts:
        inside = getattr(value, name)
        if inside is None:
            if not nullable:
                raise MalformedMessage(f"null as {name}")
        elif inner:
            for item in inside if is_array else (inside,):
                _find_null(item, inner)


# Varints, of records and headers


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


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; also return the offset after it."""
    value, shift = 0, 0
    for at in range(offset, offset + _VARINT_BYTES_MAX):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    raise MalformedMessage("a varint of more than five bytes")


# Structures that the library lacks


def structure(name: str, *fields: dict[str, Any], newest: int = 0) -> Any:
    """Make the class of a message or record with these fields, in versions up to `newest`."""
    from kafka.protocol.data_container import DataContainer
    from kafka.protocol.schemas import StructField

    # The library has no structure without fields.
    never = {"name": "nothing", "type": "int8", "versions": "none"}
    layout = {"name": name, "type": "data", "versions": f"0-{newest}", "fields": list(fields) or [never]}
    return type(name, (DataContainer,), {"_struct": StructField(layout)})


def field(
    name: str,
    type: str,
    *inner: dict[str, Any],
    since: int = 0,
    tag: int | None = None,
    nullable: bool = False,
    default: object = "",
) -> dict[str, Any]:
    """Describe a field as Kafka's definitions do.

    Args:
        type: as there; of a structure, or an array of them, any name that begins with a capital letter.
        inner: the fields of that structure.
        since: the first version that has the field.
        tag: its number, of a tagged field.
        default: None for a field that is null by default.
    """
    versions = f"{since}+"
    definition = {"name": name, "type": type, "versions": versions, "default": "null" if default is None else default}
    if inner:
        definition["fields"] = list(inner)
    if tag is not None:
        definition |= {"tag": tag, "taggedVersions": versions}
    if nullable:
        definition["nullableVersions"] = versions
    return definition
