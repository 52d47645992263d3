"""Objects of a JSON file, in an array or one after the other, with their positions; Jepsen's operations among them."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

import msgspec

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Event, OpEvent
from fencepost.harness.interchange.formats.edn import EdnEvents, edn_text, malformed, read_events
from fencepost.harness.interchange.formats.operation_maps import OperationMap, ReadingChoices, from_rows

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_INTEGER_DIGITS_MAX: Final = 4_000


def read_json_rows(stream: BinaryIO, source: str, choices: ReadingChoices) -> tuple[EdnEvents, list[str]]:
    """Read an array of operations in JSON, or one operation after the other, as columns, with notes."""
    data = stream.read()
    if choices == ReadingChoices() and _is_json(data):
        # What is refused here may be guessed, and is read again object by object.
        with suppress(MalformedHistory):
            return read_events(io.BytesIO(data), source, json=True), []
    rows = []
    for line, column, entry in json_objects(utf8(data, source), source):
        if not isinstance(entry, dict):
            raise malformed(source, line, column, f'expected an operation, {{"type": ...}}, found {entry!r:.60}')
        try:
            fields = {name.removeprefix(":"): edn_text(value) for name, value in entry.items()}
            "".join(fields.values()).encode()
        except (UnicodeEncodeError, RecursionError):
            raise malformed(source, line, column, "a text that is no Unicode, or values nested too deeply") from None
        rows.append(OperationMap(line, column, fields))
    return from_rows(rows, source, choices)


def _is_json(data: bytes) -> bool:
    """Say whether the bytes are an array of values in JSON, or one value a line."""
    decode = msgspec.json.Decoder().decode
    try:
        if data.lstrip()[:1] == b"[":
            values = msgspec.json.Decoder(list[msgspec.Raw]).decode(data)
        else:
            values = msgspec.json.Decoder(msgspec.Raw).decode_lines(data)
        for value in values:
            decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def write_json(events: Iterable[Event]) -> Iterator[str]:
    """Write one of Jepsen's operations per line, as elle-cli has them; leave out all other events."""
    for event in events:
        if type(event) is OpEvent:
            row = {
                "index": event.index,
                "time": event.time_ns,
                "type": event.type.value,
                "process": event.process,
                "f": "read" if event.f == "members" else event.f,
                "value": event.value if event.key is None else [event.key, event.value],
            }
            yield json.dumps(row | ({} if event.error is None else {"error": event.error})) + "\n"


def utf8(data: bytes, source: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        raise malformed(source, line, column, f"the byte 0x{data[error.start]:02x} is not UTF-8") from None


def json_objects(text: str, source: str) -> Iterator[tuple[int, int, Any]]:
    """Yield every object of an array, or of a sequence of objects, with its line and column."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    at = _skip(text, 0)
    array = text[at : at + 1] == "["
    at = _skip(text, at + array)
    line, line_start, counted = 1, 0, 0
    while at < len(text) and not (array and text[at] == "]"):
        line += text.count("\n", counted, at)
        line_start = max(line_start, text.rfind("\n", counted, at) + 1)
        counted = at
        column = at - line_start + 1
        try:
            entry, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            below = error.lineno, error.colno
            raise malformed(
                source, *below, f"{error.msg}; expected JSON, {_END if error.pos >= len(text) else 'here'}"
            ) from None
        except (ValueError, RecursionError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise malformed(source, line, column, why) from None
        yield line, column, entry
        at = _skip(text, at)
        if array:
            comma = text[at : at + 1] == ","
            at = _skip(text, at + comma)
            if at < len(text) and comma == (text[at] == "]"):
                raise _at(text, at, source, "expected `,` and another operation, or `]`")
    if array and at >= len(text):
        raise _at(text, len(text), source, f"expected `]`; {_END}")
    if array and _skip(text, at + 1) < len(text):
        raise _at(text, _skip(text, at + 1), source, "text after the end of the list; expected nothing more")


_END: Final = "the file ends here: it is truncated"


def _at(text: str, at: int, source: str, message: str) -> MalformedHistory:
    return malformed(source, text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1, message)


def _skip(text: str, at: int) -> int:
    entry = _SPACE.match(text, at)
    return entry.end() if entry else at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return entry


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise ValueError(f"an integer of {len(text)} digits; at most {_INTEGER_DIGITS_MAX} are allowed")
    return int(text)
