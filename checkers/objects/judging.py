"""From an object's operations to its verdict: what is plainly wrong, then the search, then the words for it.

A plain flaw (an element that nobody enqueued) refutes a key by itself, with a better explanation than the search has;
everything else the native search decides, within its budget. Keys are independent objects (linearizability is local:
Herlihy & Wing, 1990).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import exposed, is_ok
from fencepost.checkers.objects.collections import text
from fencepost.checkers.objects.kind import Calls, Kind, rules_of
from fencepost.checkers.objects.minimal import minimal_proof
from fencepost.checkers.objects.models import model_of
from fencepost.checkers.objects.search import Answer, search
from fencepost.checkers.objects.sub_history import KeyRows, objection
from fencepost.checkers.rules import sorted_out, verdict
from fencepost.checkers.violations.finding import (
    ORDERED_MAX,
    WITNESSES_MAX,
    Doubt,
    Finding,
    contradicted,
    describe,
    listed,
    plain,
    proof_words,
    seconds,
    stopped,
)
from fencepost.checkers.violations.impossible import impossible_answers, set_aside, with_impossible
from fencepost.harness.base.errors import Contradiction
from fencepost.harness.base.quantities import counted
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, SearchBudget, Stop, Verdict, VerdictProof

_NAMED_MAX: Final = 6
#: A proof of more operations is not added to those that a witness shows.
_DRAWN_MAX: Final = 24

_Groups = dict[str | None, list[Operation]]
#: One object: its key, and the part of it that is judged alone.
_Subject = tuple[str | None, str | None]


def checker_of(name: str) -> Callable[[History, Facts], list[Verdict]]:
    """What judges histories of the built-in model of this name; its parameter stands in the options."""

    def check(history: History, facts: Facts) -> list[Verdict]:
        parameter = str(facts.options.get("parameter", ""))
        return judge(model_of(f"{name}:{parameter}" if parameter or name == "semaphore" else name), history, facts)

    return check


def judge(kind: Kind, history: History, facts: Facts) -> list[Verdict]:
    """Judge each answer by itself, then all operations in their order, as `_judge` does."""
    functions = kind.functions
    own = [op for op in history.operations if op.f in functions]
    strange = impossible_answers(kind.impossible, own)
    if not strange:
        return _judge(kind, own, facts)
    rest = set_aside(own, strange)
    if not kind.has_rest:
        keys = {op.key for op, _ in strange.values()}
        rest = [op for op in rest if op.key not in keys]
    return [with_impossible(verdict, strange) for verdict in _judge(kind, rest, facts)]


def _judge(kind: Kind, own: Sequence[Operation], facts: Facts) -> list[Verdict]:
    """Judge all operations of one kind of object for linearizability, key by key.

    Args:
        kind: the object.
        own: its operations; others of the history are not read.

    Returns:
        One verdict: `invalid` with a proof for each witness; else `unknown` where the budget was spent on an object,
        nothing was exposed, or an order or a proof does not hold; else `valid` with an order for each object that was
        carried out once more, and is kept of a short history.

    Raises:
        MalformedHistory: an operation that means nothing for this kind; names the event.

    Cost: that of the native search, exponential in the number of concurrent operations at worst.
    Source: Herlihy & Wing (1990); Wing & Gong (1993); Lowe (2017).
    """
    groups: _Groups = {}
    for op in own:
        groups.setdefault(op.key, []).append(op)
    findings, searched = list[Finding](), dict[str | None, Calls]()
    for key, operations in groups.items():
        searched[key] = kind.calls(operations)
        if flaws := list(kind.flaws(operations, searched[key])):
            findings += flaws
            del searched[key]
    answers, subjects = _answers(kind, groups, searched, facts.budget)
    refused = {key: answer for key, answer in answers.items() if answer.failed is not None}
    unfinished = [answer.result for answer in answers.values() if answer.result.stop is not None]
    findings += [_explained(kind, subject[1], answer, subjects[subject]) for subject, answer in refused.items()]
    findings, proven, contradictions = _confirmed(findings, kind.name, groups)
    proofs = list[VerdictProof]()
    if not findings and not unfinished and not contradictions:
        proofs, contradictions = _orders(kind, groups, answers)
    seen = exposed(groups.values(), kind.changes, kind.tells)
    counted = [op for operations in groups.values() for op in operations]
    more = f"; {len(unfinished)} objects more were not finished" if unfinished else ""
    return [
        verdict(
            facts,
            *sorted_out(findings, rules_of(kind, groups)),
            broken=f"{len(findings)} violations{more}",
            doubt=contradicted(contradictions) or _doubt(kind, unfinished, counted),
            exposed=rows(seen),
            untested=f"no {kind.exposure_of}",
            shown=proven,
            proofs=proofs if len(counted) <= ORDERED_MAX and not contradictions else (),
            figures={
                "keys": number_of(operations[0] for operations in groups.values()),
                "operations": number_of(counted),
                "info_operations": number_of(op for op in counted if op.type is Outcome.INFO),
                "objects_searched": len(answers),
                "steps": sum(answer.result.steps for answer in answers.values()),
            },
        )
    ]


def _answers(
    kind: Kind, groups: _Groups, keys: Mapping[str | None, Calls], budget: SearchBudget
) -> tuple[dict[_Subject, Answer], Mapping[_Subject, Calls]]:
    """What the search says of each object without flaws, or of its parts; and the calls of each."""
    subjects: dict[_Subject, Calls]
    if (own := kind.searched(keys, budget)) is not None:
        subjects = {(key, None): calls for key, calls in keys.items()}
        return {(key, None): answer for key, answer in own.items()}, subjects
    quick = {key: kind.quick(groups[key], calls) for key, calls in keys.items()}
    model = next((one.model for one in reversed(quick.values())), kind)
    subjects = {(k, p): part for k, q in quick.items() for p, part in q.parts.items() if part}
    return search(model, subjects, budget) if subjects else {}, subjects


def _doubt(kind: Kind, unfinished: Sequence[Any], operations: Sequence[Operation]) -> Doubt | None:
    if not operations:
        return Doubt(Cause.NO_EXPOSURE, f"no {' or '.join(sorted(kind.functions))} in this history")
    why = ", ".join(sorted({result.reason for result in unfinished}))
    reason = f"{len(unfinished)} objects were not finished, none is invalid; {why}"
    return stopped([result.stop for result in unfinished], reason)


def _explained(kind: Kind, part: str | None, answer: Answer, calls: Calls) -> Finding:
    assert answer.failed is not None
    failed, call = answer.failed
    if part is None:
        states = answer.states
    else:
        states, (call, *others) = kind.whole(part, answer.states, [call, *(call for _, call in calls)])
        calls = [(op, other) for (op, _), other in zip(calls, others, strict=True)]
    anomaly, why = kind.explain(call, () if answer.more_states else states, calls)
    beside = [op for op in answer.open if op is not failed]
    held = list(dict.fromkeys(map(kind.show, states)))
    steps = (f"{describe(failed)} {times(failed)}.", why, *search_words(answer, beside, held))
    return Finding(about=0, anomaly=anomaly, operations=(failed, *beside[:8]), steps=tuple(filter(None, steps)))


def search_words(
    answer: Answer, beside: Sequence[Operation], states: Sequence[str], subject: str = "The object"
) -> list[str]:
    """What a search says of what it refused; `subject` can be only in these states."""
    before = len(answer.order)
    sentences = [
        f"An order explains {counted(before, 'operation')} up to its answer; in no order can it come next."
        if before
        else "In no order can it come first."
    ]
    if states:
        more = "" if len(states) <= _NAMED_MAX and not answer.more_states else ", or others"
        sentences.append(f"{subject} can be only {' or '.join(states[:_NAMED_MAX])}{more}.")
    if beside:
        sentences.append(f"Open at that moment: {listed(beside, describe, _NAMED_MAX)}.")
    return sentences


def _orders(kind: Kind, groups: _Groups, answers: dict[_Subject, Answer]) -> tuple[list[VerdictProof], list[str]]:
    """Carry out the order of each object by its model; return those that hold, and why others do not.

    A set's elements may have an order each.
    """
    parts: dict[str | None, list[_Subject]] = {}
    for subject in answers:
        parts.setdefault(subject[0], []).append(subject)
    proofs, contradictions = list[VerdictProof](), list[str]()
    for key, operations in groups.items():
        of_part = _by_value(operations) if any(part for _, part in parts.get(key, ())) else {}
        for subject in parts.get(key, [(key, None)]):
            about = None if subject[1] is None else (subject[1],)
            own = KeyRows(of_part[about[0]] if about else operations, kind.name, about, kind)
            order = answers[subject].order if subject in answers else ()
            events = tuple(own.completed([op.invoke_index for op in order]))
            wrong = own.explained(events)
            if wrong is None:
                proofs.append(VerdictProof(kind="order", name=kind.name, key=key, rows=events, about=about))
                continue
            of = "" if key is None else f" of {key}"
            contradictions.append(
                f"the native search found an order of {kind.name}{of}, and its model refuses it when asked again: "
                f"{wrong}"
            )
    return proofs, contradictions


def _by_value(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """The operations by what they are about, as text."""
    parts: dict[str, list[Operation]] = {}
    for op in operations:
        parts.setdefault(text(op.value), []).append(op)
    return parts


def _confirmed(
    findings: Sequence[Finding], name: str, groups: _Groups
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
            f"and a plain search does not confirm that: {wrong.reason}"
        )
    at = {op.invoke_index: op for op in operations}
    must, may = [at[row] for row in proof.rows], [at[row] for row in proof.may]
    since = [] if proof.since is None else [at[proof.since]]
    behind = f", after {_brief(since[0])}" if since else ""
    steps = (*flaw.steps, *proof_words(must, may, behind, _brief))
    drawn = () if len(must) > _DRAWN_MAX else (*since, *must)
    return msgspec.structs.replace(flaw, steps=steps, proof=proof, operations=(*flaw.operations, *drawn))


def _brief(op: Operation) -> str:
    what = "" if op.value is None else f" of {plain(op, op.value):.60}"
    has_result = op.result is not None and op.result != op.value
    returned = f" that returned {plain(op, op.result):.60}" if is_ok(op) and has_result else ""
    empty = " that returned nothing" if is_ok(op) and op.f in ("dequeue", "pop") and op.result is None else ""
    return f"{op.f}{what}{returned}{empty} by process {op.process} (event {op.invoke_index})"


def times(op: Operation) -> str:
    result = "" if op.result is None or op.result == op.value else f"returned {plain(op, op.result):.200} "
    completed = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    return f"{result}(invoked at {seconds(op.invoked_ns)}, answered at {seconds(completed)})"
