"""Answers that no correct object can give: found before the search, and judged as violations.

What a harness asked for is validated, because a mistake there is the harness's own. What a store answered is judged: an
answer outside of all that the object could return refutes the object, whatever else happened. For the rest of the
judgement such an operation may have taken effect, and nobody knows what it returned.

The values that operations carry are read here, with the event in the message where one is no value of its kind.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, NoReturn

import msgspec

from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.violations.finding import WITNESSES_MAX, Finding, describe, violations
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Facts, Validity, Verdict, VerdictProof, in_words

#: The native search adds numbers up in 64 bits.
_LARGEST: Final = 2**62 - 1
_HINT: Final = "nothing of this history was judged; docs/reference/models.md says what each model understands"
#: A micro-operation: whether it writes, the key, the value.
Micro = tuple[bool, Value, Value]


class BeyondLimit(MalformedHistory):
    """A number that may be right and is too large to be judged."""


def integer(op: Operation, value: Value, what: str, least: int = -_LARGEST, *, answer: bool = False) -> int:
    """Return `value`, an integer that the search can hold; raises MalformedHistory, and BeyondLimit for a large one.

    `answer` says that the operation returned it, so that the message names the event of the answer.
    """
    number = whole(op, value, what, least, answer=answer)
    if number > _LARGEST:
        raise BeyondLimit(
            f"event {_event(op, answer)}: {what} is {value!r:.80}; expected an integer from {least} to {_LARGEST}",
            hint=_HINT,
        )
    return number


def whole(op: Operation, value: Value, what: str, least: int = -_LARGEST, *, answer: bool = False) -> int:
    """Return `value`, an integer from `least`; raises MalformedHistory."""
    if type(value) is int and value >= least:
        return value
    bound = "" if least < 0 else f" from {least}"
    wrong(op, f"{what} is {named(value)}; expected an integer{bound}", answer=answer)


def something(op: Operation, value: Value, what: str) -> Value:
    """`value`, which is not nil; raises MalformedHistory."""
    if value is None:
        wrong(op, f"{what} is missing; expected a value")
    return value


def same_again(op: Operation) -> None:
    """An `ok` completion says nothing, or what was invoked; raises MalformedHistory."""
    if is_ok(op) and op.result is not None and not is_same(op.result, op.value):
        wrong(op, f"{op.f} completes with {op.result!r:.80}, but was invoked with {named(op.value)}")


def same_request(op: Operation, request: Sequence[Micro], reply: Sequence[Micro]) -> None:
    """Check that an ok transaction did what was asked for; raises MalformedHistory.

    Its micro-operations say whether they write, the key, and the value, which only reads may answer otherwise.
    """
    if op.result is None and not all(writes for writes, _, _ in request):
        wrong(op, "a transaction with reads returned nothing; expected what they read")
    if len(reply) != len(request):
        wrong(op, f"a transaction of {len(request)} micro-operations returned {len(reply)}; expected as many")
    for (writes, key, value), (wrote, on, returned) in zip(request, reply, strict=True):
        if writes != wrote or not is_same(key, on) or (writes and not is_same(value, returned)):
            request_kind, reply_kind = ("a write" if change else "a read" for change in (writes, wrote))
            what, instead = (f" of {named(part)}" if writes and wrote else "" for part in (value, returned))
            wrong(op, f"{request_kind}{what} on {key!r:.40} was answered as {reply_kind}{instead} on {on!r:.40}")


def wrong(op: Operation, message: str, *, answer: bool = False) -> NoReturn:
    raise MalformedHistory(f"event {_event(op, answer)}: {message}", hint=_HINT)


def _event(op: Operation, answer: bool) -> int:
    return op.complete_index if answer and op.complete_index is not None else op.invoke_index


def named(value: Value) -> str:
    """Return the value for a sentence."""
    if isinstance(value, str) and not value.startswith(":"):
        return f"{_text(value).decode():.80}"
    return "nothing" if value is None else f"{value!r:.80}".strip("'" if isinstance(value, str) else "")


def is_same(value: Value, other: Value) -> bool:
    """Say whether two values are equal, and of the same types."""
    if value != other or type(value) is not type(other):
        return False
    return not isinstance(value, (list, dict)) or _text(value) == _text(other)


def _text(value: Value) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


_PLAIN: Final = frozenset((int, str, type(None)))


class Numbers:
    """Values that are equal as JSON get one number, in the order in which they were met: 1, 1.0 and true are three."""

    def __init__(self, *first: Value) -> None:
        self.named: list[Value] = []
        self._numbers: dict[Any, int] = {}
        for value in first:
            self.number(value)

    def number(self, value: Value) -> int:
        kind = type(value)
        # Values of other types by their canonical text, which equals no plain value.
        key = value if kind in _PLAIN else (kind, msgspec.json.encode(value, order="deterministic"))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.named)
            self.named.append(value)
        return number


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
    anomalies = {**violations(findings), **verdict.anomalies}
    more = f"; {verdict.reason}" if verdict.validity is Validity.INVALID and verdict.reason else ""
    shown = [finding.witness() for finding in findings[: WITNESSES_MAX - bool(verdict.witnesses)]]
    return msgspec.structs.replace(
        verdict,
        validity=Validity.INVALID,
        cause=None,
        reason=in_words({ANOMALY: len(findings)}) + more,
        anomalies=anomalies,
        witnesses=(*shown, *verdict.witnesses[: WITNESSES_MAX - len(shown)]),
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
        proof=VerdictProof(kind=PROOF, name=ANOMALY, key=op.key, rows=(op.invoke_index,)),
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
