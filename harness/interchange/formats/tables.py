"""Tables of operations or of transactions in Parquet: rows of integers, as the histories that they tell.

A row is one operation, or one transaction with the list of its micro-operations (`COLUMNS`, `transaction_columns`;
docs/reference/operations-table.md and transactions-table.md say what each column means). Rows may stand in any order,
in one file or in the part files of a folder. Of several wrong rows a message names the first: by key, or by time.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import Outcome
from fencepost.harness.interchange.formats.calls import Call, CallEvents
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory, InFile, json_text

OPERATIONS: Final = "operations"
TRANSACTIONS: Final = "transactions"
#: Of a table of operations.
COLUMNS: Final = pa.schema(
    {
        "key": pa.int64(),
        "f": pa.int8(),
        "a": pa.int64(),
        "b": pa.int64(),
        "process": pa.int32(),
        "invoked": pa.int64(),
        "returned": pa.int64(),
    }
)
#: What `returned` is for an operation of unknown outcome.
UNKNOWN: Final = -1
_ORDER: Final = ("key", "invoked", "process", "returned", "f", "a", "b")
_FUNCTIONS: Final = ("read", "write", "cas")
_READ, _WRITE, _CAS = range(3)
_VALUES: Final = 1 << 32
_NEVER: Final = np.iinfo(np.int64).max
#: Of a transaction; its moments are compared with those of others.
TIME_MAX: Final = (1 << 62) - 1
_OUTCOMES: Final = (Outcome.OK, Outcome.FAIL, Outcome.INFO)
_APPEND, _SEEN, _UNANSWERED = range(3)
_HINTS: Final = {
    form: f"docs/reference/{form}-table.md says what each column means" for form in (OPERATIONS, TRANSACTIONS)
}
_T = TypeVar("_T")


class BadRow(MalformedHistory):
    """A row that means nothing; `place` is smaller for rows that come first."""

    def __init__(self, form: str, place: tuple[int, ...], why: str) -> None:
        super().__init__(why, hint=_HINTS[form])
        self.place: Final = place


def read_table(
    path: Path, *, form: str | None = None, model: Any = None, keys: Sequence[int] | None = None
) -> Imported:
    """Read a table, or the rows of some keys of a table of operations; raises UsageError."""
    source = str(path)
    files = _read(source, lambda: ds.dataset(path, format="parquet"))
    own = TRANSACTIONS if "ops" in files.schema.names else OPERATIONS
    if form not in (None, own):
        raise UsageError(f"{path}: it is a table of {own}, by its columns", hint=_HINTS[own])
    chosen = None if keys is None else ds.field("key").isin(list(keys))
    columns = _columns_of(own, files.schema)
    there = [name for name in columns.names if name in files.schema.names]
    table = _read(source, lambda: checked(own, files.to_table(columns=there, filter=chosen), columns))
    try:
        return (imported_transactions if own == TRANSACTIONS else imported_operations)(table, source, model)
    except BadRow as error:
        raise MalformedHistory(f"{source}: {error.message}", hint=error.hint) from None


def _read(source: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        first_line = next(iter(str(error).splitlines()), "")
        hint = "write it again; a folder holds the whole part files of one table and nothing else"
        raise MalformedHistory(f"{source}: not a whole Parquet file: {first_line}", hint=hint) from None
    except MalformedHistory as error:
        raise MalformedHistory(f"{source}: {error.message}", hint=error.hint) from None


def _columns_of(form: str, schema: Any) -> Any:
    if form == OPERATIONS:
        return COLUMNS
    ops = schema.field("ops").type
    micro = ops.value_type if pa.types.is_list(ops) else None
    return transaction_columns(
        lists=micro is not None and pa.types.is_struct(micro) and micro.get_field_index("list") >= 0
    )


def transaction_columns(*, lists: bool) -> Any:
    """Return the columns of a table of transactions: on lists, or on registers."""
    fields = [("f", pa.int8()), ("key", pa.int64()), ("value", pa.int64())]
    fields += [("list", pa.list_(pa.int64()))] if lists else []
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


def checked(form: str, table: Any, columns: Any = COLUMNS) -> Any:
    """Return the table with these columns alone; raise MalformedHistory where one is missing, or of another type."""
    lacking = [name for name in columns.names if name not in table.column_names]
    if lacking:
        expected = ", ".join(f"{field.name} {field.type}" for field in columns)
        raise MalformedHistory(
            f"column {lacking[0]!r} is missing; a table of {form} has {expected}; "
            f"this file has {', '.join(sorted(table.column_names)) or 'none'}",
            hint=_HINTS[form],
        )
    for name in columns.names:
        if nulls := table.column(name).null_count:
            raise MalformedHistory(f"column {name!r} is null in {nulls} rows", hint=_HINTS[form])
    try:
        return table.select(columns.names).cast(columns)
    except pa.ArrowException as error:
        raise MalformedHistory(f"a column is of another type: {error}", hint=_HINTS[form]) from None


def _imported(
    form: str, calls: Sequence[Call], events: CallEvents, model: str, source: str, in_file: InFile
) -> Imported:
    family = choose(model, {call.f for call in calls}, lambda _: (), source)
    history = ImportedHistory(events, family, source=source, in_file=in_file)
    return Imported(history=history, form=form, keyed=form == OPERATIONS)


# --- operations


def imported_operations(table: Any, source: str, model: str | None = None) -> Imported:
    """Return the history of a table of registers with `COLUMNS`; raises BadRow."""
    if model not in (None, "register", "cas-register"):
        raise UsageError(
            f"{source}: a table of operations is of the model cas-register, not {model}", hint=_HINTS[OPERATIONS]
        )
    columns = {name: np.asarray(table.column(name)).astype(np.int64) for name in COLUMNS.names}
    order = np.lexsort([columns[name] for name in reversed(_ORDER)])
    rows = [columns[name][order] for name in COLUMNS.names]
    _refuse_bad_operation(*rows)
    keys, numbers = np.unique(rows[0], return_inverse=True)
    names = [f"key {key}" for key in keys.tolist()]
    calls = [
        _operation(names[key], *row)
        for key, *row in zip(numbers.reshape(-1).tolist(), *(column.tolist() for column in rows[1:]), strict=True)
    ]
    events = CallEvents(calls)

    def place(event: int) -> str:
        call = calls[events.call_of(event)]
        return f"{call.key}, process {call.client}, invoked at {call.started}"

    in_file = InFile(place, lambda event: json_text(calls[events.call_of(event)].result))
    return _imported(OPERATIONS, calls, events, model or "cas-register", source, in_file)


def _operation(key: str, f: int, a: int, b: int, process: int, invoked: int, returned: int) -> Call:
    value = None if f == _READ else [a or None, b or None] if f == _CAS else a or None
    return Call(
        client=str(process),
        f=_FUNCTIONS[f],
        key=key,
        value=value,
        result=a or None if f == _READ else value,
        started=invoked,
        ended=None if returned == UNKNOWN else returned,
        type=Outcome.INFO if returned == UNKNOWN else Outcome.OK,
    )


def _refuse_bad_operation(key: Any, f: Any, a: Any, b: Any, process: Any, invoked: Any, returned: Any) -> None:
    """Raise BadRow for the first row that means nothing."""
    cas, numbers = f == _CAS, "expected a number from 0 to 2^32 - 1"
    rules: list[tuple[Any, Callable[[int], str]]] = [
        ((f < _READ) | (f > _CAS), lambda i: f"f is {f[i]}; expected 0 read, 1 write or 2 cas"),
        ((a < 0) | (a >= _VALUES), lambda i: f"a is {a[i]}; {numbers}"),
        (cas & ((b < 0) | (b >= _VALUES)), lambda i: f"b is {b[i]}; {numbers}"),
        (~cas & (b != 0), lambda i: f"b is {b[i]}; expected 0, since only a cas has a second value"),
        (invoked < 0, lambda i: f"invoked is {invoked[i]}; expected 0 or more"),
        (returned < UNKNOWN, lambda i: f"returned is {returned[i]}; expected {UNKNOWN} where it is unknown"),
        (
            (returned >= 0) & (returned < invoked),
            lambda i: f"returned at {returned[i]}, before it was invoked at {invoked[i]}",
        ),
        (returned == _NEVER, lambda i: f"returned at {returned[i]}; expected less, or {UNKNOWN}"),
    ]
    bad = np.flatnonzero(np.logical_or.reduce([mask for mask, _ in rules]))
    if len(bad):
        row = int(bad[0])
        place = int(key[row]), int(invoked[row]), int(process[row])
        why = next(tell(row) for mask, tell in rules if mask[row])
        raise BadRow(OPERATIONS, place, f"key {place[0]}, process {place[2]}, invoked at {place[1]}: {why}")


# --- transactions


def imported_transactions(table: Any, source: str, model: str | None = None) -> Imported:
    """Return the history of a table of transactions with the columns that `transaction_columns` says; raises BadRow."""
    lists = table.schema.field("ops").type.value_type.num_fields > 3
    own = "list-append" if lists else "rw-register"
    if model not in (None, own):
        has = "a field" if lists else "no field"
        raise UsageError(
            f"{source}: its micro-operations have {has} `list`, so it is {own}, not {model}", hint=_HINTS[TRANSACTIONS]
        )
    numbers: list[int] = []
    calls: list[Call] = []
    for batch in table.sort_by([("invoked", "ascending"), ("transaction", "ascending")]).to_batches():
        for row in batch.to_pylist():
            if wrong := _wrong_transaction(row, lists=lists):
                raise _bad(row["transaction"], wrong)
            numbers.append(row["transaction"])
            calls.append(_transaction(row, lists=lists))
    number, times = Counter(numbers).most_common(1)[0] if numbers else (0, 1)
    if times > 1:
        raise _bad(number, f"{times} rows have this number; each transaction is one row")

    def refuse(i: int, other: int) -> MalformedHistory:
        why = f"process {calls[i].client} invoked it before {numbers[other]} was completed"
        return _bad(numbers[i], why)

    events = CallEvents(calls, refuse)
    in_file = InFile(
        lambda event: f"transaction {numbers[events.call_of(event)]}",
        lambda event: json_text(calls[events.call_of(event)].result),
    )
    return _imported(TRANSACTIONS, calls, events, own, source, in_file)


def _bad(number: int, why: str) -> BadRow:
    return BadRow(TRANSACTIONS, (), f"transaction {number}: {why}")


def _transaction(row: dict[str, Any], *, lists: bool) -> Call:
    outcome = _OUTCOMES[row["outcome"]]
    answered = outcome is Outcome.OK
    ended = row["completed"] if answered else row["invoked"] if outcome is Outcome.FAIL else None
    request = [
        [":append" if lists else ":w", micro["key"], micro["value"]]
        if micro["f"] == _APPEND
        else [":r", micro["key"], None]
        for micro in row["ops"]
    ]
    seen = "list" if lists else "value"
    answer = [
        [*ask[:2], micro[seen]] if micro["f"] == _SEEN else ask for ask, micro in zip(request, row["ops"], strict=True)
    ]
    return Call(
        client=str(row["process"]),
        f="txn",
        key=None,
        value=request,
        result=answer if answered else None,
        started=row["invoked"],
        ended=ended,
        type=outcome,
    )


def _wrong_transaction(row: dict[str, Any], *, lists: bool) -> str:
    """Return what breaks a rule by itself; empty if nothing does."""
    invoked, completed, outcome = row["invoked"], row["completed"], row["outcome"]
    ok = outcome == _OUTCOMES.index(Outcome.OK)
    if row["transaction"] < 0:
        return "its number is negative"
    if outcome not in range(len(_OUTCOMES)):
        return f"outcome is {outcome}, not 0, 1 or 2"
    if not 0 <= invoked <= TIME_MAX:
        return f"invoked is {invoked}, not from 0 to {TIME_MAX}"
    if ok and completed <= invoked:
        return f"completed at {completed}, not after it was invoked"
    if ok and completed > TIME_MAX:
        return f"completed is {completed}, above {TIME_MAX}"
    micros = ((place, _wrong_micro(micro, ok=ok, lists=lists)) for place, micro in enumerate(row["ops"]))
    return next((f"micro-operation {place}: {wrong}" for place, wrong in micros if wrong), "")


def _wrong_micro(micro: dict[str, Any] | None, *, ok: bool, lists: bool) -> str:
    """Return what is wrong with a micro-operation, of an ok transaction or not; empty if nothing is."""
    if micro is None or micro["f"] is None or micro["key"] is None:
        return "it, its f or its key is null"
    f, value, seen = micro["f"], micro["value"], micro.get("list")
    if f not in (_APPEND, _SEEN, _UNANSWERED):
        return f"f is {f}, not 0 (write, append), 1 (read) or 2 (read, not answered)"
    if f == _APPEND and value is None:
        return "it writes null; only a read may return that"
    if f == _APPEND and seen is not None:
        return "an append has a list; what it appends is its value"
    if f == _UNANSWERED and seen is not None:
        return "a read that was not answered has a list"
    if lists and ok and f == _SEEN and seen is None:
        return "a read has no list; one that saw nothing has []"
    if seen is not None and None in seen:
        return "an element of its list is null"
    return ""
