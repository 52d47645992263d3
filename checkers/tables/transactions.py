"""A table of transactions: integer columns for histories with too many transactions to be events.

A row is one transaction with the list of its micro-operations (`schema`; docs/reference/transactions-table.md says what
each column means). Whether the micro-operations have the field `list` decides what is judged: lists to which
transactions append, or registers. The columns go to the checkers of transactions as they are; a row becomes an
`Operation` where a witness names it.
"""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from fencepost.checkers.tables.events import ended, events_of
from fencepost.checkers.tables.parquet import ParquetFiles
from fencepost.checkers.transactions.anomalies import check_list_append, check_register
from fencepost.checkers.transactions.columns import (
    FAIL,
    INFO,
    NEVER,
    NIL,
    OK,
    READ,
    READ_UNKNOWN,
    WRITE,
    TransactionColumns,
)
from fencepost.checkers.transactions.history import verdict_of
from fencepost.checkers.transactions.native import RULE, WrittenTwice
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Event, History, Operation, Outcome, Value
from fencepost.harness.verdict import Edge, Facts, Verdict, Witness, without_rows
from fencepost.harness.verdict.figures import ENGINE, KEYS
from fencepost.harness.verdict.tables import LIST_APPEND, RW_REGISTER, ShownRows

#: Times are doubled where transactions are ordered.
TIME_MAX: Final = (1 << 62) - 1
#: Micro-operations and elements of the shown transactions together; of larger ones the sentences stand alone.
_VALUES_MAX: Final = 20_000
_NAMED: Final = re.compile(r"\bT(\d+)\b")
_OUTCOMES: Final = {OK: Outcome.OK, FAIL: Outcome.FAIL, INFO: Outcome.INFO}
_HINT: Final = "docs/reference/transactions-table.md says what each column means"

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


class TransactionTable(ParquetFiles):
    """The Parquet file or files of one table of transactions; raises MalformedHistory for other columns."""

    def __init__(self, path: Path, model: str | None = None) -> None:
        super().__init__(path)
        self.model: Final = model_of(self.schema, self.source, model)

    def check(self, facts: Facts) -> Verdict:
        """The verdict on the table by the consistency model that is required first; raises MalformedHistory."""
        return judged(self.read(), facts, self.source)

    def read(self, numbers: Collection[int] | None = None) -> "_Rows":
        """The transactions of these numbers, or all, in the order of invocation."""
        lists = self.model == LIST_APPEND
        columns = schema(lists=lists).names
        chosen = None if numbers is None else ds.field("transaction").isin(pa.array(sorted(numbers), pa.int64()))
        return rows_of(
            self.query(lambda files: files.to_table(columns=columns, filter=chosen)), lists=lists, source=self.source
        )

    def shown(self, verdict: Verdict) -> ShownRows:
        """The transactions of the witnesses and those that bear witness to their steps; without too large ones."""
        named = [_named(witness) for witness in verdict.witnesses]
        rows = self.read({number for numbers in named for number in numbers})
        sizes = dict(zip(rows.numbers.tolist(), _sizes(rows), strict=True))
        left, chosen = _VALUES_MAX, set[int]()
        for numbers in named:
            size = sum(sizes[number] for number in numbers - chosen)
            if size <= left:
                chosen |= numbers
                left -= size
        if len(chosen) < len(sizes):
            rows = self.read(chosen)
        return ShownRows(events=events_of(TableTransactions(rows)), numbers=tuple(rows.numbers.tolist()))

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        """The witnesses by the events of `history`; those that it lacks have none there."""
        return tuple(
            msgspec.structs.replace(witness, events=_events_in(history, witness)) for witness in verdict.witnesses
        )

    def events(self) -> list[Event]:
        return ended(events_of(TableTransactions(self.read())))

    def size(self) -> int:
        """How many numbers its micro-operations hold, those that are null too, by what the files say of themselves."""
        return self.query(_size)


