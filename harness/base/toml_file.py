"""A TOML file that a person wrote, read into a struct; an error names the file, the line, the key and the remedy."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import parse_toml

T = TypeVar("T", bound=msgspec.Struct)
#: Where a value stands: keys of tables, and numbers (from 0) of the tables of an array.
Keys = Sequence[str | int]

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_REFERENCE: Final = re.compile(r"\{([^{}]*)\}")
_PART: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """The file's path, text and data; `error` says where in it something is wrong."""

    path: Path
    text: str
    data: dict[str, Any]

    def error(self, keys: Keys, rule: str, hint: str | None = None) -> UsageError:
        """Make the error of the value at `keys`: "nightly.toml, line 7: cell 2, workload: unknown field"."""
        line = line_of(self.text, keys)
        at = f"{self.path}, line {line}" if line else str(self.path)
        name = _in_words(keys)
        return UsageError(f"{at}: {name}: {rule}" if name else f"{at}: {rule}", hint=hint)

    def convert(self, kind: type[T]) -> T:
        """Convert the data to `kind`; raises UsageError for the first value that does not fit."""
        return self.convert_part(self.data, kind, ())

    def with_sources(self, sources: Mapping[str, str]) -> "TomlFile":
        """Replace `{name}` by the source of that name, which may name earlier ones, and fold white space."""
        known: dict[str, str] = {}

        def fill(value: Any, keys: Keys) -> Any:
            if isinstance(value, dict):
                return {key: fill(inner, [*keys, key]) for key, inner in value.items()}
            if isinstance(value, list):
                return [fill(inner, [*keys, number]) for number, inner in enumerate(value)]
            if not isinstance(value, str):
                return value
            unknown = next((name for name in _REFERENCE.findall(value) if name not in known), None)
            if unknown is not None:
                raise self.error(keys, f"no source {unknown!r}", f"sources: {', '.join(known) or 'none'}")
            return " ".join(_REFERENCE.sub(lambda match: known[match[1]], value).split())

        for name, text in sources.items():
            known[name] = fill(text, ["sources", name])
        return replace(self, data=fill(self.data, []))

    def convert_part(self, data: object, kind: type[T], keys: Keys) -> T:
        """Convert data that stands at `keys` of the file; raises UsageError as `convert` does."""
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            raise self.located(str(error), keys, kind) from None

    def located(self, message: str, keys: Keys, kind: type[msgspec.Struct]) -> UsageError:
        """Turn msgspec's "... - at `$.cell[1].runs`" into file, line and rule."""
        rule, _, place = message.partition(" - at ")
        inner: list[str | int] = [int(n) if n else k for k, n in re.findall(r"([\w-]+)|\[(\d+)\]", place.strip("`$"))]
        missing = re.search(r"missing required field `([\w-]+)`", rule)
        unknown = re.search(r"unknown field `([\w-]+)`", rule)
        hint = None
        if missing:
            rule = f"{missing.group(1)!r} is missing"
        elif unknown:
            inner.append(unknown.group(1))
            rule = "unknown key"
        if (missing or unknown) and len(inner) <= bool(unknown):
            hint = f"the keys are: {', '.join(kind.__struct_encode_fields__)}"
        return self.error([*keys, *inner], rule[0].lower() + rule[1:], hint)


def read_toml(path: Path, *, hint: str) -> TomlFile:
    """Read a file; raises UsageError with `hint` when it cannot be read, is not UTF-8 or is not TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: the byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8", hint=hint
        ) from None
    try:
        return TomlFile(path, text, parse_toml(text))
    except ValueError as error:
        raise UsageError(f"{path}: {error}", hint=hint) from None


def line_of(text: str, keys: Keys) -> int | None:
    """Find the line that sets the value at `keys`, or the nearest table around it; None when no line does."""
    counts: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    nearest, depth = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _table(_parts(header.group(2)), counts, is_array=header.group(1) == "[[")
            place = table
        elif key:
            place = (*table, *_parts(key.group(1)))
        else:
            continue
        if tuple(keys[: len(place)]) == place and len(place) > depth:
            nearest, depth = number, len(place)
    return nearest


def _table(names: Sequence[str], counts: dict[tuple[str | int, ...], int], *, is_array: bool) -> tuple[str | int, ...]:
    """Where the table of a header stands; counts the tables of each array."""
    place: tuple[str | int, ...] = ()
    for position, name in enumerate(names):
        place = (*place, name)
        if is_array and position == len(names) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _parts(text: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(text)]


def _in_words(keys: Keys) -> str:
    """ "cell 2, workload" for ("cell", 1, "workload")."""
    parts: list[str] = []
    for key in keys:
        if isinstance(key, int):
            parts[-1] = f"{parts[-1]} {key + 1}"
        else:
            parts.append(key)
    return ", ".join(parts)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` overlaid by `over`; tables are overlaid key by key, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by dotted keys."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        values.update(flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value})
    return values


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of a plan's dotted keys, the opposite of `flat`. Three deep at most: settings have dots in their names."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        *tables, last = name.split(".", 2)
        table = result
        for part in tables:
            table = table.setdefault(part, {})
        table[last] = value
    return result
