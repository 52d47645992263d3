"""The columns of a sealed history: one Parquet table, one row per event in the order of `index`.

Every field of every event has a column of its own type, so analyses need no parsing; it is null when the event's kind
has no such field or the field is None. Fields without a fixed type (`value`, `node_cpu_ns`) are JSON text. Spark reads
all the types without options. `docs/reference/history-format.md` says what each column means; the file's metadata holds
the version of the schema. This module only converts events to columns and back.

Tables of facts are files too: one Parquet file for each table in the folder `facts/` of a run. A file is written
completely or not at all. It replaces an older one, since facts can always be derived again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.base.files import replaced
from fencepost.harness.history import SCHEMA_VERSION, Effects, Event, OpEvent, Outcome
from fencepost.harness.verdict.fact_tables import FactTables

_LONG: Final = pa.int64()
_TEXT: Final = pa.string()
_TEXTS: Final = pa.list_(pa.string())
_FLAG: Final = pa.bool_()
_DOUBLE: Final = pa.float64()
_EFFECTS: Final = pa.struct([(f.name, _FLAG if f.type is bool else _TEXT) for f in msgspec.structs.fields(Effects)])

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
    "loop_waited_ns": _LONG,
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
READ_VERSIONS: Final = (1, 2, SCHEMA_VERSION)
#: The effects of version 2 and earlier, which say nothing of disks, nor of servers that end.
_EARLIER_EFFECTS: Final = pa.struct([field for field in _EFFECTS if field.name not in ("disk", "ends")])
#: Columns added after the first files of a version: a file may lack them, and they are then null.
_LATER_THAN_2: Final = frozenset(("loop_waited_ns",))
LATER_COLUMNS: Final = _LATER_THAN_2 | frozenset(
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
            there = _filled(file)
            for batch in file.iter_batches(batch_size=_BATCH, columns=there):
                for name in COLUMNS.keys() - there:
                    batch = batch.append_column(name, pa.nulls(len(batch), COLUMNS[name]))
                yield to_events(path, batch, at)
                at += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(path, error) from None


def is_history(path: Path) -> bool:
    """Whether a file of Parquet says that it is a history of ours; also where it cannot be read."""
    try:
        return VERSION_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return True


def check_parquet(path: Path) -> None:
    """Check by its footer that a file is a whole history; raises MalformedHistory as `read_parquet` does."""
    try:
        _check_schema(path, pq.read_schema(path))
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(path, error) from None


def _not_whole(path: Path, error: Exception) -> MalformedHistory:
    return MalformedHistory(f"{path}: not a whole Parquet file: {error}", hint="write or copy it again")


def _filled(file: Any) -> set[str]:
    """The columns that have a value in some row, by the file's own statistics: no other one is decoded."""
    filled = set()
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    for group in groups:
        for number in range(group.num_columns):
            column = group.column(number)
            known = column.statistics
            if known is None or not known.has_null_count or known.null_count < group.num_rows:
                filled.add(column.path_in_schema.partition(".")[0])
    return filled & COLUMNS.keys() | {"kind"}


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
            f"{', '.join(map(str, READ_VERSIONS))}",
            hint="use the version of fencepost that wrote it",
        )
    may_lack = {b"1": LATER_COLUMNS, b"2": _LATER_THAN_2}.get(version, frozenset[str]())
    for name, kind in COLUMNS.items():
        at = file_schema.get_field_index(name)
        if kind is _EFFECTS and int(version) < SCHEMA_VERSION:
            kind = _EARLIER_EFFECTS
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


def to_events(path: Path, batch: Any, at: int) -> list[Event]:
    """The rows of a batch of `COLUMNS`, of which those that its kinds of events lack may be missing, as events.

    `at` is the number of the first row, for messages.
    """
    kinds = pc.dictionary_encode(batch.column("kind"))
    codes = _codes(kinds)
    # A null of the column `kind` has the code -1, and so the last of these names.
    names: list[str | None] = [*kinds.dictionary.to_pylist(), None]
    events = np.empty(len(batch), object)
    for code in np.unique(codes).tolist():
        mine = np.flatnonzero(codes == code)
        cls = _KINDS.get(names[code] or "")
        if cls is None:
            unknown = f"unknown kind {names[code]!r}; known: {', '.join(_KINDS)}"
            raise MalformedHistory(f"{path}: event {at + int(mine[0])}: {unknown}")
        part = batch.select(list(_FIELDS[cls]))
        part = part if len(mine) == len(batch) else part.take(pa.array(mine))
        try:
            made = _operations(part) if cls is OpEvent else _others(cls, part)
        except _BadRow as bad:
            raise MalformedHistory(f"{path}: event {at + int(mine[bad.row])}: {bad.rule}") from None
        events[mine] = np.fromiter(made, object, len(made))
    ordered: list[Event] = events.tolist()
    return ordered


