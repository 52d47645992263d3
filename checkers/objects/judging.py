"""From an object's operations to its verdict: what is plainly wrong, then the search, then the words for it.

A plain flaw (an element that nobody enqueued) refutes a key by itself, with a better explanation than the search has;
everything else the native search decides, within its budget. Keys are independent objects (linearizability is local:
Herlihy & Wing, 1990).
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers import _core
from fencepost.checkers.facts.evidence import row, rows
from fencepost.checkers.facts.positions import exposed, is_ok
from fencepost.checkers.findings.finding import (
    ORDERED_MAX,
    WITNESSES_MAX,
    Doubt,
    Finding,
    Findings,
    contradicted,
    describe,
    seconds,
    stopped,
)
from fencepost.checkers.findings.impossible import Impossible, impossible_answers, set_aside, with_impossible
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.minimal import minimal_proof
from fencepost.checkers.objects.rules import Chance, rules_of
from fencepost.checkers.objects.specification import text
from fencepost.checkers.objects.sub_history import KeyRows, objection
from fencepost.harness.base.errors import Contradiction
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Cause, Facts, Stop, Verdict, VerdictProof

GUARANTEE: Final = "linearizable"
NON_LINEARIZABLE: Final = "non-linearizable"
_NAMED_MAX: Final = 6
_TOLD_MAX: Final = 8
#: A proof of more operations is not added to those that a witness shows.
_DRAWN_MAX: Final = 24


class RefutedObject(msgspec.Struct, frozen=True, kw_only=True):
    """What the search says of one object: `failed` passes in no order; `states` are in numbers, and maybe more."""

    failed: Operation
    operations: Sequence[Operation]
    explained: int
    open: Sequence[Operation]
    states: Sequence[Sequence[int]]
    more_states: bool
    names: Sequence[Value]


class ObjectKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object.

    `impossible` finds answers that no such object can give, of all keys; what follows never sees them. `encode` lays
    out one key's operations, `flaws` finds what is plainly wrong, `explain` names what the search refused and says why,
    `holds` describes a state. An ok answer of `tells` that an ordered operation could contradict
    is an exposure (`checkers.facts.positions`).
    """

    name: str
    native: str
    changes: frozenset[str]
    tells: frozenset[str]
    impossible: Impossible
    #: Whether an object with an impossible answer has a rest that can be judged, as if that had not been answered.
    has_rest: bool = True
    encode: Callable[[CallColumns, Hashable, Sequence[Operation]], None]
    flaws: Callable[[Sequence[Operation]], list[Finding]]
    explain: Callable[[RefutedObject], tuple[str, tuple[str, ...]]]
    holds: Callable[[Sequence[int], Sequence[Value]], str]
    #: What can show each anomaly but the one that has no better name.
    chances: tuple[Chance, ...]

    @property
    def functions(self) -> frozenset[str]:
        return self.changes | self.tells

    @property
    def rules(self) -> tuple[Chance, ...]:
        """What can show each anomaly."""
        return (*self.chances, Chance(NON_LINEARIZABLE, self.functions, self.functions))

    @property
    def exposure_of(self) -> str:
        answers, others = (" or ".join(sorted(names)) for names in (self.tells, self.functions))
        return f"ok {answers} with another {others} before or behind"


def judge(kind: ObjectKind, history: History, facts: Facts, *, permits: int = 1) -> list[Verdict]:
    """Judge each answer by itself, then all operations in their order, as `_judge` does."""
    own = [op for op in history.operations if op.f in kind.functions]
    strange = impossible_answers(kind.impossible, own)
    if not strange:
        return _judge(kind, history, facts, permits)
    rest = set_aside(own, strange)
    if not kind.has_rest:
        keys = {op.key for op, _ in strange.values()}
        rest = [op for op in rest if op.key not in keys]
    return [
        with_impossible(verdict, strange) for verdict in _judge(kind, history.with_operations(rest), facts, permits)
    ]


