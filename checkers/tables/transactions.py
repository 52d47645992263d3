"""A table of transactions: for histories too large to be events in memory, on one machine or through Spark.

A row is one transaction with the list of its micro-operations (`schema`; docs/reference/transactions-table.md says what
each column means). Whether the micro-operations have the field `list` decides what is judged: lists to which
transactions append, or registers. Here are the columns, their rules, and what is said of a verdict;
`checkers.tables.transactions_file` judges a table on one machine, `warehouse.by_spark.transactions` through Spark.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.checkers.findings.finding import Conclusion
from fencepost.checkers.transactions.columns import INFO, NEVER, NIL, OK, READ, READ_UNKNOWN, WRITE, TransactionColumns
from fencepost.checkers.transactions.history import EXPOSURE_OF, most_telling
from fencepost.checkers.transactions.words import TransactionFinding
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.verdict import Edge, Facts, Rule, Verdict, Witness
from fencepost.harness.verdict.figures import TransactionFigures
from fencepost.harness.verdict.tables import LIST_APPEND, RW_REGISTER

#: Times are doubled where transactions are ordered.
TIME_MAX: Final = (1 << 62) - 1
_HINT: Final = "docs/reference/transactions-table.md says what each column means"

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


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


class Rows:
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
        of_micro = micro_rules(c.kind, c.value, ok[owner], named=self.named, listed=self.listed, lists=self.lists)
        rules += [(mask, owner, tell) for mask, tell in of_micro]
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

    def written_twice(self) -> tuple[int, int, int, int] | None:
        """Return the least key and value that are written twice, and the numbers of the two transactions."""
        c = self.columns
        return written_twice(c.kind, c.key, c.value, np.repeat(self.numbers, np.diff(c.first)))

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


def written_twice(kind: Column, key: Column, value: Column, whose: Column) -> tuple[int, int, int, int] | None:
    """The least key and value that micro-operations write twice, and whose the first two are."""
    writes = np.flatnonzero(kind == WRITE)
    order = writes[np.lexsort((writes, value[writes], key[writes]))]
    same = (key[order][1:] == key[order][:-1]) & (value[order][1:] == value[order][:-1])
    if not same.any():
        return None
    first, second = order[int(np.argmax(same)) :][:2].tolist()
    return int(key[first]), int(value[first]), int(whose[first]), int(whose[second])


def micro_rules(
    kind: Column, value: Column, ok: Mask, *, named: Mask, listed: Mask, lists: bool
) -> list[tuple[Mask, Callable[[int], str]]]:
    """Which micro-operations break a rule, and what is said of one by its place in the columns.

    `ok`: of an ok transaction. `named`, `listed`: it has a value, a list; `value` is `NIL` where it has none.
    """
    read, write = (kind == READ) & ok, kind == WRITE
    rules: list[tuple[Mask, Callable[[int], str]]] = [
        (
            (kind < WRITE) | (kind > READ_UNKNOWN),
            lambda m: f"f is {kind[m]}, not 0 (write, append), 1 (read) or 2 (read, not answered)",
        ),
        (write & (value == NIL), lambda m: "it writes null; only a read may return that"),
        (~write & listed & (kind != READ), lambda m: "a read that was not answered has a list"),
    ]
    if lists:
        rules.append((read & ~listed, lambda m: "a read has no list; one that saw nothing has []"))
        rules.append((write & listed, lambda m: "an append has a list; what it appends is its value"))
    else:
        rules.append((named & (value == NIL), lambda m: f"value is {NIL}; nothing is null"))
    return rules


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


def null_in(source: str, what: str, count: int) -> MalformedHistory:
    """Something that may not be null."""
    return MalformedHistory(f"{source}: {what} is null in {count} rows", hint=_HINT)


def malformed(source: str, transaction: int, why: str) -> MalformedHistory:
    """A row that cannot be judged."""
    return MalformedHistory(f"{source}: transaction {transaction}: {why}", hint=_HINT)


def same_number(source: str, transaction: int, rows: int) -> MalformedHistory:
    """A number that several rows have."""
    return malformed(source, transaction, f"{rows} rows have this number; each transaction is one row")


def two_open(source: str, process: int, transaction: int, before: int) -> MalformedHistory:
    """A process with two open transactions."""
    return malformed(source, transaction, f"process {process} invoked it before {before} was completed")


def two_writes(source: str, key: int, value: int, first: int, second: int) -> MalformedHistory:
    """A value that is written to a key twice."""
    return malformed(
        source, second, f"it writes {value} to key {key}, as {first} does; a value may be written to a key once only"
    )


def arrow_table(columns: TransactionColumns, *, lists: bool) -> Any:
    """The table of these columns, rows numbered as they stand.

    Names of keys and of values are dropped: their numbers stand for them.
    """
    c = columns
    write = c.kind == WRITE
    named = write if lists else write | ((c.kind == READ) & (c.value != NIL))
    fields = [
        pa.array(c.kind, pa.int8()),
        pa.array(c.key, pa.int64()),
        pa.array(c.value, pa.int64(), mask=~named),
    ]
    names = ["f", "key", "value"]
    if lists:
        listed = (c.kind == READ) & np.repeat(c.outcome == OK, np.diff(c.first))
        lengths = np.diff(c.start)
        elements = c.elements[c.start[0] : c.start[-1]][np.repeat(listed, lengths)]
        ends = np.cumsum(np.where(listed, lengths, 0))
        # The offset of a list that is not there is null; the one before it ends at the next offset that is there.
        offsets = pa.array(np.append(0, ends), pa.int32(), mask=np.append(~listed, False))
        fields.append(pa.ListArray.from_arrays(offsets, pa.array(elements, pa.int64())))
        names.append("list")
    ops = pa.ListArray.from_arrays(pa.array(c.first, pa.int32()), pa.StructArray.from_arrays(fields, names))
    given = {
        "transaction": np.arange(len(c)),
        "process": c.process,
        "outcome": c.outcome,
        "invoked": c.invoked,
        "completed": np.where(c.outcome == OK, c.completed, NEVER),
    }
    kinds = schema(lists=lists)
    columns_ = [pa.array(given[name], kinds.field(name).type) for name in given]
    return pa.Table.from_arrays([*columns_, ops], schema=kinds)


def named(text: str, numbers: Column) -> str:
    """A sentence in which transactions are named by their numbers in the table, not by rows that were judged.

    Keys and values of a table are integers, so T and digits are nothing else.
    """
    return re.sub(r"\bT(\d+)\b", lambda match: f"T{numbers[int(match[1])]}", text)


def _numbered(edge: Edge, numbers: Column) -> Edge:
    """The same of an edge; versions keep their names."""
    source, target = (end if isinstance(end, str) else int(numbers[end]) for end in (edge.source, edge.target))
    shown_by = tuple(int(numbers[t]) for t in edge.shown_by)
    return msgspec.structs.replace(
        edge, source=source, target=target, shown_by=shown_by, text=named(edge.text, numbers)
    )


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a table shows about one model; `reads` could have contradicted it, and `findings` name rows of `rows`."""

    conclusion: Conclusion
    reads: int
    rules: tuple[Rule, ...]
    anomalies: dict[str, int]
    findings: Sequence[TransactionFinding]
    rows: Rows | None
    figures: TransactionFigures
    allowed: tuple[str, ...] = ()


