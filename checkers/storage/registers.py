"""Judge registers for linearizability: each operation seems to happen at one instant between invocation and completion.

Operations on different keys cannot refute each other (linearizability is local: Herlihy & Wing, 1990), so each key is
one register and is judged alone, by the native search. `info` operations may take effect at any later time or never;
`fail` operations constrain nothing, and a read of a value that only a failed write made is a violation. When the
budget is spent on a key the answer for that key is unknown, never valid.
"""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.derived.evidence import row
from fencepost.checkers.derived.positions import exposed_places
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.storage.register_anomalies import (
    CAS,
    CAS_REGISTER,
    READ,
    WRITE,
    Columns,
    RefutedKey,
    encode,
    explain,
)
from fencepost.checkers.violations.finding import ORDERED_MAX, Doubt, Finding, stopped
from fencepost.checkers.violations.impossible import judges_answers, same_again, unreadable
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Cause, Facts, SearchBudget, Verdict, VerdictProof
from fencepost.harness.verdict.figures import Traced, tallies, tally

GUARANTEE: Final = "linearizable"
EXPOSURE_OF: Final = "ok reads and cas with another operation on their key before or behind them"
#: As `register_anomalies` names them: what an exposed read could have shown, what a cas, and what any of the two.
_OF_READS, _OF_SWAPS, _OF_ANY = (
    [
        Rule(guarantee=GUARANTEE, anomaly=name, tested=EXPOSURE_OF, lacks=f"no {what} could have been caught out")
        for name in names
    ]
    for what, names in (
        ("read", ("stale-read", "lost-write", "phantom-read")),
        ("compare-and-set", ("cas-stale-read", "cas-lost-update", "cas-phantom-read")),
        ("answer", ("non-linearizable",)),
    )
)


def _read(op: Operation) -> None:
    if op.f in ("write", "cas"):
        same_again(op)


IMPOSSIBLE: Final = unreadable(_read)


