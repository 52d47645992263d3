"""Kafka's fields: a message is a class whose annotations say how each field is encoded, and in which versions.

    class Voter(Body, frozen=True):
        replica_id: Int32 = 0
        directory_id: Annotated[Uuid, Since(2)] = NO_UUID
        log_end_offset: Int64 = 0

`decoding` and `encoding` make a reader and a writer from it. From an API's first *flexible* version on, a length is a
varint that is one too high (0 means null), and every structure ends with its tagged fields.

Source: Kafka's protocol guide; KIP-482 (flexible versions); the message definitions inside the kafka-clients jar.
"""

import types
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec


class Malformed(ValueError):
    """Raised when bytes are not the expected message."""


class Fixed(NamedTuple):
    """A field of fixed size; `code` is its code in `struct`."""

    code: str


class Sized(NamedTuple):
    """A length and that many bytes; a `text` is UTF-8 after an int16 length, other bytes have an int32 length."""

    text: bool


class Since(NamedTuple):
    """The first version that has the field."""

    version: int


class Until(NamedTuple):
    """The last version that has the field."""

    version: int


class Tag(NamedTuple):
    """A tagged field (KIP-482): optional, identified by its number."""

    number: int


Bool = Annotated[bool, Fixed("?")]
Int8 = Annotated[int, Fixed("b")]
Int16 = Annotated[int, Fixed("h")]
UInt16 = Annotated[int, Fixed("H")]
Int32 = Annotated[int, Fixed("i")]
Int64 = Annotated[int, Fixed("q")]
Float64 = Annotated[float, Fixed("d")]
Uuid = Annotated[bytes, Fixed("16s")]
Text = Annotated[str, Sized(True)]
Bytes = Annotated[bytes, Sized(False)]

NO_UUID: Final = bytes(16)


class Body(msgspec.Struct, frozen=True):
    """A message, or a structure inside one; every field has a default, as in Kafka's own definitions."""


class Field(NamedTuple):
    name: str
    #: A `Fixed` or `Sized`, a class of `Body`, or (in a list of one) the type of an array's items.
    type: Any
    nullable: bool
    default: Any
    tag: int | None
    since: int
    until: int


def fields_of(kind: type[Body]) -> list[Field]:
    """Return the fields of a message class, in the order of the wire."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = dict(zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True))
    return [_field(name, hints[name], defaults[name]) for name in kind.__struct_fields__]


def _field(name: str, hint: Any, default: Any) -> Field:
    marks: Sequence[Any] = ()
    nullable = False
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            marks = (*marks, *hint.__metadata__)
            hint = get_args(hint)[0]
        elif origin in (Union, types.UnionType):
            nullable = True
            (hint,) = (part for part in get_args(hint) if part is not type(None))
        else:
            break
    kind: Any = next((mark for mark in marks if isinstance(mark, Fixed | Sized)), None)
    if kind is None:
        kind = [_field(name, get_args(hint)[0], None).type] if origin is tuple else hint
    return Field(
        name=name,
        type=kind,
        nullable=nullable,
        default=default,
        tag=next((mark.number for mark in marks if isinstance(mark, Tag)), None),
        since=next((mark.version for mark in marks if isinstance(mark, Since)), 0),
        until=next((mark.version for mark in marks if isinstance(mark, Until)), 32767),
    )
