"""Registers judged from a table of operations in integer columns: for histories too large to be events in memory.

A row is one operation (`COLUMNS`, described in docs/reference/operations-table.md). Rows come sorted by key, in batches
that may cut a key in two: the key that is still open is carried over, and every call of the native search sees whole
keys. So memory is bounded by the batch and the largest key, whether the batches come from a file or from a partition of
Spark's.

What is found is added up: the keys that are valid by number, each other key by name. A key that no order explains is
read again by itself, searched again and explained; an answer that is not repeated then is a defect, and no verdict.

Size: one file, since an executor of Spark's imports it whole, for rows, search and tally alike.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.facts.positions import exposed_places
from fencepost.checkers.findings.finding import Doubt, conclude, contradicted, no_chance, too_few
from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.storage.register_anomalies import CAS, READ, WRITE, encode
from fencepost.checkers.storage.registers import CHECKER, EXPOSURE_OF, GUARANTEE, not_finished, refuted, rules_of
from fencepost.harness.base.errors import Contradiction, MalformedHistory
from fencepost.harness.history import Operation, Outcome, Value
from fencepost.harness.verdict import Budget, Cause, Facts, Stop, Verdict, Witness
from fencepost.harness.verdict.figures import OperationTableFigures

#: Name and type of every column; others may stand beside them and are not read.
COLUMNS: Final[dict[str, Any]] = {
    "key": pa.int64(),
    "f": pa.int8(),
    "a": pa.int64(),
    "b": pa.int64(),
    "process": pa.int32(),
    "invoked": pa.int64(),
    "returned": pa.int64(),
}

#: The order in which the rows of a key are judged; complete, so that equal times leave nothing to chance.
ORDER: Final = ("key", "invoked", "process", "returned", "f", "a", "b")

#: What `returned` is for an operation of unknown outcome.
UNKNOWN: Final = -1
#: Steps that the budget has for each operation, where that is more than the plan's: tables grow without bound.
STEPS_PER_OPERATION: Final = 100
#: Keys that no order explains: so many are read again and explained; of the rest their number is told.
EXPLAINED_MAX: Final = 100
_WITNESSES_MAX: Final = 5
#: Keys that ran out of steps are tried again with what others left, unless they are more than these.
_AGAIN_MAX: Final = 10_000
_VALUES: Final = 1 << 32
_NEVER: Final = np.iinfo(np.int64).max
_FUNCTIONS: Final = {READ: "read", WRITE: "write", CAS: "cas"}
_HINT: Final = "docs/reference/operations-table.md says what each column means"
_NODE: Final = "an unnamed node"

Column = NDArray[np.int64]


class Rows(NamedTuple):
    """Operations in columns, as `COLUMNS`."""

    key: Column
    f: Column
    a: Column
    b: Column
    process: Column
    invoked: Column
    returned: Column

    def at(self, places: Any) -> "Rows":
        return Rows(*(np.ascontiguousarray(column[places]) for column in self))


class Deal(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of one round over `operations`: each call gets the part of `steps` that is its operations' own."""

    steps: int
    operations: int
    memory_bytes: int
    wall_s: float


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One key that is not valid, or (`key` None) all those of a call that are.

    `verdict` is `valid`, `invalid`, `unknown` with the `stop` that ended the search, or `malformed`; `reason` says the
    last two in words. `failed_*` name the first operation that no order passes.
    """

    key: int | None
    verdict: str
    reason: str = ""
    stop: Stop | None = None
    keys: int = 1
    operations: int = 0
    info_operations: int = 0
    exposed_reads: int = 0
    exposed_swaps: int = 0
    steps: int = 0
    failed_process: int | None = None
    failed_invoked: int | None = None


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about a whole table; `others` are the keys that are not valid, by key."""

    keys: int
    operations: int
    info_operations: int
    exposed_reads: int
    exposed_swaps: int
    steps: int
    others: tuple[Found, ...]

    @property
    def exposure(self) -> int:
        return self.exposed_reads + self.exposed_swaps

    def of(self, verdict: str) -> list[Found]:
        return [one for one in self.others if one.verdict == verdict]


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


def rows_of(batch: Any) -> Rows:
    """An Arrow batch or table, of `COLUMNS` by name, as columns; raises MalformedHistory where one is null."""
    return Rows(*(column_of(batch, name) for name in COLUMNS))


