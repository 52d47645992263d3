"""A counter: `add` of an integer, `increment` and `decrement` (by 1 where nothing is said), `read` of the sum.

A read may return nil in place of 0 until a change was acknowledged: the counter is not there yet.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from fencepost.checkers.facts.positions import answered, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import integer, same_again, something, unreadable, whole
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_ADD: Final = 0
_READ: Final = 1


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(COUNTER, history, facts)


def change_of(op: Operation) -> int:
    """What an operation adds."""
    same_again(op)
    if op.f == "add":
        return integer(op, something(op, op.value, "what to add"), "what to add")
    by = 1 if op.value is None else integer(op, op.value, "the step")
    return by if op.f == "increment" else -by


def _encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    for op in not_failed(operations):
        if op.f != "read":
            calls.add(op, subject, _ADD, change_of(op))
        elif is_ok(op):
            calls.add(op, subject, _READ, integer(op, sum_of(op), "what a counter's read returns", answer=True))


def sum_of(read: Operation) -> int:
    """Return the sum that an ok read answered; raises MalformedHistory."""
    return 0 if read.result is None else whole(read, read.result, "what a counter's read returns")


def _read(op: Operation) -> None:
    if op.f != "read":
        change_of(op)
    elif is_ok(op):
        sum_of(op)


def _impossible(operations: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    """Find answers that are no integers, and nil after a change."""
    yield from unreadable(_read)(operations)
    changed: dict[str | None, Operation] = {}
    for op in operations:
        if op.f != "read" and is_ok(op) and (op.key not in changed or answered(op) < answered(changed[op.key])):
            changed[op.key] = op
    for op in operations:
        first = changed.get(op.key)
        if op.f == "read" and is_ok(op) and op.result is None and first and answered(first) < op.invoke_index:
            yield op, f"{describe(first)} was acknowledged before; expected an integer"


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    """The first read beyond what all changes that may have come before it can make."""
    changes = [(op, change_of(op)) for op in not_failed(operations) if op.f != "read"]
    # Bounds as the events pass: invoked changes may count, acknowledged ones must.
    marks = [(op.invoke_index, min(by, 0), max(by, 0)) for op, by in changes]
    marks += [(op.complete_index, max(by, 0), min(by, 0)) for op, by in changes if is_ok(op) and op.complete_index]
    marks.sort()
    reads = sorted((op for op in operations if op.f == "read" and is_ok(op)), key=lambda op: op.complete_index or 0)
    least_at = _Sums([(at, low) for at, low, _ in marks])
    most_at = _Sums([(at, high) for at, _, high in marks])
    for read in reads:
        # A change of one sign counts from its invocation on, of the other from its acknowledgement on; what came while
        # the read was open may count or not.
        least, most = least_at.least(read), most_at.most(read)
        if not least <= sum_of(read) <= most:
            steps = (
                f"{describe(read)} returned {sum_of(read)}.",
                f"Whatever of the concurrent and unknown changes it saw, the sum is from {least} to {most}.",
            )
            return [Finding(about=0, anomaly="impossible-value", operations=(read,), steps=steps)]
    return []


class _Sums:
    """Running sums over events."""

    def __init__(self, marks: Sequence[tuple[int, int]]) -> None:
        self._at = [at for at, _ in marks]
        self._sums = [0]
        for _, by in marks:
            self._sums.append(self._sums[-1] + by)

    def least(self, read: Operation) -> int:
        return min(self._during(read))

    def most(self, read: Operation) -> int:
        return max(self._during(read))

    def _during(self, read: Operation) -> list[int]:
        first = bisect_right(self._at, read.invoke_index)
        last = bisect_right(self._at, read.complete_index or read.invoke_index)
        return self._sums[first : last + 1]


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    return "impossible-value", ("No order of the changes before and beside it makes this sum.",)


def _holds(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"the sum {state[0]}"


COUNTER: Final = ObjectKind(
    name="counter",
    native="counter",
    changes=frozenset({"add", "increment", "decrement"}),
    tells=frozenset({"read"}),
    impossible=_impossible,
    encode=_encode,
    flaws=_flaws,
    explain=_explain,
    holds=_holds,
    chances=(Chance("impossible-value", frozenset({"read"})),),
)
