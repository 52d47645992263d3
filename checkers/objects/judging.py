"""From an object's operations to its verdict: what is plainly wrong, then the search, then the words for it.

A plain flaw (an element that nobody enqueued) refutes a key by itself, with a better explanation than the search has;
everything else the native search decides, within its budget. Keys are independent objects (linearizability is local:
Herlihy & Wing, 1990).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec

from fencepost.checkers import _core
from fencepost.checkers.facts.evidence import row, rows, violations
from fencepost.checkers.objects.calls import Calls, answered, is_ok
from fencepost.checkers.objects.minimal import minimal_proof
from fencepost.checkers.objects.python_search import LATE
from fencepost.checkers.objects.specification import text
from fencepost.checkers.objects.sub_history import Rows, wrong_in
from fencepost.checkers.storage.register_anomalies import seconds
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Facts, Proof, Validity, Verdict, Witness

GUARANTEE: Final = "linearizable"
NON_LINEARIZABLE: Final = "non-linearizable"
_WITNESSES_MAX: Final = 5
#: Of histories with more operations the orders that prove them valid are not kept in the verdict.
ORDERED_MAX: Final = 5_000
_NAMED_MAX: Final = 6
_TOLD_MAX: Final = 8
#: A proof of more operations is not added to those that a witness shows.
_DRAWN_MAX: Final = 24


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Why no order can explain an object: `operations` show it, the first of them stands for it.

    `proof` is one that was found on the way.
    """

    anomaly: str
    operations: tuple[Operation, ...]
    steps: tuple[str, ...]
    proof: Proof | None = None


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
    #: Without the native search: an order that explains one key's operations (by their events), and was replayed, or a
    #: flaw that was proven.
    settle: Callable[[Sequence[Operation]], list[int] | Flaw | None] = lambda operations: None
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
    name = f"{kind.name}:{permits}" if kind.native == "semaphore" else kind.name
    keeps_orders = sum(map(len, groups.values())) <= ORDERED_MAX
    calls, found, orders = Calls(), list[Flaw](), dict[Hashable, Sequence[int]]()
    for key, operations in groups.items():
        flaws = kind.flaws(operations)
        found += flaws
        if flaws:
            continue
        match kind.settle(operations):
            case None:
                kind.encode(calls, (key,), operations)
            case Flaw() as flaw:
                found.append(flaw)
            case order:
                orders[(key,)] = order
    results = calls.judged(kind.native, facts.budget, permits=permits, orders=keeps_orders) if calls.operations else []
    for subject, result in zip(calls.subjects, results, strict=True):
        if result.verdict == "valid":
            orders[subject] = [calls.operations[call].invoke_index for call in result.order]
    refused = [result for result in results if result.verdict == "invalid"]
    unfinished = [result for result in results if result.verdict == "unknown"]
    found += [_explained(kind, calls, result, groups) for result in refused]
    proven = [_proven(flaw, name, groups[flaw.operations[0].key]) for flaw in found[:_WITNESSES_MAX]]
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
            anomalies=dict(Counter(flaw.anomaly for flaw in found)),
            witnesses=tuple(proven),
            proofs=_orders(name, groups, orders, calls) if keeps_orders and not found and not unfinished else (),
            figures={
                "keys": len(groups),
                "operations": len(counted),
                "info_operations": sum(op.type is Outcome.INFO for op in counted),
                "objects_searched": len(results),
                "steps": sum(result.steps for result in results),
            },
            evidence={
                "exposure": rows(seen),
                **violations((flaw.anomaly, flaw.operations[0]) for flaw in found),
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


def _explained(kind: Kind, calls: Calls, result: _core.ObjectResult, groups: dict[str | None, list[Operation]]) -> Flaw:
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
    return Flaw(anomaly=anomaly, operations=(failed, *refused.open[:8]), steps=steps)


def _orders(
    name: str, groups: dict[str | None, list[Operation]], orders: dict[Hashable, Sequence[int]], calls: Calls
) -> tuple[Proof, ...]:
    """The order of each object, carried out by its plain specification; a set's elements may have their own each."""
    found = []
    for key, operations in groups.items():
        subjects = [subject for subject in orders if isinstance(subject, tuple) and subject[0] in (key, (key,))]
        for subject in subjects or [(key,)]:
            assert isinstance(subject, tuple)
            about = (text(calls.numbers.named[subject[1]]),) if len(subject) > 1 else None
            rows = Rows(operations, name, about)
            order = tuple(rows.completed(orders.get(subject, ())))
            if (wrong := rows.explained(order)) is not None:
                raise RuntimeError(f"an order of {name} that was found does not replay: {wrong}")
            found.append(Proof(kind="order", name=name, key=key, rows=order, about=about))
    return tuple(found)


def _proven(flaw: Flaw, name: str, operations: Sequence[Operation]) -> Witness:
    """The witness with the smallest proof that was found, which was confirmed."""
    proof = flaw.proof or minimal_proof(name, operations, flaw.operations)
    wrong = None if proof is None else wrong_in(operations, proof)
    # What was found in time may be confirmed too late, by a machine that was stopped meanwhile: that refutes no proof.
    if proof is None or (wrong is not None and wrong.endswith(LATE)):
        why = "No smaller part of the history was found that has no order by itself."
        return witness_of(msgspec.structs.replace(flaw, steps=(*flaw.steps, why)))
    if wrong is not None:
        raise RuntimeError(f"a proof about {name} that was found does not hold: {wrong}")
    at = {op.invoke_index: op for op in operations}
    must, may = [at[row] for row in proof.rows], [at[row] for row in proof.may]
    since = [] if proof.since is None else [at[proof.since]]
    said = witness_of(msgspec.structs.replace(flaw, steps=(*flaw.steps, *_proof_words(since, must, may))))
    if len(must) > _DRAWN_MAX:
        return msgspec.structs.replace(said, proof=proof)
    events = {event for op in (*since, *must) for event in (op.invoke_index, op.complete_index) if event is not None}
    shown = (*flaw.operations, *since, *must)
    return msgspec.structs.replace(
        said,
        proof=proof,
        events=tuple(sorted({*said.events, *events})),
        from_ns=min(op.invoked_ns for op in shown),
        to_ns=max(op.completed_ns if op.completed_ns is not None else op.invoked_ns for op in shown),
        nodes=tuple(sorted({op.node for op in shown})),
    )


def _proof_words(since: Sequence[Operation], must: Sequence[Operation], may: Sequence[Operation]) -> list[str]:
    """The few operations that prove it by themselves."""
    behind = f", after {_told(since)}" if since else ""
    if len(must) == 1:
        told = f"This alone proves it{behind}: {_told(must)}"
    else:
        told = f"No order explains even these {len(must)} operations{behind}: {_told(must)}"
    if not may:
        return [f"{told}."]
    others = "one" if len(may) == 1 else str(len(may))
    return [f"{told}; with or without {others} that may have taken effect: {_told(may)}."]


def _told(operations: Sequence[Operation]) -> str:
    more = len(operations) - _TOLD_MAX
    names = "; ".join(_brief(op) for op in operations[:_TOLD_MAX])
    return f"{names}{f'; and {more} more' if more > 0 else ''}"


def _brief(op: Operation) -> str:
    what = "" if op.value is None else f" of {op.value!r:.60}"
    said = op.result is not None and op.result != op.value
    returned = f" that returned {op.result!r:.60}" if is_ok(op) and said else ""
    empty = " that returned nothing" if is_ok(op) and op.f == "dequeue" and op.result is None else ""
    return f"{op.f}{what}{returned}{empty} by process {op.process} (event {op.invoke_index})"


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
