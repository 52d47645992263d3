"""The columns of a sealed history: one Parquet table, one row per event in the order of `index`.

Every field of every event has a column of its own type, so analyses need no parsing; it is null when the event's kind
has no such field or the field is None. Fields without a fixed type (`value`, `node_cpu_ns`) are JSON text. Spark reads
all the types without options. `docs/reference/history-format.md` says what each column means; the file's metadata holds
the version of the schema. This module only converts events to columns and back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import SCHEMA_VERSION, Effects, Event, OpEvent, Outcome

_LONG: Final = pa.int64()
_TEXT: Final = pa.string()
_TEXTS: Final = pa.list_(pa.string())
_FLAG: Final = pa.bool_()
_DOUBLE: Final = pa.float64()
_EFFECTS: Final = pa.struct([(f.name, _TEXT if f.name == "stops" else _FLAG) for f in msgspec.structs.fields(Effects)])

VERSION_KEY: Final = b"fencepost.schema_version"
TORN_KEY: Final = b"fencepost.torn"

#: Name, type and order of every column.
COLUMNS: Final[dict[str, Any]] = {
    "kind": _TEXT,
    "index": _LONG,
    "time_ns": _LONG,
    "type": _TEXT,
    "process": _LONG,
    "f": _TEXT,
    "node": _TEXT,
    "key": _TEXT,
    "value": _TEXT,
    "error": _TEXT,
    "position": _LONG,
    "value_position": _LONG,
    "epoch": _LONG,
    "session": _LONG,
    "fault_id": _LONG,
    "fault": _TEXT,
    "action": _TEXT,
    "stage": _TEXT,
    "outcome": _TEXT,
    "target": _TEXT,
    "nodes": _TEXTS,
    "severed": _TEXTS,
    "leader": _TEXT,
    "proof": _TEXT,
    "why": _TEXT,
    "subject": _TEXT,
    "incarnation": _LONG,
    "claims": _TEXT,
    "asked_ns": _LONG,
    "answered_ns": _LONG,
    "source": _TEXT,
    "epoch_exact": _FLAG,
    "detail": _TEXT,
    "change": _TEXT,
    "pid": _LONG,
    "exit_status": _LONG,
    "expected": _FLAG,
    "phase": _TEXT,
    "loop_lag_ns_max": _LONG,
    "cpu_stall_ns": _LONG,
    "node_cpu_ns": _TEXT,
    "topic": _TEXT,
    "text": _TEXT,
    "details": _TEXT,
    "clock": _TEXT,
    "since_ns": _LONG,
    "offset_ns": _LONG,
    "rate": _DOUBLE,
    "period_ns": _LONG,
    "delta_ns": _LONG,
    "length_ns": _LONG,
    "certain": _FLAG,
    "effects": _EFFECTS,
}

#: Columns that hold JSON text.
JSON_COLUMNS: Final = frozenset(("value", "node_cpu_ns", "details"))
#: Schema versions that this program reads; it writes the last one.
READ_VERSIONS: Final = (1, SCHEMA_VERSION)
#: Columns added after the first files of version 1: a file may lack them, and they are then null.
LATER_COLUMNS: Final = frozenset(
    ("details", "clock", "since_ns", "offset_ns", "rate", "period_ns", "delta_ns", "length_ns", "certain", "effects")
)

_KINDS: Final[dict[str, type]] = {str(cls.__struct_config__.tag): cls for cls in get_args(Event)}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}
_FIELDS: Final = {cls: tuple(f.name for f in msgspec.structs.fields(cls)) for cls in _KINDS.values()}

#: Rows converted at once, and rows of one row group; this bounds the memory of both directions.
_BATCH: Final = 50_000
#: Columns of operations with few distinct values: each value is decoded once, so equal strings share one object.
_SHARED: Final = frozenset(("f", "node", "key", "error", "process", "epoch", "session"))


def schema(*, torn: bool = False) -> Any:
    """Return the Arrow schema; `torn` records that the JSON lines ended in half a line, which was dropped."""
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), TORN_KEY: b"true" if torn else b"false"}
    return pa.schema([pa.field(name, kind) for name, kind in COLUMNS.items()], metadata=metadata)


def write_parquet(events: Iterable[Event], path: Path, *, torn: bool = False) -> None:
    """Write the events, which must be in the order of `index`, as one table."""
    target = schema(torn=torn)
    rest = iter(events)
    with pq.ParquetWriter(path, target, compression="zstd") as writer:
        while batch := list(islice(rest, _BATCH)):
            writer.write_table(_to_table(batch, target))


def read_parquet(path: Path) -> Iterator[list[Event]]:
    """Yield the events in batches, in the order of the rows; raise MalformedHistory for a file that is no history."""
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(path, file.schema_arrow)
            at = 0
            lacking = [name for name in COLUMNS if file.schema_arrow.get_field_index(name) < 0]
            there = [name for name in COLUMNS if name not in lacking]
            for batch in file.iter_batches(batch_size=_BATCH, columns=there):
                for name in lacking:
                    batch = batch.append_column(name, pa.nulls(len(batch), COLUMNS[name]))
                yield _to_events(path, batch, at)
                at += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise MalformedHistory(f"{path}: not a whole Parquet file: {error}", hint="write or copy it again") from None


def is_torn(path: Path) -> bool:
    """Say whether the history that this file was made from ended in half a line."""
    return bool((pq.read_schema(path).metadata or {}).get(TORN_KEY) == b"true")


def _check_schema(path: Path, file_schema: Any) -> None:
    version = (file_schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        raise MalformedHistory(f"{path}: not a history: its metadata lacks {VERSION_KEY.decode()}")
    if version not in [str(known).encode() for known in READ_VERSIONS]:
        raise MalformedHistory(
            f"{path}: schema version {version.decode(errors='replace')}, this program reads "
            f"{' and '.join(map(str, READ_VERSIONS))}",
            hint="use the version of fencepost that wrote it",
        )
    may_lack = LATER_COLUMNS if version == b"1" else frozenset[str]()
    for name, kind in COLUMNS.items():
        at = file_schema.get_field_index(name)
        if at < 0 and name in may_lack:
            continue
        if at < 0:
            raise MalformedHistory(f"{path}: column {name!r} is missing")
        if not file_schema.field(at).type.equals(kind):
            raise MalformedHistory(f"{path}: column {name!r} has type {file_schema.field(at).type}, expected {kind}")


# --- events to columns -------------------------------------------------------------------------------------------


def _to_table(events: Sequence[Event], target: Any) -> Any:
    columns: dict[str, list[Any]] = {"kind": [_KIND_OF[type(event)] for event in events]}
    rows: dict[type, list[int]] = {}
    for row, event in enumerate(events):
        rows.setdefault(type(event), []).append(row)
    for cls, mine in rows.items():
        for name in _FIELDS[cls]:
            column = columns.setdefault(name, [None] * len(events))
            plain = _plain(name)
            for row in mine:
                cell = getattr(events[row], name)
                column[row] = cell if cell is None else plain(cell)
    arrays = []
    for name, kind in COLUMNS.items():
        try:
            arrays.append(pa.array(columns[name], kind) if name in columns else pa.nulls(len(events), kind))
        except (pa.ArrowException, OverflowError) as error:
            raise MalformedHistory(f"events {events[0].index} to {events[-1].index}: {name}: {error}") from None
    return pa.Table.from_arrays(arrays, schema=target)


def _plain(name: str) -> Callable[[Any], Any]:
    """Return the function that turns a field's value (never None) into the column's value."""
    if name in JSON_COLUMNS:
        return _json_text
    if COLUMNS[name] is _TEXT:
        return _text
    if COLUMNS[name] is _EFFECTS:
        return msgspec.structs.asdict
    return list if COLUMNS[name] is _TEXTS else _same


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(value: str) -> str:
    return value.value if isinstance(value, StrEnum) else value


def _same(value: Any) -> Any:
    return value


# --- columns to events -------------------------------------------------------------------------------------------


def _to_events(path: Path, batch: Any, at: int) -> list[Event]:
    kinds = batch.column("kind").to_pylist()
    events: list[Any] = [None] * len(kinds)
    rows: dict[str | None, list[int]] = {}
    for row, kind in enumerate(kinds):
        rows.setdefault(kind, []).append(row)
    for kind, mine in rows.items():
        cls = _KINDS.get(kind or "")
        if cls is None:
            raise MalformedHistory(f"{path}: event {at + mine[0]}: unknown kind {kind!r}; known: {', '.join(_KINDS)}")
        part = batch if len(mine) == len(kinds) else batch.take(pa.array(mine))
        make = _operations if cls is OpEvent else _others
        try:
            made = make(cls, part)
        except _BadRow as bad:
            raise MalformedHistory(f"{path}: event {at + mine[bad.row]}: {bad.rule}") from None
        for row, event in zip(mine, made, strict=True):
            events[row] = event
    return events


class _BadRow(Exception):
    def __init__(self, row: int, rule: str) -> None:
        super().__init__(rule)
        self.row = row
        self.rule = rule


def _operations(_: type, part: Any) -> list[Any]:
    """Convert operations by column, without a dictionary per row, because they are nearly all rows of a history."""
    for name in ("index", "time_ns", "type", "process", "f", "node"):
        if part.column(name).null_count:
            raise _BadRow(part.column(name).to_pylist().index(None), f"`{name}` is null; every operation must have it")
    types = part.column("type").to_pylist()
    try:
        outcomes = [_OUTCOMES[text] for text in types]
    except KeyError:
        row = next(row for row, text in enumerate(types) if text not in _OUTCOMES)
        raise _BadRow(row, f"`type` {types[row]!r} is none of {', '.join(_OUTCOMES)}") from None
    names = _FIELDS[OpEvent]
    columns = [outcomes if name == "type" else _cells(name, part.column(name)) for name in names]
    return [OpEvent(**dict(zip(names, cells, strict=True))) for cells in zip(*columns, strict=True)]


_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


def _cells(name: str, column: Any) -> list[Any]:
    if name in _SHARED:
        coded = pc.dictionary_encode(column)
        values = coded.dictionary.to_pylist()
        return [None if code is None else values[code] for code in coded.indices.to_pylist()]
    cells: list[Any] = column.to_pylist()
    if name not in JSON_COLUMNS:
        return cells
    decode = msgspec.json.Decoder().decode
    out = []
    for row, cell in enumerate(cells):
        try:
            out.append(None if cell is None else decode(cell))
        except msgspec.MsgspecError as error:
            raise _BadRow(row, f"`{name}` is not JSON: {error}") from None
    return out


def _others(cls: type, part: Any) -> list[Any]:
    names = _FIELDS[cls]
    columns = [_cells(name, part.column(name)) for name in names]
    events: list[Any] = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}
        try:
            events.append(msgspec.convert({"kind": _KIND_OF[cls], **fields}, cls))
        except msgspec.ValidationError as error:
            raise _BadRow(row, str(error)) from None
    return events