def _size(files: Any) -> int:
    groups = (group for fragment in files.get_fragments() for group in fragment.row_groups)
    columns = (group.metadata.column(place) for group in groups for place in range(group.metadata.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema.startswith("ops."))


def _named(witness: Witness) -> set[int]:
    return {*witness.transactions, *(int(number) for step in witness.steps for number in _NAMED.findall(step))}


def _sizes(rows: "_Rows") -> Sequence[int]:
    """Of each transaction: itself, its micro-operations, and the elements that it read."""
    c = rows.columns
    ops = c.first[1:] - c.first[:-1]
    elements = c.start[c.first[1:]] - c.start[c.first[:-1]] if rows.lists else 0
    return (1 + ops + elements).tolist()  # type: ignore[no-any-return]  # numpy's lists are of anything


def _events_in(history: History, witness: Witness) -> tuple[int, ...]:
    operations = [history.transactions.get(number) for number in witness.transactions]
    if None in operations:
        return ()
    indexes = {index for op in operations if op for index in (op.invoke_index, op.complete_index)}
    return tuple(sorted(index for index in indexes if index is not None))


def judged(rows: "_Rows", facts: Facts, source: str) -> Verdict:
    """Judge all rows of a table; raises MalformedHistory in the table's own numbers."""
    columns = rows.numbered()
    try:
        judgement = (check_list_append if rows.lists else check_register)(columns, model=facts.required[0])
    except MalformedHistory as error:
        if (opened := rows.open_twice()) is not None:
            process, number, before = opened
            raise _malformed(source, number, f"process {process} invoked it before {before} was completed") from None
        if isinstance(error, WrittenTwice):
            first, second = rows.numbers[list(error.rows)].tolist()
            raise _malformed(source, second, f"it writes {error.what}, as {first} does; {RULE}") from None
        raise
    model = LIST_APPEND if rows.lists else RW_REGISTER
    verdict = verdict_of(model, TableTransactions(rows), judgement)
    # What names events is left out: a table has none.
    return msgspec.structs.replace(
        without_rows(verdict),
        witnesses=tuple(_renamed(witness, rows) for witness in verdict.witnesses),
        figures={**verdict.figures, ENGINE: "native", KEYS: len(columns.keys)},
    )


def _renamed(witness: Witness, rows: "_Rows") -> Witness:
    """A witness by the numbers and the times of the table, in place of those of the rows that were judged."""
    assert witness.proof is not None
    chosen, columns, numbers = list(witness.proof.rows), rows.columns, rows.numbers
    ends = columns.completed[chosen][columns.outcome[chosen] == OK]
    return msgspec.structs.replace(
        witness,
        events=tuple(sorted({*columns.invoked[chosen].tolist(), *ends.tolist()})),
        nodes=(),
        proof=None,
        steps=tuple(renamed(step, numbers) for step in witness.steps),
        edges=tuple(_renumbered(edge, numbers) for edge in witness.edges),
        transactions=tuple(numbers[chosen].tolist()),
    )


def renamed(text: str, numbers: Column) -> str:
    """A sentence in which transactions are named by their numbers in the table, not by rows that were judged.

    Keys and values of a table are integers, so T and digits are nothing else.
    """
    return _NAMED.sub(lambda match: f"T{numbers[int(match[1])]}", text)


def _renumbered(edge: Edge, numbers: Column) -> Edge:
    """The same of an edge; versions keep their names."""
    source, target = (end if isinstance(end, str) else int(numbers[end]) for end in (edge.source, edge.target))
    shown_by = tuple(int(numbers[t]) for t in edge.shown_by)
    return msgspec.structs.replace(
        edge, source=source, target=target, shown_by=shown_by, text=renamed(edge.text, numbers)
    )


class TableTransactions(Sequence[Operation]):
    """Rows as operations that are made when they are asked for; one that failed is answered when it was invoked.

    A table has no events: the number of its row stands for that of a transaction's invocation.
    """

    def __init__(self, rows: "_Rows") -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, t: Any) -> Any:
        if t >= len(self):
            raise IndexError(t)
        c = self._rows.columns
        outcome, invoked, completed = (int(column[t]) for column in (c.outcome, c.invoked, c.completed))
        return Operation(
            invoke_index=t,
            complete_index=None,
            process=int(c.process[t]),
            f="txn",
            node="",
            type=_OUTCOMES[outcome],
            invoked_ns=invoked,
            completed_ns={OK: completed, FAIL: invoked}.get(outcome),
            value=self._micro_operations(t, answered=False),
            result=self._micro_operations(t, answered=outcome == OK),
        )

    def _micro_operations(self, t: int, *, answered: bool) -> Value:
        c, lists = self._rows.columns, self._rows.lists

        def seen(m: int) -> Value:
            if lists:
                elements: list[Value] = c.elements[c.start[m] : c.start[m + 1]].tolist()
                return elements
            return None if c.value[m] == NIL else int(c.value[m])

        return [
            [":append" if lists else ":w", int(c.key[m]), int(c.value[m])]
            if c.kind[m] == WRITE
            else [":r", int(c.key[m]), seen(m) if answered and c.kind[m] == READ else None]
            for m in range(c.first[t], c.first[t + 1])
        ]


def rows_of(table: Any, *, lists: bool, source: str) -> "_Rows":
    """The rows of a whole table, which break no rule; raises MalformedHistory."""
    try:
        rows = _Rows(table, lists=lists)
    except MalformedHistory as error:
        raise MalformedHistory(f"{source}: {error.message}", hint=error.hint) from None
    broken = rows.broken()
    if broken is not None:
        raise _malformed(source, *broken[1:])
    numbers = np.sort(rows.numbers)
    again = numbers[1:][numbers[1:] == numbers[:-1]]
    if len(again):
        count = int((numbers == again[0]).sum())
        raise _malformed(source, int(again[0]), f"{count} rows have this number; each transaction is one row")
    return rows