@judges_answers(IMPOSSIBLE)
def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all reads, writes and compare-and-sets of a history, key by key.

    Args:
        history: each key's n operations, of which at most c are concurrent.
        facts: the budget of the search and the plan's threshold of exposure.

    Returns:
        One verdict: `invalid` with a witness for each key that no order explains; else `unknown` where the budget was
        spent on a key or nothing was exposed; else `valid`, with an order for each key of a short history.

    Raises:
        MalformedHistory: a cas whose value is not [old, new].

    Cost: near-linear for values that were written once; exponential in c at worst.
    Source: Herlihy & Wing (1990) for locality; Wing & Gong (1993); Lowe (2017); Gibbons & Korach (1997).
    """
    return [_judged(encode(history.operations, CAS_REGISTER), history, facts)]


def _judged(columns: Columns, history: History, facts: Facts) -> Verdict:
    if not columns.operations:
        nothing = Doubt(Cause.NO_EXPOSURE, "no read, write or cas in this history")
        return verdict(facts, *sorted_out((), dict.fromkeys((*_OF_READS, *_OF_SWAPS, *_OF_ANY), 0)), doubt=nothing)
    started = time.monotonic()
    results = search(columns, facts.budget, orders=len(columns.operations) <= ORDERED_MAX)
    wall_ms = round((time.monotonic() - started) * 1000, 3)
    invalid = [result for result in results if result.verdict == "invalid"]
    unfinished = [result for result in results if result.verdict == "unknown"]
    subhistories = _subhistories(history, {columns.keys[result.key] for result in invalid})
    findings = [finding(result, columns, subhistories[columns.keys[result.key]]) for result in invalid]
    ended = _rows(columns)
    places = exposed(columns)
    first_of_key = ended[np.unique(columns.key, return_index=True)[1]].tolist()
    by_method = tallies((r.method, first) for r, first in zip(results, first_of_key, strict=True) if r.method)
    figures = {
        "keys": Traced(len(results), tuple(first_of_key)),
        "operations": tally(ended.tolist()),
        "info_operations": tally(ended[columns.returned < 0].tolist()),
        "unique_values": _unique(columns),
        "steps": sum(result.steps for result in results),
        "keys_by_method": dict(sorted(by_method.items())),
        "wall_ms": wall_ms,
        **{f"core_{name}": value for name, value in _core.build_info().items()},
    }
    chances = {
        **dict.fromkeys(_OF_READS, int(np.count_nonzero(columns.f[places] == READ))),
        **dict.fromkeys(_OF_SWAPS, int(np.count_nonzero(columns.f[places] == CAS))),
        **dict.fromkeys(_OF_ANY, len(places)),
    }
    return verdict(
        facts,
        *sorted_out(findings, chances),
        broken=refuted(len(invalid), len(unfinished), len(results)),
        doubt=not_finished([(result.stop, result.reason) for result in unfinished], len(results)),
        exposed=tuple(ended[places].tolist()),
        untested=f"no {EXPOSURE_OF}",
        proofs=tuple(
            order_of(result, columns.operations, columns.keys[result.key])
            for result in results
            if result.verdict == "valid" and len(columns.operations) <= ORDERED_MAX
        ),
        complete=True,
        figures=figures,
    )


def search(columns: Columns, budget: SearchBudget, *, orders: bool = False, threads: int = 0) -> list[_core.KeyResult]:
    """The native search over encoded operations; results stand in the order of `columns.keys`."""
    return _core.check_registers(
        columns.key,
        columns.f,
        columns.a,
        columns.b,
        columns.invoked,
        columns.returned,
        steps=budget.steps,
        memory_bytes=budget.memory_bytes,
        wall_s=budget.wall_s,
        threads=threads,
        orders=orders,
    )


def exposed(columns: Columns) -> NDArray[np.int64]:
    """Which of the operations, by their places, could have been caught out: see `EXPOSURE_OF`."""
    flags = exposed_places(
        key=columns.key,
        changes=columns.f != READ,
        tells=columns.f != WRITE,
        invoked=columns.invoked,
        returned=columns.returned,
    )
    return np.flatnonzero(flags)


def _rows(columns: Columns) -> NDArray[np.int64]:
    """The row of each operation, as `checkers.derived.evidence.row` says; of most, the columns know it."""
    ended = columns.returned.copy()
    for place in np.flatnonzero(columns.returned < 0).tolist():
        ended[place] = row(columns.operations[place])
    return ended


def refuted(invalid: int, unfinished: int, of: int) -> str:
    """How many keys no order explains; empty: none."""
    more = f"; {unfinished} more were not finished" if unfinished else ""
    return f"no order explains {invalid} of {of} keys{more}" if invalid else ""


def not_finished(ends: Sequence[tuple[str | None, str]], of: int) -> Doubt | None:
    """Why nothing can be said of the keys that were not finished; `ends`: what ended each search, in words too."""
    why = f"{of - len(ends)} of {of} keys checked, none invalid; {', '.join(sorted({reason for _, reason in ends}))}"
    return stopped([stop for stop, _ in ends], why)


def _subhistories(history: History, keys: set[str | None]) -> dict[str | None, list[Operation]]:
    """All register operations of these keys, those that failed too."""
    subhistories: dict[str | None, list[Operation]] = {key: [] for key in keys}
    for op in history.operations if keys else ():
        if op.key in keys and op.f in CAS_REGISTER.functions:
            subhistories[op.key].append(op)
    return subhistories


def _unique(columns: Columns) -> bool:
    """Whether no two writes of one key, of whatever outcome but failure, made the same value."""
    made = np.where(columns.f == CAS, columns.b, columns.a)
    writes = columns.f != READ
    pairs = columns.key[writes] * len(columns.values) + made[writes]
    return len(np.unique(pairs)) == len(pairs)


def finding(result: _core.KeyResult, columns: Columns, subhistory: Sequence[Operation]) -> Finding:
    """What the search says of an invalid key, in words; `subhistory` is all of its operations, failed ones too."""
    assert result.failed is not None
    failed = columns.operations[result.failed]
    minimal = result.minimal or result.proof
    proof = None if minimal is None else proof_of(minimal, columns.operations, failed.key)
    return explain(
        RefutedKey(
            failed=failed,
            subhistory=subhistory,
            explained=len(result.order),
            open=[columns.operations[row] for row in result.open if row != result.failed],
            states=[columns.values[state] for state in result.states],
            must=[] if minimal is None else [columns.operations[row] for row in minimal.must],
            may=[] if minimal is None else [columns.operations[row] for row in minimal.may],
            since=None if minimal is None else minimal.since,
        ),
        proof,
    )


def proof_of(native: _core.Proof, operations: Sequence[Operation], key: str | None) -> VerdictProof:
    """A proof of the native core as a verdict keeps it; `operations` are those that its rows number."""

    def named(rows: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(operations[row].invoke_index for row in rows))

    return VerdictProof(
        kind=native.kind,
        key=key,
        rows=named(native.must),
        may=named(native.may),
        since=native.since,
        until=native.until,
        shown=tuple((operations[row].invoke_index, operations[by].invoke_index) for row, by in native.shown),
    )


def order_of(result: _core.KeyResult, operations: Sequence[Operation], key: str | None) -> VerdictProof:
    """The order that the native core found for a key, as a verdict keeps it."""
    return VerdictProof(kind="order", key=key, rows=tuple(operations[row].invoke_index for row in result.order))
