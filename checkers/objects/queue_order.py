"""One order that explains a queue, found without a search: elements go out as they came in, so their order is one.

An element comes before another when its enqueue, or its dequeue, was over before the other's began (or the other was
never taken). Elements are ordered so, the next being one that nothing left has to precede; then every operation is put
as early as that order allows. Where elements were enqueued once and no dequeue found the queue empty there is an order
whenever no two elements contradict each other (Henzinger, Sezgin & Vafeiadis, "Aspect-Oriented Linearizability Proofs",
CONCUR 2013); elsewhere this may miss one. What it finds is replayed, so it need not be believed.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from checkers.objects.calls import Numbers, answered, is_ok
from harness.operation import Operation

_ENQUEUE: Final = 0
_DEQUEUE: Final = 1
_EMPTY: Final = 2


class Step(msgspec.Struct, frozen=True):
    """A part of an operation: it puts in, takes out, or finds nothing; `place` counts the parts of a drain."""

    kind: int
    op: Operation
    element: int = -1
    place: int = 0

    @property
    def until(self) -> float:
        return answered(self.op) if is_ok(self.op) else math.inf


class _Element(msgspec.Struct):
    into: Step
    out: Step | None

    @property
    def taken_since(self) -> float:
        return math.inf if self.out is None else self.out.op.invoke_index

    @property
    def taken_until(self) -> tuple[float, int]:
        return (math.inf, 0) if self.out is None else (self.out.until, self.out.place)


def steps_of(operations: Sequence[Operation]) -> list[Step]:
    """Everything that must be explained, and enqueues of unknown outcome."""
    numbers = Numbers()
    found = []
    for op in operations:
        if op.f == "enqueue":
            found.append(Step(_ENQUEUE, op, numbers.number(op.value)))
        elif is_ok(op) and op.f == "dequeue" and op.result is None:
            found.append(Step(_EMPTY, op))
        elif is_ok(op):
            taken = op.result if op.f == "drain" else [op.result]
            found += [Step(_DEQUEUE, op, numbers.number(value), place) for place, value in enumerate(taken or ())]
    return found


def is_explained(operations: Sequence[Operation]) -> bool:
    """Whether the order that is found explains all of `operations`, none of which failed."""
    steps = steps_of(operations)
    elements = _ordered(_elements(steps))
    if elements is None:
        return False
    order = _placed(elements, [step for step in steps if step.kind == _EMPTY])
    return replays(steps, order)


def _elements(steps: Sequence[Step]) -> list[_Element]:
    """Enqueues with their dequeues, in order of invocation; those of unknown outcome only where somebody took it."""
    out: dict[int, deque[Step]] = {}
    for step in steps:
        if step.kind == _DEQUEUE:
            out.setdefault(step.element, deque()).append(step)
    found = []
    for step in steps:
        if step.kind == _ENQUEUE:
            taken = out.get(step.element)
            if taken or is_ok(step.op):
                found.append(_Element(step, taken.popleft() if taken else None))
    return found


def _ordered(elements: list[_Element]) -> list[_Element] | None:
    """By what must precede what; None where elements contradict each other."""
    waiting = deque(sorted(elements, key=lambda e: e.into.op.invoke_index))
    first_in = [(e.into.until, i) for i, e in enumerate(elements)]
    first_out = [(e.taken_until[0], i) for i, e in enumerate(elements)]
    heapq.heapify(first_in)
    heapq.heapify(first_out)
    number = {id(e): i for i, e in enumerate(elements)}
    done = [False] * len(elements)
    near: list[_Element] = []
    order: list[_Element] = []
    while len(order) < len(elements):
        for heap in (first_in, first_out):
            while done[heap[0][1]]:
                heapq.heappop(heap)
        while waiting and waiting[0].into.op.invoke_index <= first_in[0][0]:
            near.append(waiting.popleft())
        free = [e for e in near if e.taken_since <= first_out[0][0]]
        if not free:
            return None
        chosen = min(free, key=lambda e: (e.taken_until, e.into.until))
        near.remove(chosen)
        done[number[id(chosen)]] = True
        order.append(chosen)
    return order


def _placed(elements: Sequence[_Element], empties: Sequence[Step]) -> list[Step]:
    """Every operation as early as that order allows; a dequeue that found nothing in the first gap that it fits."""
    waiting = deque(sorted(empties, key=lambda step: step.op.invoke_index))
    # When, after how many empty moments, in before out, which element.
    placed: list[tuple[float, int, int, int, Step]] = []
    came, went, gaps = 0.0, 0.0, 0
    # By when the next element must be in, for itself and for those behind it.
    latest = [math.inf]
    for element in reversed(elements):
        latest.append(min(latest[-1], element.into.until, element.taken_until[0]))
    latest.reverse()
    for i in range(len(elements) + 1):
        while waiting:
            empty = waiting[0]
            at = max(went, empty.op.invoke_index)
            if at > empty.until or latest[i] < at:
                break
            placed.append((at, gaps, _EMPTY, i, waiting.popleft()))
            came, gaps = max(came, at), gaps + 1
        if i == len(elements):
            break
        element = elements[i]
        came = max(came, element.into.op.invoke_index)
        placed.append((came, gaps, _ENQUEUE, i, element.into))
        went = max(went, came, element.taken_since)
        if element.out is not None:
            placed.append((went, gaps, _DEQUEUE, i, element.out))
    return [step for *_, step in sorted(placed, key=lambda entry: entry[:4])]


def replays(steps: Sequence[Step], order: Sequence[Step]) -> bool:
    """Whether `order` is one: all that returned, each once, in real time, and the queue does what was seen."""
    place = {id(step): i for i, step in enumerate(order)}
    required = [step for step in steps if is_ok(step.op)]
    if len(place) != len(order) or not all(id(step) in place for step in required):
        return False
    known = {id(step) for step in steps}
    held: deque[int] = deque()
    parts: dict[int, int] = {}
    latest = -1
    for step in order:
        if step.until < latest or id(step) not in known:
            return False
        latest = max(latest, step.op.invoke_index)
        if step.kind == _ENQUEUE:
            held.append(step.element)
        elif step.kind == _EMPTY:
            if held:
                return False
        else:
            if parts.setdefault(id(step.op), 0) != step.place or not held or held.popleft() != step.element:
                return False
            parts[id(step.op)] += 1
    return True
