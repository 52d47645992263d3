"""Answers that no correct object can give: found before the search, and judged as violations.

What a harness asked for is validated, because a mistake there is the harness's own. What a store answered is judged: an
answer outside of all that the object could return refutes the object, whatever else happened. For the rest of the
judgement such an operation may have taken effect, and nobody knows what it returned.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Final

import msgspec

from fencepost.checkers.facts.positions import is_ok
from fencepost.checkers.findings.finding import Finding, describe, violations
from fencepost.checkers.findings.ladder import WITNESSES_MAX
from fencepost.checkers.findings.reading import BeyondLimit, named
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Proof, Validity, Verdict, in_words

ANOMALY: Final = "impossible-answer"
#: The kind of the proof: the operation of its one row answered what no object of the checker's kind can answer.
PROOF: Final = "answer"
_PLACE: Final = re.compile(r"^event \d+: ")

Check = Callable[[History, Facts], list[Verdict]]
#: Yields each ok operation with an impossible answer, and why it is one.
Impossible = Callable[[Sequence[Operation]], Iterable[tuple[Operation, str]]]


def judges_answers(impossible: Impossible) -> Callable[[Check], Check]:
    """Make a checker judge answers that it cannot read, instead of refusing the history."""

    def decorated(check: Check) -> Check:
        @wraps(check)
        def judged(history: History, facts: Facts) -> list[Verdict]:
            strange = impossible_answers(impossible, history.operations)
            if not strange:
                return check(history, facts)
            rest = history.with_operations(set_aside(history.operations, strange))
            return [with_impossible(verdict, strange) for verdict in check(rest, facts)]

        return judged

    return decorated


def impossible_answers(impossible: Impossible, operations: Sequence[Operation]) -> dict[int, tuple[Operation, str]]:
    """Map the invocations of operations with impossible answers to the operation and the reason."""
    return {op.invoke_index: (op, why) for op, why in impossible(operations)}


def set_aside(operations: Sequence[Operation], strange: Mapping[int, tuple[Operation, str]]) -> list[Operation]:
    """Return the operations with unknown outcomes in place of the impossible answers."""
    return [unanswered(op) if op.invoke_index in strange else op for op in operations]


def with_impossible(verdict: Verdict, strange: Mapping[int, tuple[Operation, str]]) -> Verdict:
    """Return the verdict on the rest of a history, made invalid by the impossible answers."""
    findings = [_finding(op, why) for op, why in strange.values()]
    anomalies = {ANOMALY: len(findings), **verdict.anomalies}
    more = f"; {verdict.reason}" if verdict.validity is Validity.INVALID and verdict.reason else ""
    shown = [finding.witness() for finding in findings[: WITNESSES_MAX - bool(verdict.witnesses)]]
    return msgspec.structs.replace(
        verdict,
        validity=Validity.INVALID,
        cause=None,
        reason=in_words({ANOMALY: len(findings)}) + more,
        anomalies=anomalies,
        witnesses=(*shown, *verdict.witnesses[: WITNESSES_MAX - len(shown)]),
        evidence={**verdict.evidence, **violations(findings)},
        proofs=(),
        allowed=(),
    )


def _finding(op: Operation, why: str) -> Finding:
    steps = (f"{describe(op)} returned {named(op.result)}.", f"No correct object answers so: {why}.")
    return Finding(
        about=0,
        anomaly=ANOMALY,
        operations=(op,),
        steps=steps,
        proof=Proof(kind=PROOF, name=ANOMALY, key=op.key, rows=(op.invoke_index,)),
    )


def nothing_impossible(operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    """Yield nothing: any answer may be given."""
    return iter(())


def unreadable(read: Callable[[Operation], object]) -> Impossible:
    """Find the answers that `read` refuses, where it can read the same operation without its answer.

    `read` raises MalformedHistory for an operation that means nothing. It raises `BeyondLimit` for one that may mean
    something; both leave this function if what was asked for is at fault.
    """

    def impossible(operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        for op in operations:
            try:
                read(op)
            except BeyondLimit:
                raise
            except MalformedHistory as error:
                if not is_ok(op):
                    raise
                read(unanswered(op))
                yield op, _PLACE.sub("", error.message)

    return impossible


def unanswered(op: Operation) -> Operation:
    """Return the operation with an unknown outcome."""
    return msgspec.structs.replace(op, type=Outcome.INFO, result=None)
