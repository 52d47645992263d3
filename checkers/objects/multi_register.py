"""Several registers as one object: `txn` of micro-operations [f, register, value], which happen at one instant.

`r` (`read`) returned the value, nil before any write; `w` (`write`) writes one that is not nil.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

from fencepost.checkers.facts.positions import is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import Micro, same_request, something, unanswered, unreadable, wrong
from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import NON_LINEARIZABLE, ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_READ: Final = 0
_WRITE: Final = 1
_ANY: Final = 2
_WRITES: Final = {"r": False, "read": False, "w": True, "write": True}


FUNCTIONS: Final = frozenset({"txn"})


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(multi_register(), history, facts)


def micros(op: Operation) -> list[Micro]:
    """Whether it writes, the register, the value; what reads found is nil where the outcome is unknown."""
    given: Any = op.result if is_ok(op) and op.result is not None else op.value
    if not isinstance(given, list) or not all(isinstance(micro, list) and len(micro) == 3 for micro in given):
        wrong(op, f"a transaction is {given!r:.80}; expected a list of [f register value]")
    parts = []
    for f, register, value in given:
        writes = _WRITES.get(str(f).removeprefix(":"))
        if writes is None:
            wrong(op, f"a transaction has {f!r:.80}; expected r or w")
        parts.append(
            (writes, something(op, register, "a register"), something(op, value, "a value") if writes else value)
        )
    return parts


def _read(op: Operation) -> None:
    request = micros(unanswered(op))
    if is_ok(op):
        same_request(op, request, micros(op))


def multi_register() -> ObjectKind:
    """Registers are numbered apart from their values, so that both are few."""
    registers = Numbers()

    def encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
        for op in not_failed(operations):
            arguments: list[int] = []
            for writes, register, value in micros(op):
                kind = _WRITE if writes else _READ if is_ok(op) else _ANY
                held = 0 if kind == _ANY or value is None else calls.numbers.number(value) + 1
                arguments += (kind, registers.number(register), held)
            calls.add(op, subject, 0, *arguments)

    def holds(state: Sequence[int], names: Sequence[Value]) -> str:
        held = (f"{registers.named[i]} = {names[n - 1]!r:.40}" for i, n in enumerate(state) if n)
        return ", ".join(held) or "nothing in any register"

    def explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
        if refused.more_states:
            return NON_LINEARIZABLE, ()
        values = Numbers()
        names = [values.number(name) + 1 for name in refused.names]
        own, apart = set[int](), True
        for writes, register, value in micros(refused.failed):
            place = registers.number(register)
            wanted = 0 if value is None else values.number(value) + 1
            if not writes and place not in own:
                held = {names[state[place] - 1] if state[place] else 0 for state in refused.states}
                if wanted not in held:
                    apart = False
                    why = f"In no order does {register} hold {value!r:.80} at that moment."
                    return "stale-read", (why,)
            own.add(place) if writes else None
        return (
            ("fractured-read", ("Each of the values may be there then, but not together.",))
            if apart
            else (NON_LINEARIZABLE, ())
        )

    return ObjectKind(
        name="multi-register",
        native="multi-register",
        changes=FUNCTIONS,
        tells=FUNCTIONS,
        impossible=unreadable(_read),
        encode=encode,
        flaws=_flaws,
        explain=explain,
        holds=holds,
        chances=(
            Chance("internal", FUNCTIONS),
            Chance("phantom-read", FUNCTIONS),
            Chance("stale-read", FUNCTIONS),
            Chance("fractured-read", FUNCTIONS),
        ),
    )


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    return list(_each_flaw(operations))


def _each_flaw(operations: Sequence[Operation]) -> Iterator[Finding]:
    """Reads that disagree with their own transaction, and of values that nobody ever wrote."""
    numbers = Numbers()
    written = {
        (numbers.number(register), numbers.number(value))
        for op in not_failed(operations)
        for writes, register, value in micros(op)
        if writes
    }
    reported = set[tuple[int, int]]()
    for op in operations:
        held: dict[int, int] = {}
        for writes, register, value in micros(op) if is_ok(op) else ():
            place, number = numbers.number(register), numbers.number(value)
            if not writes and held.get(place, number) != number:
                known = numbers.named[held[place]]
                steps: tuple[str, ...] = (
                    f"{describe(op)} read {value!r:.80} of {register}, which to itself held {known!r:.80}.",
                )
                yield Finding(about=0, anomaly="internal", operations=(op,), steps=steps)
                break
            held[place] = number
            if not writes and value is not None and (place, number) not in written | reported:
                reported.add((place, number))
                steps = (f"{describe(op)} read {value!r:.80} of {register}.", "Nobody ever wrote that.")
                yield Finding(about=0, anomaly="phantom-read", operations=(op,), steps=steps)
