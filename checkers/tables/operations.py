"""Registers judged from a table of operations in integer columns, for histories with too many rows to be events.

A row is one operation (`COLUMNS`, described in docs/reference/operations-table.md). The columns go to the native search
as they are, and what it finds is told by the checker of registers (`checkers.storage.registers`). A row becomes an
`Operation` where somebody asks for it: those of the keys that no order explains, and the few that a witness names.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray
from pyarrow import int8, int32, int64

from fencepost.checkers.storage import registers
from fencepost.checkers.storage.register_anomalies import CAS, READ, WRITE, Columns
from fencepost.checkers.tables.events import ended, events_of
from fencepost.checkers.tables.parquet import ParquetFiles
from fencepost.harness.base.errors import Contradiction, MalformedHistory
from fencepost.harness.history import UNNAMED_NODE, Event, History, Operation, Outcome, Value
from fencepost.harness.verdict import Facts, SearchBudget, Validity, Verdict, Witness, without_rows
from fencepost.harness.verdict.figures import ENGINE, KEYS, OPERATIONS
from fencepost.harness.verdict.tables import CAS_REGISTER, ShownRows

#: Name and type of every column; others may stand beside them and are not read.
COLUMNS: Final[dict[str, Any]] = {
    "key": int64(),
    "f": int8(),
    "a": int64(),
    "b": int64(),
    "process": int32(),
    "invoked": int64(),
    "returned": int64(),
}
#: The order in which the rows of a key are judged; complete, so that equal times leave nothing to chance.
ORDER: Final = ("key", "invoked", "process", "returned", "f", "a", "b")
#: What `returned` is for an operation of unknown outcome.
UNKNOWN: Final = -1
#: What the budget has for each operation, where that is more than the plan's: tables grow without bound.
STEPS_PER_OPERATION: Final = 100
_WALL_S_PER_OPERATION: Final = 60e-6
#: Rows of the shown keys together; of larger ones the sentences stand without a drawing.
_ROWS_MAX: Final = 200_000
_VALUES: Final = 1 << 32
_NEVER: Final = np.iinfo(np.int64).max
_FUNCTIONS: Final = {READ: "read", WRITE: "write", CAS: "cas"}
_HINT: Final = "docs/reference/operations-table.md says what each column means"

Column = NDArray[np.int64]


class OperationRows(NamedTuple):
    """Operations in columns, as `COLUMNS`."""

    key: Column
    f: Column
    a: Column
    b: Column
    process: Column
    invoked: Column
    returned: Column

    def at(self, places: Any) -> "OperationRows":
        return OperationRows(*(np.ascontiguousarray(column[places]) for column in self))


class BadRow(MalformedHistory):
    """A row that means nothing; of several rows the least `place` is told: its key, invocation and process."""

    def __init__(self, place: tuple[int, int, int], why: str) -> None:
        key, invoked, process = place
        super().__init__(f"key {key}, process {process}, invoked at {invoked}: {why}", hint=_HINT)
        self.place = place


class Operations(ParquetFiles):
    """The Parquet file or files of one table of operations on registers; raises MalformedHistory for other columns."""

    model: Final = CAS_REGISTER

    def __init__(self, path: Path, model: str | None = None) -> None:
        super().__init__(path)
        check_types({field.name: str(field.type) for field in self.schema}, self.source)

    def check(self, facts: Facts) -> Verdict:
        """The verdict on the table; raises MalformedHistory."""
        rows = self.read()
        try:
            return judged(rows, facts)
        except BadRow as error:
            raise MalformedHistory(f"{self.source}: {error.message}", hint=error.hint) from None

    def read(self, keys: Sequence[int] | None = None) -> OperationRows:
        """The rows of these keys, or all, in no particular order."""
        chosen = None if keys is None else ds.field("key").isin(list(keys))
        return self.query(lambda files: rows_of(files.to_table(columns=list(COLUMNS), filter=chosen)))

    def count(self, key: int | None = None) -> int:
        """How many rows a key has, or the whole table."""
        chosen = None if key is None else ds.field("key") == key
        return int(self.query(lambda files: files.count_rows(filter=chosen)))

    def shown(self, verdict: Verdict) -> ShownRows:
        """The keys of the witnesses; without those of too many rows."""
        keys = [key_number(witness.key) for witness in verdict.witnesses if witness.key is not None]
        left, chosen = _ROWS_MAX, list[int]()
        for key in keys:
            rows = self.count(key)
            if rows <= left:
                chosen.append(key)
                left -= rows
        return ShownRows(events=events_of(TableOperations(self.read(chosen))) if chosen else [])

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        """The witnesses as the events of `history`, which holds their keys, show them.

        Those of keys that the history lacks, or whose search does not end there, stay as they are. Raises
        Contradiction where all of its keys are valid.
        """
        (judgement,) = registers.check(history, facts)
        if judgement.validity is Validity.VALID and history.operations:
            raise Contradiction("keys of the table were found invalid, and valid as a history")
        drawn = {witness.key: witness for witness in judgement.witnesses}
        return tuple(drawn.get(witness.key, witness) for witness in verdict.witnesses)

    def size(self) -> int:
        return self.count() * len(self.schema)

    def events(self) -> list[Event]:
        return ended(events_of(TableOperations(self.read())))


class TableOperations(Sequence[Operation]):
    """Rows, put in `ORDER`, as operations that are made when they are asked for.

    A table has no events: an operation's times stand for the numbers of its events.
    """

    def __init__(self, rows: OperationRows) -> None:
        self.rows: Final = in_order(rows)

    def __len__(self) -> int:
        return len(self.rows.key)

    def __getitem__(self, place: Any) -> Any:
        # numpy raises IndexError behind the last row, which ends an iteration.
        key, f, a, b, process, invoked, returned = (int(column[place]) for column in self.rows)
        known = returned >= 0
        value: Value = None if f == READ else [a or None, b or None] if f == CAS else a or None
        return Operation(
            invoke_index=invoked,
            complete_index=returned if known else None,
            process=process,
            f=_FUNCTIONS[f],
            node=UNNAMED_NODE,
            type=Outcome.OK if known else Outcome.INFO,
            invoked_ns=invoked,
            completed_ns=returned if known else None,
            ended_ns=returned if known else None,
            key=_name(key),
            value=value,
            result=(a or None) if f == READ and known else value,
        )

    def of_keys(self, names: set[str | None]) -> Iterator[Operation]:
        """Make the operations of these keys, in order."""
        keys = [key_number(name) for name in names if name is not None]
        return (self[place] for place in np.flatnonzero(np.isin(self.rows.key, keys)).tolist())


class _Values(Sequence[Value]):
    """What the numbers of a table stand for: themselves, and 0 for nothing."""

    def __len__(self) -> int:
        return _VALUES

    def __getitem__(self, number: Any) -> Any:
        return number or None


def judged(rows: OperationRows, facts: Facts) -> Verdict:
    """Judge whole keys by the checker of registers; raises BadRow for the first row, by key, that means nothing."""
    refuse_bad_row(rows)
    # A read of unknown outcome constrains nothing, and makes no key of its own.
    operations = TableOperations(rows.at((rows.f != READ) | (rows.returned >= 0)))
    rows = operations.rows
    keys, numbers = np.unique(rows.key, return_inverse=True)
    columns = Columns(
        operations=operations,
        keys=[_name(key) for key in keys.tolist()],
        values=_Values(),
        key=np.ascontiguousarray(numbers.reshape(-1), np.int64),
        f=rows.f,
        a=rows.a,
        b=rows.b,
        invoked=rows.invoked,
        returned=rows.returned,
    )
    scaled = msgspec.structs.replace(facts, budget=_budget(facts.budget, len(operations)))
    verdict = registers.judged(columns, operations.of_keys, scaled)
    figures = verdict.figures
    # What names events is left out: a table has none.
    return msgspec.structs.replace(
        without_rows(verdict),
        witnesses=tuple(msgspec.structs.replace(one, events=(), nodes=()) for one in verdict.witnesses),
        proofs=(),
        figures={
            KEYS: len(keys),
            OPERATIONS: len(operations),
            "info_operations": int((rows.returned < 0).sum()),
            "steps": figures.get("steps", 0),
            ENGINE: "native",
            **{name: value for name, value in figures.items() if name.startswith("core_")},
        },
    )


def _budget(budget: SearchBudget, operations: int) -> SearchBudget:
    """The budget that was asked for, or for a large table more than the usual one."""
    if budget != SearchBudget():
        return budget
    return SearchBudget(
        steps=max(budget.steps, STEPS_PER_OPERATION * operations),
        memory_bytes=budget.memory_bytes,
        wall_s=max(budget.wall_s, _WALL_S_PER_OPERATION * operations),
    )


def _name(key: int) -> str:
    return f"key {key}"


def key_number(name: str) -> int:
    """The number of the key that `_name` names."""
    return int(name.removeprefix("key "))


def check_types(types: dict[str, str], source: str) -> None:
    """Check that every column is there with its type, as Arrow names it; raise MalformedHistory if not."""
    for name, kind in COLUMNS.items():
        if name not in types:
            there = ", ".join(sorted(types)) or "none"
            expected = ", ".join(f"{column} {type_}" for column, type_ in COLUMNS.items())
            raise MalformedHistory(
                f"{source}: column {name!r} is missing; a table of operations has {expected}; this file has {there}",
                hint=_HINT,
            )
        if types[name] != str(kind):
            raise MalformedHistory(
                f"{source}: column {name!r} has type {types[name]}, expected {kind}", hint=_HINT + "; cast it"
            )


def rows_of(table: Any) -> OperationRows:
    """An Arrow table, of `COLUMNS` by name, as columns; raises MalformedHistory where one is null."""
    return OperationRows(*(_column_of(table, name) for name in COLUMNS))


def _column_of(table: Any, name: str) -> Column:
    column = table.column(name)
    if column.null_count:
        raise MalformedHistory(
            f"column {name!r} is null in {column.null_count} rows; `returned` is {UNKNOWN} where it is unknown",
            hint=_HINT,
        )
    return np.ascontiguousarray(column.to_numpy(), dtype=np.int64)


def in_order(rows: OperationRows) -> OperationRows:
    """The rows in `ORDER`. Sorting is spared where they are; beyond the invocation it decides among few."""
    key, invoked = rows.key, rows.invoked
    if not np.all((key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & (invoked[:-1] <= invoked[1:]))):
        rows = rows.at(np.lexsort((invoked, key)))
    tied = (rows.key[:-1] == rows.key[1:]) & (rows.invoked[:-1] == rows.invoked[1:])
    if not tied.any():
        return rows
    places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    among = OperationRows(*(column[places] for column in rows))
    order = np.lexsort([getattr(among, name) for name in reversed(ORDER)])
    columns = []
    for column, own in zip(rows, among, strict=True):
        columns.append(column.copy())
        columns[-1][places] = own[order]
    return OperationRows(*columns)


def refuse_bad_row(rows: OperationRows) -> None:
    """Raise BadRow for the first row, by key, invocation and process, that means nothing."""
    cas, late = rows.f == CAS, (rows.returned >= 0) & (rows.returned < rows.invoked)
    rules: list[tuple[Any, Callable[[int], str]]] = [
        ((rows.f < READ) | (rows.f > CAS), lambda i: f"f is {rows.f[i]}; expected 0 read, 1 write or 2 cas"),
        ((rows.a < 0) | (rows.a >= _VALUES), lambda i: f"a is {rows.a[i]}; expected a number from 0 to 2^32 - 1"),
        (
            cas & ((rows.b < 0) | (rows.b >= _VALUES)),
            lambda i: f"b is {rows.b[i]}; expected a number from 0 to 2^32 - 1",
        ),
        (~cas & (rows.b != 0), lambda i: f"b is {rows.b[i]}; expected 0, since only a cas has a second value"),
        (rows.invoked < 0, lambda i: f"invoked is {rows.invoked[i]}; expected 0 or more"),
        (rows.returned < UNKNOWN, lambda i: f"returned is {rows.returned[i]}; expected {UNKNOWN} where it is unknown"),
        (late, lambda i: f"returned at {rows.returned[i]}, before it was invoked at {rows.invoked[i]}"),
        (rows.returned == _NEVER, lambda i: f"returned at {rows.returned[i]}; expected less, or {UNKNOWN}"),
    ]
    places = np.flatnonzero(np.logical_or.reduce([mask for mask, _ in rules]))
    if len(places):
        order = np.lexsort((rows.process[places], rows.invoked[places], rows.key[places]))
        first = int(places[order[0]])
        why = next(tell(first) for mask, tell in rules if mask[first])
        raise BadRow((int(rows.key[first]), int(rows.invoked[first]), int(rows.process[first])), why)