def verdict(facts: Facts, model: str, judgement: Judgement) -> Verdict:
    """The verdict of the checker `model` on the consistency model that the plan requires first."""
    required, rows = facts.required[0], judgement.rows
    shown = most_telling(judgement.findings, required, lists=model == LIST_APPEND)
    return Verdict(
        checker=model,
        guarantee=required,
        validity=judgement.conclusion.validity,
        reason=judgement.conclusion.reason,
        cause=judgement.conclusion.cause,
        exposure=judgement.reads,
        exposure_of=EXPOSURE_OF,
        rules=judgement.rules,
        anomalies=judgement.anomalies,
        witnesses=tuple(_witness(finding, rows) for finding in shown) if rows is not None else (),
        figures=judgement.figures,
        allowed=judgement.allowed,
    )


def _witness(finding: TransactionFinding, rows: Rows) -> Witness:
    c = rows.columns
    chosen = list(finding.transactions)
    begins = [int(c.invoked[t]) for t in chosen]
    ends = [int(c.completed[t]) for t in chosen if c.outcome[t] == OK]
    return Witness(
        anomaly=finding.anomaly,
        events=tuple(sorted({*begins, *ends})),
        steps=tuple(named(step, rows.numbers) for step in finding.steps),
        edges=tuple(_numbered(edge, rows.numbers) for edge in finding.edges),
        from_ns=min(begins),
        to_ns=max(ends, default=max(begins)),
        transactions=tuple(rows.numbers[chosen].tolist()),
    )