def schema(*, lists: bool) -> Any:
    """The columns of a table; others may stand beside them and are not read."""
    fields = [("f", pa.int8()), ("key", pa.int64()), ("value", pa.int64())]
    if lists:
        fields.append(("list", pa.list_(pa.int64())))
    return pa.schema(
        {
            "transaction": pa.int64(),
            "process": pa.int32(),
            "outcome": pa.int8(),
            "invoked": pa.int64(),
            "completed": pa.int64(),
            "ops": pa.list_(pa.struct(fields)),
        }
    )


def model_of(columns: Any, source: str, model: str | None = None) -> str:
    """Return what a table of the Arrow schema `columns` is judged as: lists or registers.

    Raises:
        MalformedHistory: no table of transactions, or not one for `model`, the one that the caller asks for.
    """
    ops = columns.field("ops").type if "ops" in columns.names else None
    inner = ops.value_type if ops is not None and pa.types.is_list(ops) else None
    micro = inner if inner is not None and pa.types.is_struct(inner) else None
    lists = micro is not None and micro.get_field_index("list") >= 0
    for field in schema(lists=lists):
        if field.name not in columns.names:
            raise MalformedHistory(f"{source}: column {field.name!r} is missing", hint=_HINT)
        given = columns.field(field.name).type
        wanted: Any = field.type
        if field.name == "ops" and micro is not None:
            _check_fields(micro, wanted.value_type, source)
        elif given != wanted:
            raise MalformedHistory(
                f"{source}: column {field.name!r} has type {given}, expected {wanted}", hint=_HINT + "; cast it"
            )
    own = LIST_APPEND if lists else RW_REGISTER
    if model not in (None, own):
        has = "a field" if lists else "no field"
        raise MalformedHistory(f"{source}: its micro-operations have {has} `list`, so it is {own}, not {model}")
    return own


def _check_fields(given: Any, wanted: Any, source: str) -> None:
    for field in wanted:
        place = given.get_field_index(field.name)
        actual: Any = given.field(place).type if place >= 0 else pa.null()
        listed = pa.types.is_list(actual) and pa.types.is_list(field.type)
        same = actual == field.type or (listed and actual.value_type == field.type.value_type)
        if not same:
            has = f"has type {actual}" if place >= 0 else "is missing"
            raise MalformedHistory(f"{source}: field {field.name!r} of `ops` {has}, expected {field.type}", hint=_HINT)