class _BadRow(Exception):
    def __init__(self, row: int, rule: str) -> None:
        super().__init__(rule)
        self.row = row
        self.rule = rule


def _operations(part: Any) -> list[Any]:
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
    columns = (outcomes if name == "type" else _cells(name, part.column(name)) for name in _OF_OPERATIONS)
    # Names written out cost a twentieth of a dictionary of them for each row.
    return [
        OpEvent(
            index=index,
            time_ns=time_ns,
            type=outcome,
            process=process,
            f=f,
            node=node,
            key=key,
            value=value,
            error=error,
            position=position,
            value_position=value_position,
            epoch=epoch,
            session=session,
        )
        for (
            index,
            time_ns,
            outcome,
            process,
            f,
            node,
            key,
            value,
            error,
            position,
            value_position,
            epoch,
            session,
        ) in zip(*columns, strict=True)
    ]


_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}
#: The fields of an operation's event in the order in which `_operations` takes them.
_OF_OPERATIONS: Final = (
    "index",
    "time_ns",
    "type",
    "process",
    "f",
    "node",
    "key",
    "value",
    "error",
    "position",
    "value_position",
    "epoch",
    "session",
)
assert set(_OF_OPERATIONS) == set(_FIELDS[OpEvent])


def _cells(name: str, column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if name in _SHARED:
        coded = pc.dictionary_encode(column)
        values = [*coded.dictionary.to_pylist(), None]
        return [values[code] for code in _codes(coded).tolist()]
    if name in JSON_COLUMNS:
        return _decoded(name, column)
    if COLUMNS[name] is _LONG:
        return _numbers(column)
    cells: list[Any] = column.to_pylist()
    return cells


def _codes(coded: Any) -> Any:
    """The codes of a dictionary array; -1 stands for null."""
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _numbers(column: Any) -> list[Any]:
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    cells = column.fill_null(0).to_numpy(zero_copy_only=False).astype(object)
    cells[column.is_null().to_numpy(zero_copy_only=False)] = None
    return cells.tolist()  # type: ignore[no-any-return]


def _decoded(name: str, column: Any) -> list[Any]:
    """Decode JSON texts, all of them by one call where each is one line."""
    cells = column.fill_null("null").to_pylist()
    decoder = msgspec.json.Decoder[Any]()
    try:
        values = decoder.decode_lines("\n".join(cells))
    except msgspec.MsgspecError:
        values = []
    if len(values) == len(cells):
        return values
    out = []
    for row, cell in enumerate(cells):
        try:
            out.append(decoder.decode(cell))
        except msgspec.MsgspecError as error:
            raise _BadRow(row, f"`{name}` is not JSON: {error}") from None
    return out


def _others(cls: type, part: Any) -> list[Any]:
    nulls = {name: part.column(name).null_count for name in _FIELDS[cls]}
    whole = ["kind", *(name for name, count in nulls.items() if not count)]
    columns = (_cells(name, part.column(name)) for name in whole[1:])
    # `zip` by itself costs half of a dictionary that is filled cell by cell.
    rows = [dict(zip(whole, cells)) for cells in zip(repeat(_KIND_OF[cls], len(part)), *columns, strict=True)]  # noqa: B905
    for name in (name for name, count in nulls.items() if 0 < count < len(part)):
        for row, cell in zip(rows, _cells(name, part.column(name)), strict=True):
            if cell is not None:
                row[name] = cell
    try:
        return msgspec.convert(rows, list[cls])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return [_one(cls, row, fields) for row, fields in enumerate(rows)]


def _one(cls: type, row: int, fields: dict[str, Any]) -> Any:
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        raise _BadRow(row, str(error)) from None


#: The folder's name in a run's folder.
FACTS: Final = "facts"


def write_facts(folder: Path, tables: FactTables) -> Path:
    """Write each table beside the run's history; return the folder. Raises OSError."""
    target = folder / FACTS
    target.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_table(table, target / f"{name}.parquet")
    return target


def write_table(table: Any, path: Path) -> None:
    """Write one table, whole or not at all."""
    with replaced(path) as hidden:
        pq.write_table(table, hidden, compression="zstd")


def read_table(path: Path) -> Any:
    """Read a table that `write_table` wrote."""
    return pq.read_table(path, partitioning=None)