def _judge(kind: ObjectKind, history: History, facts: Facts, permits: int) -> list[Verdict]:
    """Judge all operations of one kind of object for linearizability, key by key.

    Args:
        kind: the object; other operations of the history are not read.
        permits: of a semaphore.

    Returns:
        One verdict: `invalid` with a proof for each witness; else `unknown` where the budget was spent on an object,
        nothing was exposed, or an order or a proof does not hold; else `valid` with an order for each object that was
        carried out by its plain specification, and is kept of a short history.

    Raises:
        MalformedHistory: an operation that means nothing for this kind; names the event.

    Cost: that of the native search, exponential in the number of concurrent operations at worst.
    Source: Herlihy & Wing (1990); Wing & Gong (1993); Lowe (2017).
    """
    groups: dict[str | None, list[Operation]] = {}
    for op in history.operations:
        if op.f in kind.functions:
            groups.setdefault(op.key, []).append(op)
    name = f"{kind.name}:{permits}" if kind.native == "semaphore" else kind.name
    calls, findings, orders = CallColumns(), list[Finding](), dict[Hashable, Sequence[int]]()
    for key, operations in groups.items():
        flaws = kind.flaws(operations)
        findings += flaws
        if not flaws:
            kind.encode(calls, (key,), operations)
    results = calls.judged(kind.native, facts.budget, permits=permits) if calls.operations else []
    for subject, result in zip(calls.subjects, results, strict=True):
        if result.verdict == "valid":
            orders[subject] = [calls.operations[call].invoke_index for call in result.order]
    refused = [result for result in results if result.verdict == "invalid"]
    unfinished = [result for result in results if result.verdict == "unknown"]
    findings += [_explained(kind, calls, result, groups) for result in refused]
    findings, proven, contradictions = _confirmed(findings, name, groups)
    proofs = list[VerdictProof]()
    if not findings and not unfinished and not contradictions:
        proofs, contradictions = _orders(name, groups, orders, calls)
    seen = [
        op
        for operations in groups.values()
        for op in exposed(operations, lambda op: op.f in kind.changes, lambda op: op.f in kind.tells)
    ]
    counted = [op for operations in groups.values() for op in operations]
    more = f"; {len(unfinished)} objects more were not finished" if unfinished else ""
    return [
        Findings(
            checker=kind.name,
            guarantee=GUARANTEE,
            findings=findings,
            broken=f"{len(findings)} violations{more}",
            doubt=contradicted(contradictions) or _doubt(kind, unfinished, counted),
            exposed=rows(seen),
            exposure_of=kind.exposure_of,
            rules=rules_of(kind.rules, groups),
            shown=proven,
            proofs=tuple(proofs) if len(counted) <= ORDERED_MAX and not contradictions else (),
            figures={
                "keys": len(groups),
                "operations": len(counted),
                "info_operations": sum(op.type is Outcome.INFO for op in counted),
                "objects_searched": len(results),
                "steps": sum(result.steps for result in results),
            },
            evidence={
                "keys": tuple(row(operations[0]) for operations in groups.values()),
                "operations": rows(counted),
                "info_operations": rows(op for op in counted if op.type is Outcome.INFO),
            },
        ).verdict(facts)
    ]


def _doubt(kind: ObjectKind, unfinished: Sequence[_core.ObjectResult], operations: Sequence[Operation]) -> Doubt | None:
    if not operations:
        return Doubt(Cause.NO_EXPOSURE, f"no {' or '.join(sorted(kind.functions))} in this history")
    why = ", ".join(sorted({result.reason for result in unfinished}))
    reason = f"{len(unfinished)} objects were not finished, none is invalid; {why}"
    return stopped([result.stop for result in unfinished], reason)


