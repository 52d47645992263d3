"""A queue, first in first out: `enqueue`, `dequeue` (its result; nil: it was empty), `drain` (its results, in order).

A drain dequeues one element after the other; it is no single step, and says nothing of the end. One of unknown outcome
may have taken any number of the elements that nobody else got.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.positions import answered, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe
from fencepost.checkers.findings.impossible import same_again, something, unreadable, wrong
from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.objects.calls import CallColumns
from fencepost.checkers.objects.judging import NON_LINEARIZABLE, ObjectKind, RefutedObject, judge
from fencepost.checkers.objects.rules import Chance
from fencepost.harness.history import History, Operation, Value
from fencepost.harness.verdict import Facts, Verdict

_ENQUEUE: Final = 0
_DEQUEUE: Final = 1
_TAKE: Final = 2
_EMPTY: Final = 3
_DRAIN: Final = 4
_SHOWN_MAX: Final = 5


def check(history: History, facts: Facts) -> list[Verdict]:
    return judge(QUEUE, history, facts)


def outputs_of(op: Operation) -> list[Value]:
    """The elements that an ok operation took out of the queue, in order."""
    if op.f == "dequeue":
        return [] if op.result is None else [op.result]
    if op.f != "drain":
        return []
    elements = [] if op.result is None else op.result
    if not isinstance(elements, list):
        wrong(op, f"a drain returned {elements!r:.80}; expected its elements, in order")
    return [something(op, element, "an element of a drain") for element in elements]


def _encode(calls: CallColumns, subject: Hashable, operations: Sequence[Operation]) -> None:
    number = calls.numbers.number
    surplus = _never_seen(operations)
    for place, op in enumerate(operations := not_failed(operations)):
        if op.f == "enqueue":
            calls.add(op, subject, _ENQUEUE, number(element_of(op)))
        elif is_ok(op) and op.f == "drain":
            for at, element in enumerate(outputs_of(op)):
                calls.add(op, subject, _DRAIN, number(element), place, at)
        elif is_ok(op):
            for element in outputs_of(op):
                calls.add(op, subject, _DEQUEUE, number(element))
            if op.result is None:
                calls.add(op, subject, _EMPTY)
        else:
            for _ in range(min(surplus, 1 if op.f == "dequeue" else surplus)):
                calls.add(op, subject, _TAKE)


def element_of(op: Operation) -> Value:
    """What is enqueued."""
    same_again(op)
    return something(op, op.value, "the element of an enqueue")


def _read(op: Operation) -> None:
    if op.f == "enqueue":
        element_of(op)
    elif is_ok(op):
        outputs_of(op)


def _never_seen(operations: Sequence[Operation]) -> int:
    """How many elements a dequeue of unknown result can have taken: those enqueued that no known one returned."""
    numbers = Numbers()
    out = Counter(numbers.number(element) for _, element in _outputs(operations))
    into = Counter[int]()
    for op in not_failed(operations):
        # An enqueue of unknown outcome matters only where its element was seen, and then it is none too many.
        if op.f == "enqueue" and (is_ok(op) or out[numbers.number(op.value)]):
            into[numbers.number(op.value)] += 1
    return (into - out).total()


def _outputs(operations: Sequence[Operation]) -> Iterator[tuple[Operation, Value]]:
    for op in operations:
        if is_ok(op):
            for element in outputs_of(op):
                yield op, element


class _Element(msgspec.Struct):
    """Who enqueued an element, and who took it out."""

    value: Value
    into: list[Operation]
    out: list[Operation]


def _flaws(operations: Sequence[Operation]) -> list[Finding]:
    """Elements that nobody had enqueued yet, and those that were taken more often than they were enqueued."""
    numbers = Numbers()
    elements: list[_Element] = []

    def of(value: Value) -> _Element:
        number = numbers.number(value)
        if number == len(elements):
            elements.append(_Element(value, [], []))
        return elements[number]

    for op in not_failed(operations):
        if op.f == "enqueue":
            of(element_of(op)).into.append(op)
    for op, value in _outputs(operations):
        of(value).out.append(op)
    flaws = [flaw for element in elements for flaw in _flaw_of(element)]
    return flaws or list(_out_of_order(operations, elements)) or list(_too_few_takers(operations, elements))


def _out_of_order(operations: Sequence[Operation], elements: Sequence[_Element]) -> Iterator[Finding]:
    """The first element that was taken before one that was certainly enqueued before it, and a queue found empty though
    an element was certainly in it all the while (Henzinger, Sezgin & Vafeiadis, CONCUR 2013).

    Only of elements that were enqueued once; and of those that nobody took only where no dequeue is of unknown result.
    """
    unknown = any(op.f != "enqueue" and not is_ok(op) for op in not_failed(operations))
    once = [e for e in elements if len(e.into) == 1 and (e.out or not unknown)]
    before = sorted((e for e in once if is_ok(e.into[0])), key=lambda e: answered(e.into[0]))
    after = _found_later(operations, once)
    longest: _Element | None = None
    at = 0
    for since, until, op, returned in after:
        while at < len(before) and answered(before[at].into[0]) < since:
            if longest is None or _in_until(longest) < _in_until(before[at]):
                longest = before[at]
            at += 1
        if longest is None or _in_until(longest) <= until:
            continue
        first = longest.into[0]
        taken_by = f"{describe(longest.out[0])} took it only later" if longest.out else "nobody ever took it"
        lost = not longest.out or op.result is None
        steps = (
            f"{describe(op)} returned {returned}.",
            f"{describe(first)} came before, and {taken_by}.",
        )
        anomaly = "lost-element" if lost else "reordered-element"
        yield Finding(about=0, anomaly=anomaly, operations=(op, first, *longest.out), steps=steps)
        return


def _found_later(operations: Sequence[Operation], once: Sequence[_Element]) -> list[tuple[int, int, Operation, str]]:
    """What shows that all that was certainly enqueued before was gone: dequeues of elements enqueued later, with the
    invocation of that enqueue, and dequeues that found nothing. Each with its answer, in order of the first."""
    evidence = [(e.into[0].invoke_index, answered(e.out[0]), e.out[0], repr(e.value)[:80]) for e in once if e.out]
    evidence += [
        (op.invoke_index, answered(op), op, "that the queue was empty")
        for op in operations
        if op.f == "dequeue" and is_ok(op) and op.result is None
    ]
    return sorted(evidence, key=lambda entry: entry[:2])


def _too_few_takers(operations: Sequence[Operation], elements: Sequence[_Element]) -> Iterator[Finding]:
    """Elements that nobody returned and that were gone by some answer, more of them than there were dequeues of unknown
    result invoked by then. Only of elements that were enqueued once, and where no drain is of unknown outcome."""
    unknown = [op for op in not_failed(operations) if op.f != "enqueue" and not is_ok(op)]
    if any(op.f == "drain" for op in unknown):
        return
    once = [e for e in elements if len(e.into) == 1]
    after = _found_later(operations, once)
    gone: list[tuple[int, Operation, _Element]] = []
    soonest: tuple[int, Operation] | None = None
    for element in sorted(
        (e for e in once if not e.out and is_ok(e.into[0])), key=lambda e: answered(e.into[0]), reverse=True
    ):
        while after and after[-1][0] > answered(element.into[0]):
            _, until, op, _ = after.pop()
            soonest = min(soonest or (until, op), (until, op), key=lambda entry: entry[0])
        if soonest is not None:
            gone.append((*soonest, element))
    invoked = sorted(op.invoke_index for op in unknown)
    for count, (until, op, _) in enumerate(sorted(gone, key=lambda entry: entry[0]), start=1):
        if (takers := bisect_left(invoked, until)) < count:
            shown = [element for by, _, element in gone if by <= until][:count]
            names = ", ".join(repr(element.value)[:40] for element in shown[:_SHOWN_MAX])
            steps = (
                f"{describe(op)} returned {op.result!r:.80}, which was enqueued after "
                if op.result is not None
                else f"{describe(op)} found the queue empty after ",
                f"{names}{' and more' if count > _SHOWN_MAX else ''} had been enqueued; nobody ever returned "
                f"{'it' if count == 1 else 'these ' + str(count)}.",
                f"Dequeues of unknown result that may have taken any of them: {takers}.",
            )
            by_then = tuple(taker for taker in unknown if taker.invoke_index < until)
            into = tuple(element.into[0] for element in shown)
            yield Finding(
                about=0, anomaly="lost-element", operations=(op, *into, *by_then), steps=(steps[0] + steps[1], steps[2])
            )
            return


def _in_until(element: _Element) -> float:
    """The event up to which an element that was enqueued is in the queue for certain."""
    return element.out[0].invoke_index if element.out else math.inf


def _flaw_of(element: _Element) -> Iterator[Finding]:
    for op in element.out:
        if all(answered(op) < other.invoke_index for other in element.into):
            later = f"; {describe(element.into[0])} came after" if element.into else ""
            steps: tuple[str, ...] = (
                f"{describe(op)} returned {element.value!r:.80}.",
                f"Nobody had enqueued that{later}.",
            )
            yield Finding(about=0, anomaly="invented-element", operations=(op, *element.into[:1]), steps=steps)
            return
    if len(element.out) > len(element.into):
        steps = (
            f"{element.value!r:.80} was enqueued {len(element.into)} times and taken {len(element.out)} times: by "
            + "; ".join(describe(op) for op in element.out[:_SHOWN_MAX])
            + ".",
        )
        yield Finding(
            about=0, anomaly="duplicate-element", operations=(element.out[-1], *element.out[:-1]), steps=steps
        )


def _explain(refused: RefutedObject) -> tuple[str, tuple[str, ...]]:
    names, states = refused.names, refused.states
    seen = [element for _, element in _outputs(refused.operations)]
    heads = [names[state[0]] for state in states if state]
    lost = [head for head in heads if head not in seen]
    known = bool(heads) and len(heads) == len(states) and not refused.more_states
    if known and len(lost) == len(heads):
        why = f"It was enqueued before and stands first: {lost[0]!r:.80}; no dequeue ever returned it."
        return "lost-element", (why,)
    wanted = outputs_of(refused.failed)
    if known and not wanted:
        return "lost-element", (f"It was not empty: {heads[0]!r:.80} stands first in it.",)
    if known and all(any(names[number] in wanted for number in state) for state in states):
        return "reordered-element", (f"{heads[0]!r:.80} was enqueued before and stands first.",)
    return NON_LINEARIZABLE, ()


def _holds(state: Sequence[int], names: Sequence[Value]) -> str:
    if not state:
        return "an empty queue"
    shown = ", ".join(repr(names[number])[:40] for number in state[:_SHOWN_MAX])
    return f"a queue of {shown}" + (f" and {len(state) - _SHOWN_MAX} more" if len(state) > _SHOWN_MAX else "")


QUEUE: Final = ObjectKind(
    name="queue",
    native="queue",
    changes=frozenset({"enqueue"}),
    tells=frozenset({"dequeue", "drain"}),
    impossible=unreadable(_read),
    encode=_encode,
    flaws=_flaws,
    explain=_explain,
    holds=_holds,
    chances=(
        Chance("lost-element", frozenset({"dequeue", "drain"}), frozenset({"enqueue"})),
        Chance("reordered-element", frozenset({"dequeue", "drain"}), frozenset({"enqueue"})),
        Chance("invented-element", frozenset({"dequeue", "drain"})),
        Chance("duplicate-element", frozenset({"dequeue", "drain"})),
    ),
)
