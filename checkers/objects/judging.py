"""From an object's operations to its verdict: what is plainly wrong, then the search, then the words for it.

A plain flaw (an element that nobody enqueued) refutes a key by itself, with a better explanation than the search has;
everything else the native search decides, within its budget. Keys are independent objects (linearizability is local:
Herlihy & Wing, 1990).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from checkers import _core
from checkers.evidence import row, rows, violations
from checkers.objects.calls import Calls, answered, is_ok
from checkers.register_anomalies import seconds
from harness.history import History
from harness.operation import Operation, Outcome, Value
from harness.verdict import Facts, Validity, Verdict, Witness

GUARANTEE: Final = "linearizable"
NON_LINEARIZABLE: Final = "non-linearizable"
_WITNESSES_MAX: Final = 5
_NAMED_MAX: Final = 6


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Why no order can explain an object: `operations` show it, the first of them stands for it."""

    anomaly: str
    operations: tuple[Operation, ...]
    steps: tuple[str, ...]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """What the search says of one object: `failed` passes in no order; `states` are in numbers, and maybe more."""

    failed: Operation
    operations: Sequence[Operation]
    explained: int
    open: Sequence[Operation]
    states: Sequence[Sequence[int]]
    more_states: bool
    names: Sequence[Value]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object.

    `encode` lays one key's operations out, `flaws` finds what is plainly wrong, `explain` names what the search
    refused and says why, `holds` says a state in words. An ok `tells` that was invoked after an ok `changes` of another
    process is an exposure.
    """

    name: str
    native: str
    changes: frozenset[str]
    tells: frozenset[str]
    encode: Callable[[Calls, Hashable, Sequence[Operation]], None]
    flaws: Callable[[Sequence[Operation]], list[Flaw]]
    explain: Callable[[Refused], tuple[str, tuple[str, ...]]]
    #: Whether one order that is found without a search, and was replayed, explains one key's operations.
    is_explained: Callable[[Sequence[Operation]], bool] = lambda operations: False
    holds: Callable[[Sequence[int], Sequence[Value]], str]

    @property
    def functions(self) -> frozenset[str]:
        return self.changes | self.tells

    @property
    def exposure_of(self) -> str:
        told, changed = (" or ".join(sorted(names)) for names in (self.tells, self.changes))
        return f"ok {told} invoked after another process's {changed} was acknowledged"


def judge(kind: Kind, history: History, facts: Facts, *, permits: int = 1) -> list[Verdict]:
    """One verdict on all operations of this kind, key by key."""
    groups: dict[str | None, list[Operation]] = {}
    for op in history.operations:
        if op.f in kind.functions:
            groups.setdefault(op.key, []).append(op)
    calls, flawed = Calls(), list[Flaw]()
    for key, operations in groups.items():
        flaws = kind.flaws(operations)
        flawed += flaws
        if not flaws and not kind.is_explained(operations):
            kind.encode(calls, (key,), operations)
    results = calls.judged(kind.native, facts.budget, permits=permits) if calls.operations else []
    refused = [result for result in results if result.verdict == "invalid"]
    unfinished = [result for result in results if result.verdict == "unknown"]
    found = [(flaw.anomaly, flaw.operations[0], witness_of(flaw)) for flaw in flawed]
    found += [_explained(kind, calls, result, groups) for result in refused]
    seen = [
        op
        for operations in groups.values()
        for op in exposed(operations, lambda op: op.f in kind.changes, lambda op: op.f in kind.tells)
    ]
    counted = [op for operations in groups.values() for op in operations]
    validity, reason = _conclude(kind, found, unfinished, seen, facts, len(counted))
    return [
        Verdict(
            checker=kind.name,
            guarantee=GUARANTEE,
            validity=validity,
            reason=reason,
            exposure=len(seen),
            exposure_of=kind.exposure_of,
            anomalies=dict(Counter(anomaly for anomaly, _, _ in found)),
            witnesses=tuple(witness for _, _, witness in found[:_WITNESSES_MAX]),
            figures={
                "keys": len(groups),
                "operations": len(counted),
                "info_operations": sum(op.type is Outcome.INFO for op in counted),
                "objects_searched": len(results),
                "steps": sum(result.steps for result in results),
            },
            evidence={
                "exposure": rows(seen),
                **violations((anomaly, op) for anomaly, op, _ in found),
                "keys": tuple(row(operations[0]) for operations in groups.values()),
                "operations": rows(counted),
                "info_operations": rows(op for op in counted if op.type is Outcome.INFO),
            },
        )
    ]


def _conclude(
    kind: Kind,
    found: Sequence[object],
    unfinished: Sequence[_core.ObjectResult],
    seen: Sequence[Operation],
    facts: Facts,
    operations: int,
) -> tuple[Validity, str]:
    if found:
        more = f"; {len(unfinished)} objects more were not finished" if unfinished else ""
        return Validity.INVALID, f"{len(found)} violations{more}"
    if not operations:
        return Validity.UNKNOWN, f"no {' or '.join(sorted(kind.functions))} in this history"
    if unfinished:
        why = ", ".join(sorted({result.reason for result in unfinished}))
        return Validity.UNKNOWN, f"{len(unfinished)} objects were not finished, none is invalid; {why}"
    if len(seen) < facts.thresholds.exposure_min:
        least = facts.thresholds.exposure_min
        return Validity.UNKNOWN, f"{len(seen)} {kind.exposure_of}; at least {least} are asked for"
    return Validity.VALID, ""


def exposed(
    operations: Sequence[Operation], changes: Callable[[Operation], bool], tells: Callable[[Operation], bool]
) -> list[Operation]:
    """The ok operations that tell something, invoked after a change by another process was acknowledged."""
    # The first acknowledged change, its process, and the first of another process.
    never = max((answered(op) for op in operations if is_ok(op)), default=0) + 1
    done, process, other = never, -1, never
    for op in sorted((op for op in operations if is_ok(op) and changes(op)), key=answered):
        if done == never:
            done, process = answered(op), op.process
        elif op.process != process:
            other = answered(op)
            break
    return [
        op
        for op in operations
        if is_ok(op) and tells(op) and (other if op.process == process else done) < op.invoke_index
    ]


def _explained(
    kind: Kind, calls: Calls, result: _core.ObjectResult, groups: dict[str | None, list[Operation]]
) -> tuple[str, Operation, Witness]:
    assert result.failed is not None
    failed = calls.operations[result.failed]
    refused = Refused(
        failed=failed,
        operations=groups[failed.key],
        explained=len(result.order),
        open=[op for i in result.open if (op := calls.operations[i]) is not failed],
        states=result.states,
        more_states=result.states_count > len(result.states),
        names=calls.numbers.named,
    )
    anomaly, why = kind.explain(refused)
    steps = (f"{describe(failed)} {times(failed)}.", *why, *_search_words(kind, refused))
    flaw = Flaw(anomaly=anomaly, operations=(failed, *refused.open[:8]), steps=steps)
    return anomaly, failed, witness_of(flaw)


def _search_words(kind: Kind, refused: Refused) -> list[str]:
    words = [
        f"Up to its answer {refused.explained} operations are explained by one order; in no order may it come next."
    ]
    if refused.states:
        held = list(dict.fromkeys(kind.holds(state, refused.names) for state in refused.states))
        more = "" if len(held) <= _NAMED_MAX and not refused.more_states else ", or others"
        words.append(f"There can be only {' or '.join(held[:_NAMED_MAX])}{more}.")
    if refused.open:
        names = "; ".join(describe(op) for op in refused.open[:_NAMED_MAX])
        more_open = len(refused.open) - _NAMED_MAX
        words.append(f"Open at that moment: {names}{f'; and {more_open} more' if more_open > 0 else ''}.")
    return words


def witness_of(flaw: Flaw) -> Witness:
    shown = flaw.operations
    events = {op.invoke_index for op in shown} | {op.complete_index for op in shown if op.complete_index is not None}
    ends = [op.completed_ns for op in shown if op.completed_ns is not None]
    return Witness(
        anomaly=flaw.anomaly,
        events=tuple(sorted(events)),
        steps=flaw.steps,
        from_ns=min(op.invoked_ns for op in shown),
        to_ns=max(ends, default=max(op.invoked_ns for op in shown)),
        key=shown[0].key,
        nodes=tuple(sorted({op.node for op in shown})),
    )


def describe(op: Operation) -> str:
    """Which operation, so that it can be found in the history."""
    what = "" if op.value is None else f" of {op.value!r:.80}"
    on = f" of {op.key}" if op.key is not None else ""
    return f"{op.f}{what}{on} by process {op.process} on {op.node} (event {op.invoke_index})"


def times(op: Operation) -> str:
    said = "" if op.result is None or op.result == op.value else f"returned {op.result!r:.200} "
    completed = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    return f"{said}(invoked at {seconds(op.invoked_ns)}, answered at {seconds(completed)})"


def no_flaws(operations: Sequence[Operation]) -> list[Flaw]:
    return []
