"""Sets: `add`, `remove`, `contains` (its result: true or false), `members` (its result: all elements).

Without a read of all elements each element is an object of its own, and is judged alone.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from fencepost.checkers.facts.positions import answered, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import named, same_again, something, unreadable, wrong
from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import NON_LINEARIZABLE, ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_ADD: Final = 0
_REMOVE: Final = 1
_CONTAINS: Final = 2
_LACKS: Final = 3
_READ: Final = 4
_SHOWN_MAX: Final = 8


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(SET, history, facts)


def _encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    number = calls.numbers.number
    whole = any(op.f == "members" and is_ok(op) for op in operations)
    for op in not_failed(operations):
        if op.f == "members":
            if is_ok(op):
                calls.add(op, subject, _READ, *sorted(map(number, shown(op))))
            continue
        element = number(element_of(op))
        judged_alone = subject if whole else (subject, element)
        if op.f != "contains":
            calls.add(op, judged_alone, _ADD if op.f == "add" else _REMOVE, element)
        elif is_ok(op):
            calls.add(op, judged_alone, _CONTAINS if is_in(op) else _LACKS, element)


def element_of(op: Operation) -> Value:
    """What an operation is about."""
    if op.f != "contains":
        same_again(op)
    return something(op, op.value, "the element")


def is_in(op: Operation) -> bool:
    """What an ok `contains` returned."""
    flaw = f"contains returned {named(op.result)}; expected true or false"
    return op.result if isinstance(op.result, bool) else wrong(op, flaw)


def shown(op: Operation) -> list[Value]:
    """All that an ok read returned; a set that is not there is empty."""
    if op.result is None:
        return []
    if not isinstance(op.result, list):
        wrong(op, f"the read of a set returned {op.result!r:.80}; expected its elements")
    return op.result


def _read(op: Operation) -> None:
    if op.f != "members":
        element_of(op)
    if is_ok(op):
        _seen(op)


def _seen(op: Operation) -> Sequence[Value]:
    """The elements that an operation found."""
    if not is_ok(op):
        return ()
    return shown(op) if op.f == "members" else (op.value,) if op.f == "contains" and is_in(op) else ()


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    return list(_each_flaw(operations))


def _each_flaw(operations: Sequence[Operation]) -> Iterator[Finding]:
    """Elements that nobody had added yet, each where it was first seen; and elements that one read shows twice."""
    numbers = Numbers()
    added: dict[int, Operation] = {}
    for op in not_failed(operations):
        if op.f == "add":
            added.setdefault(numbers.number(element_of(op)), op)
    reported = set[int]()
    for op in operations:
        in_this = set[int]()
        for element in _seen(op):
            number = numbers.number(element)
            maker = added.get(number)
            if number in in_this:
                steps: tuple[str, ...] = (f"{describe(op)} returned {element!r:.80} more than once.",)
                yield Finding(about=0, anomaly="duplicate-element", operations=(op,), steps=steps)
                return
            in_this.add(number)
            if number not in reported and (maker is None or answered(op) < maker.invoke_index):
                reported.add(number)
                later = f"; {describe(maker)} came after" if maker else ""
                steps = (f"{describe(op)} showed {element!r:.80}.", f"Nobody had added that{later}.")
                yield Finding(
                    about=0, anomaly="invented-element", operations=(op, *([maker] if maker else [])), steps=steps
                )


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    op = refused.failed
    if refused.more_states or op.f not in ("members", "contains"):
        return NON_LINEARIZABLE, ()
    numbers = Numbers()
    in_all = set.intersection(*({numbers.number(refused.names[n]) for n in state} for state in refused.states))
    in_any = set.union(*({numbers.number(refused.names[n]) for n in state} for state in refused.states))
    seen = {numbers.number(element) for element in _seen(op)}
    missing = (in_all - seen) & ({numbers.number(op.value)} if op.f == "contains" else in_all)
    if missing:
        names = [numbers.named[n] for n in sorted(missing)]
        ever = {numbers.number(element) for other in refused.operations for element in _seen(other)}
        anomaly = "stale-read" if missing & ever else "lost-element"
        return anomaly, (f"It lacks {_listed(names)}, which must be there.",)
    if seen - in_any:
        names = [numbers.named[n] for n in sorted(seen - in_any)]
        return "resurrected-element", (f"It shows {_listed(names)}, which must be gone.",)
    return NON_LINEARIZABLE, ()


def _listed(elements: Sequence[Value]) -> str:
    shown_first = ", ".join(f"{element!r:.40}" for element in elements[:_SHOWN_MAX])
    return shown_first + (f" and {len(elements) - _SHOWN_MAX} more" if len(elements) > _SHOWN_MAX else "")


def _holds(state: Sequence[int], names: Sequence[Value]) -> str:
    return f"a set of {_listed([names[number] for number in state])}" if state else "an empty set"


SET: Final = ObjectKind(
    name="linearizable-set",
    native="set",
    changes=frozenset({"add", "remove"}),
    tells=frozenset({"contains", "members"}),
    impossible=unreadable(_read),
    encode=_encode,
    flaws=_flaws,
    explain=_explain,
    holds=_holds,
    chances=(
        Chance("duplicate-element", frozenset({"members"})),
        Chance("invented-element", frozenset({"contains", "members"})),
        Chance("stale-read", frozenset({"contains", "members"}), frozenset({"add"})),
        Chance("lost-element", frozenset({"contains", "members"}), frozenset({"add"})),
        Chance("resurrected-element", frozenset({"contains", "members"}), frozenset({"add"})),
    ),
)
