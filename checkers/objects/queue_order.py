"""One order that explains a queue, found without a search: elements go out as they came in, so their order is one.

Which element goes out next is settled as late as can be, when a dequeue needs it. Of equal elements the one whose
enqueue has to end first goes out first, to the dequeue that has to return first. What stands in the way of a dequeue,
or of one that found nothing, and what no known dequeue has to have, was taken by a dequeue of unknown result. Then
every operation is put as early as that order allows. Where elements were enqueued once, all results are known and no
dequeue found the queue empty, there is an order whenever no two elements contradict each other (Henzinger, Sezgin &
Vafeiadis, "Aspect-Oriented Linearizability Proofs", CONCUR 2013), and this finds one; elsewhere it may miss one. What
it finds is replayed, so it need not be believed.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.answers import answered, is_ok
from fencepost.checkers.findings.numbers import Numbers
from fencepost.harness.history import Operation

_ENQUEUE: Final = 0
_DEQUEUE: Final = 1
_EMPTY: Final = 2
_TAKE: Final = 3
#: How often the walk is begun again with one choice made otherwise, and how many of the last choices are tried so.
_ATTEMPTS_MAX: Final = 300
_CHOICES_MAX: Final = 40
_PAIRED_MAX: Final = 12
#: No further attempt is made when the walks have passed so many events.
_EVENTS_MAX: Final = 1_000_000


class Step(msgspec.Struct, frozen=True):
    """A part of an operation: it puts in, takes out, takes whatever is first, or finds nothing.

    `place` counts the parts of a drain.
    """

    kind: int
    op: Operation
    element: int = -1
    place: int = 0

    @property
    def until(self) -> float:
        return answered(self.op) if is_ok(self.op) else math.inf


class _Element(msgspec.Struct, eq=False):
    into: Step
    out: Step | None = None

    @property
    def is_certain(self) -> bool:
        return is_ok(self.into.op)

    @property
    def taken_since(self) -> float:
        return math.inf if self.out is None else self.out.op.invoke_index


def steps_of(operations: Sequence[Operation]) -> list[Step]:
    """Everything that must be explained, and enqueues of unknown outcome."""
    numbers = Numbers()
    steps = []
    for op in operations:
        if op.f == "enqueue":
            steps.append(Step(_ENQUEUE, op, numbers.number(op.value)))
        elif is_ok(op) and op.f == "dequeue" and op.result is None:
            steps.append(Step(_EMPTY, op))
        elif is_ok(op):
            elements = op.result if op.f == "drain" else [op.result]
            steps += [Step(_DEQUEUE, op, numbers.number(value), place) for place, value in enumerate(elements or ())]
    return steps


class Walked(msgspec.Struct, frozen=True):
    """An order that was replayed, or the operation that the walks came to and did not pass; or neither."""

    order: list[Step] | None = None
    stuck: Operation | None = None


def walked(operations: Sequence[Operation]) -> Walked:
    """Look for an order of `operations`, none of which failed."""
    steps = steps_of(operations)
    takers = [op for op in operations if op.f != "enqueue" and not is_ok(op)]
    empties = [step for step in steps if step.kind == _EMPTY]
    # Where a walk comes to an end it begins again with one or two of its last choices made the other way; the walk goes
    # on from the one that came furthest.
    waiting: list[frozenset[int]] = [frozenset()]
    tried = set(waiting)
    furthest, passed = -1, 0
    stuck: Operation | None = None
    for _ in range(_ATTEMPTS_MAX):
        walk = _Walk(steps, takers, waiting.pop())
        elements = walk.run()
        if elements is not None:
            order = _placed(elements, empties)
            if replays(steps, order):
                return Walked(order)
        if walk.reached > furthest:
            furthest = walk.reached
            stuck = walk.current
            last = range(walk.choices - 1, max(walk.choices - 1 - _CHOICES_MAX, -1), -1)
            pairs = [{i, j} for i in last[:_PAIRED_MAX] for j in last[:_PAIRED_MAX] if i > j]
            near = [walk.changed ^ flipped for flipped in [*({choice} for choice in last), *pairs]]
            waiting = [choices for choices in near if choices not in tried][::-1]
            tried.update(waiting)
        passed += walk.reached
        if not waiting or passed > _EVENTS_MAX:
            break
    return Walked(stuck=stuck)


class _Walk:
    """Through the events once: what is in the queue for certain, who is waiting for what, who may take all."""

    def __init__(self, steps: Sequence[Step], takers: Sequence[Operation], changed: frozenset[int]) -> None:
        #: Choices by their number that are made the other way, how many there were, and how many events were passed.
        self.changed = changed
        self.choices = 0
        self.reached = 0
        self._elements = [_Element(step) for step in steps if step.kind == _ENQUEUE]
        wanted: dict[int, deque[Step]] = {}
        for step in steps:
            if step.kind == _DEQUEUE:
                wanted.setdefault(step.op.invoke_index, deque()).append(step)
        out = Counter(step.element for step in steps if step.kind == _DEQUEUE)
        into = Counter(element.into.element for element in self._elements)
        #: How many elements of each value no known dequeue has to have.
        self._spare = {number: into[number] - out[number] for number in into}
        self._events: list[tuple[float, int, _Element | deque[Step] | Operation | Step]] = []
        for element in self._elements:
            self._events += [(element.into.op.invoke_index, 0, element)]
            self._events += [(element.into.until, 1, element)] if element.is_certain else []
        for parts in wanted.values():
            self._events += [(parts[0].op.invoke_index, 2, parts), (parts[0].until, 3, parts)]
        self._events += [(taker.invoke_index, 4, taker) for taker in takers]
        for step in steps:
            if step.kind == _EMPTY:
                self._events += [(step.op.invoke_index, 5, step), (step.until, 6, step)]
        self._events.sort(key=lambda event: event[:2])
        #: Elements that were certainly enqueued by their return and are not out, the earliest return first.
        self._first = [(e.into.until, i) for i, e in enumerate(self._elements) if e.is_certain]
        heapq.heapify(self._first)
        self._out: set[int] = set()
        #: By value, all that are not out yet and all that have to take one, by when each has to be over.
        self._equals: dict[int, list[tuple[float, int, Step | _Element]]] = {}
        self._wanted: dict[int, list[tuple[float, int, Step | _Element]]] = {}
        for place, element in enumerate(self._elements):
            heapq.heappush(self._equals.setdefault(element.into.element, []), (element.into.until, place, element))
        for place, step in enumerate(steps):
            if step.kind == _DEQUEUE:
                heapq.heappush(self._wanted.setdefault(step.element, []), (step.until, place, step))
        self._invoked: dict[int, list[_Element]] = {}
        self._returned: dict[int, _Element] = {}
        self._waiting: dict[int, deque[Step]] = {}
        self._takers: deque[Operation] = deque()
        self._drain: Operation | None = None
        self._found_empty: dict[int, Step] = {}
        self._order: list[_Element] = []

    def run(self) -> list[_Element] | None:
        """Elements as they went out, then those that stayed; None where a dequeue cannot have its own."""
        for _, kind, subject in self._events:
            self._current = subject[0].op if kind == 3 and isinstance(subject, deque) and subject else None
            if kind == 6 and isinstance(subject, Step):
                self._current = subject.op
            if not self._pass(kind, subject):
                return None
            self.reached += 1
        self._current = None
        stayed = [e for e in self._elements if e.is_certain and id(e) not in self._out]
        return self._order + sorted(stayed, key=lambda e: e.into.until)

    @property
    def current(self) -> Operation | None:
        """Of the event that was not passed."""
        return self._current

    def _pass(self, kind: int, subject: object) -> bool:
        if isinstance(subject, _Element):
            if kind == 0:
                self._invoked.setdefault(subject.into.element, []).append(subject)
                self._take_known()
            elif id(subject) not in self._out:
                self._make_empty()
                if id(subject) not in self._out:
                    self._returned[id(subject)] = subject
        elif isinstance(subject, deque):
            if kind == 2:
                self._waiting[id(subject)] = subject
                self._take_known()
            elif subject and not self._force(subject):
                return False
            else:
                del self._waiting[id(subject)]
        elif isinstance(subject, Operation):
            if subject.f == "drain":
                self._drain = self._drain or subject
            else:
                self._takers.append(subject)
        elif isinstance(subject, Step):
            if kind == 5:
                self._found_empty[id(subject)] = subject
                self._satisfy()
            elif id(subject) in self._found_empty:
                self._make_empty()
                return id(subject) not in self._found_empty
        return True

    def _choose(self, first: bool) -> bool:
        """`first`, unless this choice is one that is made the other way."""
        self.choices += 1
        return first != (self.choices - 1 in self.changed)

    def _soonest(self) -> tuple[float, _Element | None]:
        """Return the certain element whose enqueue ends first: nothing has to precede it."""
        while self._first and id(self._elements[self._first[0][1]]) in self._out:
            heapq.heappop(self._first)
        return (self._first[0][0], self._elements[self._first[0][1]]) if self._first else (math.inf, None)

    def _take(self, element: _Element, out: Step) -> None:
        element.out = out
        self._out |= {id(element), id(out)}
        self._order.append(element)
        self._invoked[element.into.element].remove(element)
        self._returned.pop(id(element), None)
        self._satisfy()

    def _satisfy(self) -> None:
        """What found the queue empty did so now, if nothing must be in it."""
        if not self._returned:
            self._found_empty.clear()

    def _first_of(self, number: int, *, certain: bool) -> _Element | None:
        """Return, of the elements of this value that nothing has to precede, the one whose enqueue ends first."""
        soonest, _ = self._soonest()
        chosen: _Element | None = None
        for element in self._invoked.get(number, ()):
            if element.into.op.invoke_index > soonest:
                break
            if element.is_certain == certain and (chosen is None or element.into.until <= chosen.into.until):
                chosen = element
        return chosen

    def _last_of(self, number: int) -> _Element | None:
        """Like `_first_of`, over certain elements; picks the one whose enqueue ends last."""
        soonest, _ = self._soonest()
        free = [e for e in self._invoked.get(number, ()) if e.is_certain and e.into.op.invoke_index <= soonest]
        return max(free, key=lambda element: element.into.until, default=None)

    def _take_known(self) -> None:
        """Let whoever waits for an element that can go out have it, where no other one could need it sooner.

        Of equal elements the next to go out is that whose enqueue ends first, and it goes to the dequeue that has to
        return first, even where either is yet to come.
        """
        moved = True
        while moved:
            moved = False
            for parts in list(self._waiting.values()):
                while parts and parts[0].until <= self._next(self._wanted, parts[0].element):
                    element = self._first_of(parts[0].element, certain=True)
                    if element is None or element.into.until > self._next(self._equals, element.into.element):
                        break
                    self._take(element, parts.popleft())
                    moved = True

    def _next(self, heaps: dict[int, list[tuple[float, int, Step | _Element]]], number: int) -> float:
        """When the first of those of this value has to be over that are not yet out."""
        heap = heaps.get(number, [])
        while heap and id(heap[0][2]) in self._out:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def _force(self, parts: deque[Step]) -> bool:
        """Whether all of `parts` could be taken now, what stands in the way being taken by others."""
        while True:
            self._take_known()
            if not parts:
                return True
            number = parts[0].element
            element = self._first_of(number, certain=True)
            if element is not None and (last := self._last_of(number)) is not element and not self._choose(True):
                element = last
            other = self._first_of(number, certain=False)
            if element is None and other is not None:
                others = any(e.is_certain for e in self._invoked[number])
                element = other if not others or self._choose(True) else None
            elif element is not None and other is not None and not self._choose(True):
                element = other
            if element is not None:
                self._take(element, parts.popleft())
            elif not self._invoked.get(number) or not self._remove(self._soonest()[1]):
                return False

    def _remove(self, element: _Element | None) -> bool:
        """Have `element` taken by a dequeue that waits for its like, else by one of unknown result."""
        if element is None:
            return False
        number = element.into.element
        waiting = [parts for parts in self._waiting.values() if parts and parts[0].element == number]
        can = self._spare[number] and (self._takers or self._drain)
        if waiting and (not can or self._choose(True)):
            self._take(element, min(waiting, key=lambda parts: parts[0].until).popleft())
            return True
        if not can:
            return False
        taker = self._takers.popleft() if self._takers else self._drain
        assert taker is not None
        self._spare[number] -= 1
        self._take(element, Step(_TAKE, taker, number))
        return True

    def _make_empty(self) -> None:
        """Where one that found nothing waits, have all taken that nobody else has to have, if that leaves nothing."""
        if not self._found_empty:
            return
        needed = Counter(element.into.element for element in self._returned.values())
        waiting = Counter(parts[0].element for parts in self._waiting.values() if parts)
        unknown = needed - waiting
        if not (self._drain or unknown.total() <= len(self._takers)):
            return
        if any(self._spare[number] < count for number, count in unknown.items()):
            return
        if self._returned and unknown and not self._choose(True):
            return
        while self._returned and self._remove(self._soonest()[1]):
            self._take_known()


def _placed(elements: Sequence[_Element], empties: Sequence[Step]) -> list[Step]:
    """Every operation as early as that order allows; a dequeue that found nothing in the first gap that it fits."""
    waiting = deque(sorted(empties, key=lambda step: step.op.invoke_index))
    # When, after how many empty moments, in before out, which element.
    placed: list[tuple[float, int, int, int, Step]] = []
    came, went, gaps = 0.0, 0.0, 0
    # By when the next element must be in, for itself and for those behind it.
    latest = [math.inf]
    for element in reversed(elements):
        out = math.inf if element.out is None else element.out.until
        latest.append(min(latest[-1], element.into.until, out))
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
        if step.until < latest or (step.kind != _TAKE and id(step) not in known):
            return False
        latest = max(latest, step.op.invoke_index)
        count = parts.setdefault(id(step.op), 0)
        if step.kind == _ENQUEUE:
            held.append(step.element)
        elif step.kind == _EMPTY:
            if held:
                return False
        elif step.kind == _TAKE:
            # One that is not known to have returned anything: a dequeue takes once, a drain as often as it likes.
            if is_ok(step.op) or step.op.f == "enqueue" or (step.op.f == "dequeue" and count) or not held:
                return False
            held.popleft()
            parts[id(step.op)] += 1
        else:
            if count != step.place or not held or held.popleft() != step.element:
                return False
            parts[id(step.op)] += 1
    return True