def _explained(
    kind: ObjectKind, calls: CallColumns, result: _core.ObjectResult, groups: dict[str | None, list[Operation]]
) -> Finding:
    assert result.failed is not None
    failed = calls.operations[result.failed]
    refused = RefutedObject(
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
    return Finding(about=0, anomaly=anomaly, operations=(failed, *refused.open[:8]), steps=steps)


def _orders(
    name: str, groups: dict[str | None, list[Operation]], orders: dict[Hashable, Sequence[int]], calls: CallColumns
) -> tuple[list[VerdictProof], list[str]]:
    """Carry out the order of each object by its plain specification; return those that hold, and why others do not.

    A set's elements may have an order each.
    """
    subjects: dict[str | None, list[tuple[Any, ...]]] = {}
    for subject in orders:
        assert isinstance(subject, tuple)
        subjects.setdefault(subject[0] if len(subject) == 1 else subject[0][0], []).append(subject)
    proofs, contradictions = list[VerdictProof](), list[str]()
    for key, operations in groups.items():
        of_part = _by_value(operations) if len(subjects.get(key, [()])[0]) > 1 else {}
        for subject in subjects.get(key, [(key,)]):
            about = (text(calls.numbers.named[subject[1]]),) if len(subject) > 1 else None
            rows = KeyRows(of_part[about[0]] if about else operations, name, about)
            order = tuple(rows.completed(orders.get(subject, ())))
            wrong = rows.explained(order)
            if wrong is None:
                proofs.append(VerdictProof(kind="order", name=name, key=key, rows=order, about=about))
                continue
            of = "" if key is None else f" of {key}"
            contradictions.append(
                f"the native search found an order of {name}{of}, and its plain specification refuses it: {wrong}"
            )
    return proofs, contradictions


def _by_value(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """The operations by what they are about, as text."""
    parts: dict[str, list[Operation]] = {}
    for op in operations:
        parts.setdefault(text(op.value), []).append(op)
    return parts


def _confirmed(
    findings: Sequence[Finding], name: str, groups: dict[str | None, list[Operation]]
) -> tuple[list[Finding], list[Finding], list[str]]:
    """Prove the first findings; return those that count, those that are proven, and why others do not count."""
    counted, proven, contradictions = list[Finding](), list[Finding](), list[str]()
    for flaw in findings:
        if len(proven) < WITNESSES_MAX:
            try:
                proven.append(_proven(flaw, name, groups[flaw.operations[0].key]))
            except Contradiction as error:
                contradictions.append(error.message)
                continue
        counted.append(flaw)
    return counted, proven, contradictions


def _proven(flaw: Finding, name: str, operations: Sequence[Operation]) -> Finding:
    """The finding with the smallest proof that was found, which was confirmed, and the operations of that.

    Raises Contradiction where the proof does not hold.
    """
    proof = flaw.proof or minimal_proof(name, operations, flaw.operations)
    wrong = None if proof is None else objection(operations, proof)
    # What was found in time may be confirmed too late, by a machine that was stopped meanwhile: that refutes no proof.
    if proof is None or (wrong is not None and wrong.stop is Stop.DEADLINE):
        why = "No smaller part of the history was found that has no order by itself."
        return msgspec.structs.replace(flaw, steps=(*flaw.steps, why), proof=None)
    if wrong is not None:
        raise Contradiction(
            f"the search says that no order explains {name} ({flaw.anomaly}, event {flaw.operations[0].invoke_index}), "
            f"and its plain specification does not confirm that: {wrong.reason}"
        )
    at = {op.invoke_index: op for op in operations}
    must, may = [at[row] for row in proof.rows], [at[row] for row in proof.may]
    since = [] if proof.since is None else [at[proof.since]]
    steps = (*flaw.steps, *_proof_words(since, must, may))
    drawn = () if len(must) > _DRAWN_MAX else (*since, *must)
    return msgspec.structs.replace(flaw, steps=steps, proof=proof, operations=(*flaw.operations, *drawn))


def _proof_words(since: Sequence[Operation], must: Sequence[Operation], may: Sequence[Operation]) -> list[str]:
    """The few operations that prove it by themselves."""
    behind = f", after {_listed(since)}" if since else ""
    if len(must) == 1:
        sentence = f"This alone proves it{behind}: {_listed(must)}"
    else:
        sentence = f"No order explains even these {len(must)} operations{behind}: {_listed(must)}"
    if not may:
        return [f"{sentence}."]
    others = "one" if len(may) == 1 else str(len(may))
    return [f"{sentence}; with or without {others} that may have taken effect: {_listed(may)}."]


def _listed(operations: Sequence[Operation]) -> str:
    more = len(operations) - _TOLD_MAX
    names = "; ".join(_brief(op) for op in operations[:_TOLD_MAX])
    return f"{names}{f'; and {more} more' if more > 0 else ''}"


def _brief(op: Operation) -> str:
    what = "" if op.value is None else f" of {op.value!r:.60}"
    has_result = op.result is not None and op.result != op.value
    returned = f" that returned {op.result!r:.60}" if is_ok(op) and has_result else ""
    empty = " that returned nothing" if is_ok(op) and op.f == "dequeue" and op.result is None else ""
    return f"{op.f}{what}{returned}{empty} by process {op.process} (event {op.invoke_index})"


def _search_words(kind: ObjectKind, refused: RefutedObject) -> list[str]:
    sentences = [
        f"Up to its answer {refused.explained} operations are explained by one order; in no order may it come next."
    ]
    if refused.states:
        held = list(dict.fromkeys(kind.holds(state, refused.names) for state in refused.states))
        more = "" if len(held) <= _NAMED_MAX and not refused.more_states else ", or others"
        sentences.append(f"There can be only {' or '.join(held[:_NAMED_MAX])}{more}.")
    if refused.open:
        names = "; ".join(describe(op) for op in refused.open[:_NAMED_MAX])
        more_open = len(refused.open) - _NAMED_MAX
        sentences.append(f"Open at that moment: {names}{f'; and {more_open} more' if more_open > 0 else ''}.")
    return sentences


def times(op: Operation) -> str:
    result = "" if op.result is None or op.result == op.value else f"returned {op.result!r:.200} "
    completed = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    return f"{result}(invoked at {seconds(op.invoked_ns)}, answered at {seconds(completed)})"


def no_flaws(operations: Sequence[Operation]) -> list[Finding]:
    return []