class _Rows:
    """Transactions of an Arrow batch or table in the order of invocation, as arrays; raises MalformedHistory.

    `numbers` names each; `columns` has keys as they stand in the table, not numbered.
    """

    def __init__(self, table: Any, *, lists: bool) -> None:
        batch = _one(table.select(schema(lists=lists).names))
        for name in batch.schema.names:
            _no_null(batch.column(name), f"column {name!r}")
        numbers, invoked = _integers(batch.column("transaction")), _integers(batch.column("invoked"))
        if not np.all(invoked[1:] > invoked[:-1]):
            batch = batch.take(pa.array(np.lexsort((numbers, invoked))))
        self.lists = lists
        self.numbers = _integers(batch.column("transaction"))
        ops = batch.column("ops")
        micro = ops.flatten()
        _no_null(micro, "a micro-operation in `ops`")
        f, key, value = (micro.field(micro.type.get_field_index(name)) for name in ("f", "key", "value"))
        _no_null(f, "field 'f' of `ops`")
        _no_null(key, "field 'key' of `ops`")
        kind = _integers(f)
        offsets = _integers(ops.offsets)
        start, elements = np.zeros(0, np.int64), np.zeros(0, np.int64)
        #: Of lists: whether a micro-operation has one.
        self.listed = np.zeros(len(kind), bool)
        if lists:
            seen = micro.field(micro.type.get_field_index("list"))
            self.listed = np.asarray(seen.is_valid())
            lengths = np.where(self.listed, _integers(pc.fill_null(pc.list_value_length(seen), 0)), 0)
            start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            flat = seen.flatten()
            _no_null(flat, "an element of field 'list' of `ops`")
            elements = _integers(flat)
        self.named = np.asarray(value.is_valid())
        self.columns = TransactionColumns(
            process=_integers(batch.column("process")),
            outcome=_integers(batch.column("outcome")),
            invoked=_integers(batch.column("invoked")),
            completed=_integers(batch.column("completed")),
            first=offsets - offsets[0],
            kind=kind,
            key=_integers(key),
            value=_integers(pc.fill_null(value, NIL)),
            start=start,
            elements=elements,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def broken(self) -> tuple[int, int, str] | None:
        """Return the first row that breaks a rule by itself: its invocation, its number and what is wrong."""
        c = self.columns
        owner = np.repeat(np.arange(len(self)), np.diff(c.first))
        ok = c.outcome == OK
        rules: list[tuple[NDArray[np.bool_], NDArray[np.int64] | None, Callable[[int], str]]] = [
            (self.numbers < 0, None, lambda i: "its number is negative"),
            ((c.outcome < OK) | (c.outcome > INFO), None, lambda i: f"outcome is {c.outcome[i]}, not 0, 1 or 2"),
            (
                (c.invoked < 0) | (c.invoked > TIME_MAX),
                None,
                lambda i: f"invoked is {c.invoked[i]}, not from 0 to {TIME_MAX}",
            ),
            (
                ok & (c.completed <= c.invoked),
                None,
                lambda i: f"completed at {c.completed[i]}, not after it was invoked",
            ),
            (ok & (c.completed > TIME_MAX), None, lambda i: f"completed is {c.completed[i]}, above {TIME_MAX}"),
        ]
        rules += [(mask, owner, tell) for mask, tell in self._micro_rules(ok[owner])]
        violations: list[tuple[int, int, int, str]] = []
        for order, (mask, owners, tell) in enumerate(rules):
            places = np.flatnonzero(mask)
            if len(places):
                rows = places if owners is None else owners[places]
                at = int(np.lexsort((self.numbers[rows], c.invoked[rows]))[0])
                row, place = int(rows[at]), int(places[at])
                why = tell(place) if owners is None else f"micro-operation {place - int(c.first[row])}: {tell(place)}"
                violations.append((int(c.invoked[row]), int(self.numbers[row]), order, why))
        if not violations:
            return None
        invoked, number, _, why = min(violations)
        return invoked, number, why

    def _micro_rules(self, ok: Mask) -> list[tuple[Mask, Callable[[int], str]]]:
        """Which micro-operations break a rule, and what is said of one by its place; `ok`: of an ok transaction."""
        kind, value, listed = self.columns.kind, self.columns.value, self.listed
        read, write = (kind == READ) & ok, kind == WRITE
        rules: list[tuple[Mask, Callable[[int], str]]] = [
            (
                (kind < WRITE) | (kind > READ_UNKNOWN),
                lambda m: f"f is {kind[m]}, not 0 (write, append), 1 (read) or 2 (read, not answered)",
            ),
            (write & (value == NIL), lambda m: "it writes null; only a read may return that"),
            (~write & listed & (kind != READ), lambda m: "a read that was not answered has a list"),
        ]
        if self.lists:
            rules.append((read & ~listed, lambda m: "a read has no list; one that saw nothing has []"))
            rules.append((write & listed, lambda m: "an append has a list; what it appends is its value"))
        else:
            rules.append((self.named & (value == NIL), lambda m: f"value is {NIL}; nothing is null"))
        return rules

    def open_twice(self) -> tuple[int, int, int] | None:
        """Return a process, its transaction that was invoked too early, and the one that was not completed then."""
        c = self.columns
        order = np.lexsort((np.arange(len(self)), c.process))
        previous: dict[int, int] = {}
        violations: list[tuple[int, int, int]] = []
        for t in order.tolist():
            process = int(c.process[t])
            before = previous.get(process)
            if before is not None and c.completed[before] > c.invoked[t]:
                violations.append((t, process, before))
            if c.outcome[t] == OK:
                previous[process] = t
        if not violations:
            return None
        t, process, before = min(violations)
        return process, int(self.numbers[t]), int(self.numbers[before])

    def numbered(self) -> TransactionColumns:
        """The columns with keys numbered, as the checkers take them."""
        c = self.columns
        keys, places = np.unique(c.key, return_inverse=True)
        return TransactionColumns(
            process=c.process,
            outcome=c.outcome,
            invoked=c.invoked,
            completed=np.where(c.outcome == OK, c.completed, NEVER),
            first=c.first,
            kind=c.kind,
            key=np.ascontiguousarray(places.reshape(-1), dtype=np.int64),
            value=c.value,
            start=c.start,
            elements=c.elements,
            keys=keys.tolist(),
        )


def _one(table: Any) -> Any:
    """A batch, or a table as one."""
    if isinstance(table, pa.RecordBatch):
        return table
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _integers(column: Any) -> Column:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _no_null(column: Any, what: str) -> None:
    if column.null_count:
        raise MalformedHistory(f"{what} is null in {column.null_count} rows", hint=_HINT)


def _malformed(source: str, transaction: int, why: str) -> MalformedHistory:
    return MalformedHistory(f"{source}: transaction {transaction}: {why}", hint=_HINT)