def column_of(batch: Any, name: str) -> Column:
    """One column of an Arrow batch or table; raises MalformedHistory where it is null."""
    column = batch.column(name)
    if column.null_count:
        raise MalformedHistory(
            f"column {name!r} is null in {column.null_count} rows; `returned` is {UNKNOWN} where it is unknown",
            hint=_HINT,
        )
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def in_order(rows: Rows) -> Rows:
    """The rows in `ORDER`. Sorting is spared where they are; beyond the invocation it decides among few."""
    key, invoked = rows.key, rows.invoked
    if not np.all((key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & (invoked[:-1] <= invoked[1:]))):
        rows = rows.at(np.lexsort((invoked, key)))
    tied = (rows.key[:-1] == rows.key[1:]) & (rows.invoked[:-1] == rows.invoked[1:])
    if not tied.any():
        return rows
    places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    among = Rows(*(column[places] for column in rows))
    order = np.lexsort([getattr(among, name) for name in reversed(ORDER)])
    columns = []
    for column, own in zip(rows, among, strict=True):
        columns.append(column.copy())
        columns[-1][places] = own[order]
    return Rows(*columns)


def whole_keys(batches: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows, cut so that no key is in two parts; `batches` are sorted by key.

    Raises RuntimeError when they are not: the keys would be judged in pieces.
    """
    open_key: list[Rows] = []
    for rows in batches:
        if not len(rows.key):
            continue
        if np.any(rows.key[1:] < rows.key[:-1]) or (open_key and rows.key[0] < open_key[0].key[0]):
            raise RuntimeError("the operations do not come sorted by key")
        if open_key and rows.key[0] == open_key[0].key[0]:
            end = int(np.searchsorted(rows.key, rows.key[0], side="right"))
            open_key.append(_part(rows, 0, end))
            if end == len(rows.key):
                continue
            rows = _part(rows, end, len(rows.key))
        if open_key:
            yield _joined(open_key)
        last = int(np.searchsorted(rows.key, rows.key[-1], side="left"))
        if last:
            yield _part(rows, 0, last)
        open_key = [_part(rows, last, len(rows.key))]
    if open_key:
        yield _joined(open_key)


def judge(rows: Rows, deal: Deal, *, threads: int = 1) -> list[Found]:
    """Judge whole keys, sorted by key, in one call of the native search; a row that means nothing ends it."""
    wrong = _malformed(rows)
    if wrong is not None:
        return [wrong]
    # A read of unknown outcome constrains nothing, and makes no key of its own.
    kept = (rows.f != READ) | (rows.returned >= 0)
    if not kept.all():
        rows = rows.at(kept)
    n = len(rows.key)
    if not n:
        return []
    results = _core.check_registers(
        rows.key,
        rows.f,
        rows.a,
        rows.b,
        rows.invoked,
        np.maximum(rows.returned, UNKNOWN),
        steps=deal.steps * n // max(1, deal.operations),
        memory_bytes=deal.memory_bytes,
        wall_s=deal.wall_s,
        threads=threads,
    )
    others = [_result_of(result, rows) for result in results if result.verdict != "valid"]
    exposed = exposed_places(
        key=rows.key, changes=rows.f != READ, tells=rows.f != WRITE, invoked=rows.invoked, returned=rows.returned
    )
    valid = Found(
        key=None,
        verdict="valid",
        keys=len(results) - len(others),
        operations=n - sum(other.operations for other in others),
        info_operations=int((rows.returned < 0).sum()),
        exposed_reads=int(np.count_nonzero(exposed & (rows.f == READ))),
        exposed_swaps=int(np.count_nonzero(exposed & (rows.f == CAS))),
        steps=sum(result.steps for result in results) - sum(other.steps for other in others),
    )
    return [valid, *others]


def tally(results: Iterable[Found], source: str) -> Tally:
    """Add up what the calls found; raises MalformedHistory for the first row, by key, that means nothing."""
    everything = list(results)
    wrong = [one for one in everything if one.verdict == "malformed"]
    if wrong:
        first = min(wrong, key=lambda one: (one.key or 0, one.failed_invoked or 0, one.reason))
        raise MalformedHistory(f"{source}: {first.reason}", hint=_HINT)
    others = sorted((one for one in everything if one.key is not None), key=lambda one: one.key or 0)
    return Tally(
        keys=sum(one.keys for one in everything),
        operations=sum(one.operations for one in everything),
        info_operations=sum(one.info_operations for one in everything),
        exposed_reads=sum(one.exposed_reads for one in everything),
        exposed_swaps=sum(one.exposed_swaps for one in everything),
        steps=sum(one.steps for one in everything),
        others=tuple(others),
    )


def search(run: Callable[[Deal, list[int] | None], Tally], operations: int, budget: Budget) -> Tally:
    """Judge all keys in rounds: keys that run out of steps are tried again while what is left doubles their share.

    Args:
        run: judges these keys, or all, with a share of the budget.
        operations: how many the table has.
        budget: of the whole table.

    Returns:
        The sums, and the keys that are not valid; they depend on counts alone, not on timing.
    """
    steps = max(budget.steps, STEPS_PER_OPERATION * operations) if budget == Budget() else budget.steps
    deal = Deal(steps=steps, operations=operations, memory_bytes=budget.memory_bytes, wall_s=budget.wall_s)
    total = run(deal, None)
    left = steps - total.steps
    while True:
        again = {one.key: one for one in total.of("unknown") if one.stop is Stop.STEPS}
        waiting = sum(one.operations for one in again.values())
        if not 0 < len(again) <= _AGAIN_MAX or left * deal.operations < 2 * deal.steps * waiting:
            return total
        deal = msgspec.structs.replace(deal, steps=left, operations=waiting)
        renewed = run(deal, [key for key in again if key is not None])
        left -= renewed.steps
        others = [one for one in total.others if one.key not in again]
        total = msgspec.structs.replace(
            total,
            steps=total.steps + renewed.steps,
            others=tuple(sorted([*others, *renewed.others], key=lambda one: one.key or 0)),
        )


def verdict(
    total: Tally,
    explain: Callable[[list[int]], list[Witness]],
    facts: Facts,
    *,
    engine: str,
    **figures: Any,
) -> Verdict:
    """The verdict on a table; `explain(keys)` shows why no order explains these keys, in their order."""
    invalid, unfinished = total.of("invalid"), total.of("unknown")
    shown = [one.key for one in invalid[:EXPLAINED_MAX] if one.key is not None]
    witnesses, contradictions = _explained(shown, explain)
    anomalies = Counter(witness.anomaly for witness in witnesses)
    refuted_keys = len(invalid) - len(contradictions)
    if refuted_keys > len(witnesses):
        anomalies["non-linearizable"] += refuted_keys - len(witnesses)
    nothing = Doubt(Cause.NO_EXPOSURE, "no read, write or cas in this table")
    rules = rules_of(total.exposed_reads, total.exposed_swaps)
    validity, reason, cause = conclude(
        broken=refuted(refuted_keys, len(unfinished), total.keys),
        doubt=contradicted(contradictions)
        or (not_finished([(one.stop, one.reason) for one in unfinished], total.keys) if total.keys else nothing),
        untested=too_few(total.exposure, EXPOSURE_OF, facts) or no_chance(rules, facts),
    )
    return Verdict(
        checker=CHECKER,
        guarantee=GUARANTEE,
        validity=validity,
        reason=reason,
        cause=cause,
        exposure=total.exposure,
        exposure_of=EXPOSURE_OF,
        rules=rules,
        anomalies=dict(anomalies),
        witnesses=tuple(witnesses[:_WITNESSES_MAX]),
        figures=OperationTableFigures(
            keys=total.keys,
            operations=total.operations,
            info_operations=total.info_operations,
            steps=total.steps,
            engine=engine,
            others={**figures, **{f"core_{name}": value for name, value in _core.build_info().items()}},
        ),
    )


def _explained(keys: list[int], explain: Callable[[list[int]], list[Witness]]) -> tuple[list[Witness], list[str]]:
    """Why no order explains these keys, without those that are found valid when they are searched again; and those."""
    try:
        return explain(keys) if keys else [], []
    except Contradiction as error:
        if len(keys) == 1:
            return [], [error.message]
    parts = [_explained([key], explain) for key in keys]
    return [witness for witnesses, _ in parts for witness in witnesses], [why for _, one in parts for why in one]


def explain_rows(rows: Rows, budget: Budget) -> list[Witness]:
    """Why no order explains each of the keys of `rows`, in ascending order of key.

    Events and nodes are left out: a table has none.
    """
    return [msgspec.structs.replace(witness, events=(), nodes=()) for witness in explain(operations_of(rows), budget)]


def operations_of(rows: Rows) -> list[Operation]:
    """The rows as operations, in `ORDER`; their times stand for the numbers of their events."""
    rows = rows.at(np.lexsort([getattr(rows, name) for name in reversed(ORDER)]))
    return [_operation(fields) for fields in zip(*(column.tolist() for column in rows), strict=True)]


def explain(operations: Sequence[Operation], budget: Budget) -> list[Witness]:
    """Search keys that were found invalid again, by themselves; the witness of each, in the order of their first rows.

    Raises Contradiction when one is found valid.
    """
    columns = encode(operations)
    subhistories: dict[str | None, list[Operation]] = {key: [] for key in columns.keys}
    for op in operations:
        if op.key in subhistories:
            subhistories[op.key].append(op)
    steps = max(budget.steps, STEPS_PER_OPERATION * len(operations))
    witnesses = []
    for result in linearizable.search(columns, msgspec.structs.replace(budget, steps=steps)):
        key = columns.keys[result.key]
        if result.verdict == "valid":
            raise Contradiction(f"{key} was found invalid in the table, and valid when it was searched again by itself")
        own = subhistories[key]
        is_invalid = result.verdict == "invalid"
        witnesses.append(linearizable.finding(result, columns, own).witness() if is_invalid else _unshown(own))
    return witnesses


def _unshown(operations: Sequence[Operation]) -> Witness:
    """Of a key whose second search did not come to its end within the budget: it is invalid all the same."""
    return Witness(
        anomaly="non-linearizable",
        events=(),
        steps=(f"No order explains the {len(operations)} operations on {operations[0].key}.",),
        from_ns=min(op.invoked_ns for op in operations),
        to_ns=max(op.completed_ns or op.invoked_ns for op in operations),
        key=operations[0].key,
    )


def _part(rows: Rows, start: int, end: int) -> Rows:
    return Rows(*(column[start:end] for column in rows))


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _malformed(rows: Rows) -> Found | None:
    """The first row, by key and invocation, that means nothing."""
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
    broken = [(broken, tell) for broken, tell in rules if broken.any()]
    if not broken:
        return None
    places = np.flatnonzero(np.logical_or.reduce([mask for mask, _ in broken]))
    order = np.lexsort((rows.process[places], rows.invoked[places], rows.key[places]))
    place = int(places[order[0]])
    why = next(tell(place) for mask, tell in broken if mask[place])
    key, process, invoked = (int(column[place]) for column in (rows.key, rows.process, rows.invoked))
    return Found(
        key=key,
        verdict="malformed",
        reason=f"key {key}, process {process}, invoked at {invoked}: {why}",
        failed_process=process,
        failed_invoked=invoked,
    )


def _result_of(result: _core.KeyResult, rows: Rows) -> Found:
    failed = result.failed
    return Found(
        key=result.key,
        verdict=result.verdict,
        reason=result.reason,
        stop=None if result.stop is None else Stop(result.stop),
        operations=result.operations or int((rows.key == result.key).sum()),
        steps=result.steps,
        failed_process=None if failed is None else int(rows.process[failed]),
        failed_invoked=None if failed is None else int(rows.invoked[failed]),
    )


def _operation(fields: Sequence[int]) -> Operation:
    """One row as an operation; its events are numbered by its times, since a table has no others."""
    key, f, a, b, process, invoked, returned = fields
    known = returned >= 0
    value: Value = None if f == READ else [a or None, b or None] if f == CAS else a or None
    return Operation(
        invoke_index=invoked,
        complete_index=returned if known else None,
        process=process,
        f=_FUNCTIONS[f],
        node=_NODE,
        type=Outcome.OK if known else Outcome.INFO,
        invoked_ns=invoked,
        completed_ns=returned if known else None,
        ended_ns=returned if known else None,
        key=f"key {key}",
        value=value,
        result=(a or None) if f == READ and known else value,
    )
