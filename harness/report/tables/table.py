"""Tables as rows of plain text; any figures become tables, and the name of a column decides how its cells look."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.report.words.evidence import rows_of, traced
from fencepost.harness.report.words.wording import clock, count, length, text

#: Longer tables are cut, and a note says so.
ROWS_MAX: Final = 60
#: Columns in nanoseconds that are moments of the run; all other `_ns` columns are lengths of time.
_MOMENTS: Final = frozenset(
    f"{name}_ns"
    for name in (
        *(
            "from",
            "to",
            "at",
            "begin",
            "end",
            "begun",
            "began",
            "ended",
            "asked",
            "answered",
            "lo",
            "hi",
            "first",
            "last",
        ),
        *("invoked", "completed", "read", "healed", "injected", "certain_from", "certain_to", "superseded", "since"),
        *(
            "claimed_until",
            "known_since",
            "first_ok",
            "last_ok",
            "gap_from",
            "cut_from",
            "without_ok_from",
            "new_leader_at",
        ),
        *("proven_from", "proven_to", "possible_from", "possible_to", "recovered_at"),
    )
)
#: Columns in which a figure's row names its own proof.
_EVIDENCE: Final = ("events", "indexes")
#: Integers in columns with these words in their names are identifiers, not counts.
_NAMES: Final = ("index", "seed", "pid", "epoch", "position", "session", "port")


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of texts, some of them traced; `note` says what was cut."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def flat(run: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """List the run's facts by dotted name: the short ones, and those of the binaries (paths and hashes)."""
    short: list[tuple[str, str]] = []
    long: list[tuple[str, str]] = []

    def walk(prefix: str, data: Mapping[str, Any], into: list[tuple[str, str]]) -> None:
        for key, value in data.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping) and value:
                walk(f"{name}: ", value, long if key in ("paths", "sha256") else into)
            else:
                into.append((name.replace("_", " "), cell(key, value)))

    walk("", run, short)
    return tuple(short), tuple(long)


def generic(name: str, data: Any, evidence: Mapping[str, Sequence[int]] | None = None) -> list[Table]:
    """Turn any plain data into tables: one per list of objects, one per nested object, one of names and values.

    `evidence` maps the key of a plain figure (for a nested one "key.key") to its rows of the history; an object in a
    list names its own rows as `events`.
    """
    caption = name.replace("_", " ").replace(".", ": ")
    if isinstance(data, list | tuple) and data and all(isinstance(row, dict) for row in data):
        columns = tuple(key for key in dict.fromkeys(key for row in data for key in row) if key not in _EVIDENCE)
        rows = tuple(
            tuple(traced(cell(key, row.get(key)), rows_of(row, key)) for key in columns) for row in data[:ROWS_MAX]
        )
        shown = tuple(_column_name(key) for key in columns)
        return [Table(caption=caption, columns=shown, rows=rows, note=cut_note(len(data)))]
    if isinstance(data, dict):
        known = evidence or {}
        nested = {k: v for k, v in data.items() if _is_table(v)}
        plain = tuple((_column_name(k), traced(cell(k, v), known.get(k))) for k, v in data.items() if k not in nested)
        out = [Table(caption=caption, columns=("figure", "value"), rows=plain)] if plain else []
        for key, value in nested.items():
            inner = {k.removeprefix(f"{key}."): rows for k, rows in known.items() if k.startswith(f"{key}.")}
            # A nested object may have one proof for all its figures.
            whole = dict.fromkeys(value, known[key]) if isinstance(value, dict) and key in known else {}
            out += generic(f"{name}.{key}", value, inner or whole)
        return out
    return [Table(caption=caption, columns=("value",), rows=((cell(name, data),),))]


def _is_table(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (
        isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)
    )


def _column_name(key: str) -> str:
    return key.removesuffix("_ns").replace("_ns_", " ").replace("_", " ")


def cell(key: str, value: Any) -> str:
    """Show a figure by the name of its column: moments and lengths of time with units, counts with groups."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() | float() if key in _MOMENTS:
            return clock(int(value))
        case int() | float() if key.endswith("_ns") or "_ns_" in key:
            return length(value)
        case int():
            named = any(word in key for word in _NAMES)
            return count(value) if abs(value) >= 10_000 and not named else str(value)
        case float():
            return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3f}"
        case list() | tuple():
            return ", ".join(cell(key, v) for v in value[:12]) + (" …" if len(value) > 12 else "") or "none"
        case dict() if all(isinstance(v, int | float | str | None) for v in value.values()):
            return ", ".join(f"{k}: {cell(key, v)}" for k, v in list(value.items())[:12]) or "none"
        case str():
            return text(value, 400)
        case _:
            return text(value, 200)


def cut_note(total: int) -> str:
    """Return the note below a cut table; empty when all rows are shown."""
    return "" if total <= ROWS_MAX else f"{ROWS_MAX} of {count(total)} rows shown."
