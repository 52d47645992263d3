"""Collections: `linearizable-set`, `queue` (first in, first out), `bag` (in no order), `stack`, `priority-queue`.

A set has `add`, `remove`, `contains` (its result: true or false), `members` (its result: all elements). Without a read
of all elements each element is an object of its own, and is judged alone.

The others have `enqueue` and `dequeue` (its result; nil: it was empty), a stack `push` and `pop`. A queue and a bag
also have `drain`, which dequeues one element after the other; it is no single step, and says nothing of the end. One of
unknown outcome may have taken any number of the elements that nobody else got.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.positions import answered, is_ok, not_failed
from fencepost.checkers.objects.kind import NON_LINEARIZABLE, Call, Calls, Chance, Kind, Quick, chance
from fencepost.checkers.objects.model import UNKNOWN
from fencepost.checkers.violations.finding import Finding, describe
from fencepost.checkers.violations.impossible import named, same_again, something, whole, wrong
from fencepost.harness.history import Operation, Value

_SHOWN_MAX: Final = 5


def text(value: Value) -> str:
    """Return the JSON text of a value; equal values have equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


class Elements(Kind):
    """An object that holds elements, `initial` at first; a call's numbers are theirs."""

    def __init__(self, initial: Sequence[Value] = ()) -> None:
        super().__init__()
        self.initial = list(map(self.number, initial))

    def number_of(self, op: Operation, what: str) -> int:
        return self.number(something(op, op.value, what))

    def text(self, number: int) -> str:
        return text(self.value_of(number))

    def start(self, about: Collection[str] | None) -> Any:
        held = copy(self)
        if about is not None:
            held.initial = [number for number in self.initial if self.text(number) in about]
        return held.init()


class Set(Elements):
    """The state has one bit for each element. A `members` whose result is -1 showed an element twice."""

    name = "linearizable-set"
    reads = frozenset({"contains", "members"})
    changes = frozenset({"add", "remove"})
    tells = reads
    chances = (
        chance("duplicate-element", "members"),
        chance("invented-element", "contains members"),
        chance("stale-read", "contains members", "add"),
        chance("lost-element", "contains members", "add"),
        chance("resurrected-element", "contains members", "add"),
    )

    def init(self) -> Any:
        return bits(self.initial)

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        match f:
            case "add":
                return state | 1 << value
            case "remove":
                return state & ~(1 << value)
            case "contains":
                return state if (state >> value & 1) == result else None
        return state if state == result else None

    def read(self, op: Operation) -> Call | None:
        if op.f in self.changes:
            same_again(op)
        if op.f != "members":
            value = self.number_of(op, "the element")
            if op.f == "contains" and is_ok(op) and not isinstance(op.result, bool):
                wrong(op, f"contains returned {named(op.result)}; expected true or false")
            return Call(op.f, value, op.result) if is_ok(op) or op.f != "contains" else None
        if not is_ok(op):
            return None
        numbers = list(map(self.number, shown(op)))
        return Call(op.f, None, bits(numbers) if len(set(numbers)) == len(numbers) else -1)

    def quick(self, operations: Sequence[Operation], calls: Calls) -> Quick:
        """Without a read of all, each element by itself, as the element number 0."""
        if self.initial or any(call.f == "members" for _, call in calls):
            return Quick(self, {None: calls})
        parts: dict[str | None, list[tuple[Operation, Call]]] = {}
        for op, call in calls:
            parts.setdefault(self.text(call.value), []).append((op, call._replace(value=0)))
        return Quick(self, parts)

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """Elements that nobody had added yet, each where it was first seen; and elements that one read shows twice."""
        added: dict[int, Operation] = {}
        for op in not_failed(operations):
            if op.f == "add":
                added.setdefault(self.number(op.value), op)
        reported = set(self.initial)
        for op in operations:
            in_this = set[int]()
            for element in shown(op) if is_ok(op) and op.f == "members" else [op.value] if op.result is True else ():
                number = self.number(element)
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
                    operations = (op, maker) if maker else (op,)
                    yield Finding(about=0, anomaly="invented-element", operations=operations, steps=steps)

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        if failed.f not in self.reads or not states:
            return NON_LINEARIZABLE, ""
        concerned = 1 << failed.value if failed.f == "contains" else ~0
        seen = self._seen(failed)
        in_all, in_any = concerned, 0
        for state in states:
            in_all, in_any = in_all & state, in_any | state
        if missing := in_all & ~seen:
            ever = any(missing & self._seen(call) for _, call in others)
            why = f"It lacks {self.listed(numbers_in(missing))}, which must be there."
            return "stale-read" if ever else "lost-element", why
        if gone := seen & ~in_any:
            return "resurrected-element", f"It shows {self.listed(numbers_in(gone))}, which must be gone."
        return NON_LINEARIZABLE, ""

    def whole(self, part: str, states: Sequence[Any], calls: Sequence[Call]) -> tuple[Sequence[Any], Sequence[Call]]:
        number = self.number(msgspec.json.decode(part))
        return [state << number for state in states], [call._replace(value=number) for call in calls]

    def _seen(self, call: Call) -> int:
        """The elements that a call found."""
        if call.f == "contains":
            return int(call.result << call.value)
        return max(int(call.result), 0) if call.f == "members" else 0

    def show(self, state: Any) -> str:
        return f"a set of {self.listed(numbers_in(state))}" if state else "an empty set"

    def makes(self, call: Call) -> Iterable[Any]:
        return (call.value,) if call.f == "add" else ()

    def sees(self, call: Call) -> Iterable[Any]:
        return numbers_in(self._seen(call))

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        if call.f == "members":
            return None if call.result < 0 else call.result
        if about is None or len(about) != 1:
            return None
        return 1 << call.value if call.f == "add" or call.result is True else 0

    def parts(self, call: Call) -> Iterable[str]:
        return map(self.text, numbers_in(self._seen(call)) if call.f == "members" else (call.value,))

    def only(self, calls: Calls, about: Collection[str]) -> Calls:
        mask = bits(number for number in range(len(self.names.named)) if self.text(number) in about)
        return [
            (op, call._replace(result=call.result & mask) if call.f == "members" and call.result > 0 else call)
            for op, call in calls
            if call.f == "members" or mask >> call.value & 1
        ]


def shown(op: Operation) -> list[Value]:
    """All that an ok read of a set returned; a set that is not there is empty."""
    if op.result is None:
        return []
    if not isinstance(op.result, list):
        wrong(op, f"the read of a set returned {op.result!r:.80}; expected its elements")
    return op.result


def bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def numbers_in(state: int) -> Iterator[int]:
    """The places of the bits of a set; none of one below 0."""
    while state > 0:
        lowest = state & -state
        yield lowest.bit_length() - 1
        state ^= lowest


def outputs_of(op: Operation) -> list[Value]:
    """The elements that an ok operation took out, in order; none for one that put an element in."""
    if op.f in ("dequeue", "pop"):
        return [] if op.result is None else [op.result]
    if op.f != "drain":
        return []
    elements = [] if op.result is None else op.result
    if not isinstance(elements, list):
        wrong(op, f"a drain returned {elements!r:.80}; expected its elements, in order")
    return [something(op, element, "an element of a drain") for element in elements]


class _Element(msgspec.Struct):
    """Who enqueued an element, and who took it out."""

    into: list[Operation]
    out: list[Operation]

    @property
    def until(self) -> float:
        """The event up to which the element, once enqueued, is in for certain."""
        return self.out[0].invoke_index if self.out else math.inf


class Bag(Elements):
    """What was enqueued comes out once, in any order.

    The state is what is in (sorted, where its order does not matter), and which drains go on at which element.
    """

    name = "bag"
    changes = frozenset({"enqueue"})
    tells = frozenset({"dequeue", "drain"})
    chances: tuple[Chance, ...] = (
        chance("lost-element", "dequeue drain", "enqueue"),
        chance("invented-element", "dequeue drain"),
        chance("duplicate-element", "dequeue drain"),
    )
    #: The name of an empty one.
    empty = "an empty bag"
    into = "enqueue"
    put = "enqueued"

    def __init__(self, initial: Sequence[Value] = ()) -> None:
        super().__init__(initial)
        self._has_drains = False

    def init(self) -> Any:
        held: tuple[int, ...] = ()
        for number in self.initial:
            held = self.joined(held, number)
        return (held, frozenset())

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        held, drains = state
        if f == self.into:
            return (self.joined(held, value), drains)
        if result is UNKNOWN:
            return [(self.rest(held, element), drains) for element in set(self.first(held))] or state
        if result is None:
            return None if held else state
        if result not in self.first(held):
            return None
        if f == "drain":
            drain, place = value
            if place and value not in drains:
                return None
            drains = drains - {value} | {(drain, place + 1)}
        return (self.rest(held, result), drains)

    def joined(self, held: tuple[int, ...], number: int) -> tuple[int, ...]:
        """What is in once an element went in."""
        numbers = list(held)
        insort(numbers, number)
        return tuple(numbers)

    def first(self, held: tuple[int, ...]) -> tuple[int, ...]:
        """What may come out next."""
        return held

    def rest(self, held: tuple[int, ...], number: int) -> tuple[int, ...]:
        """What is in once such an element came out."""
        at = held.index(number)
        return held[:at] + held[at + 1 :]

    def read(self, op: Operation) -> Call | None:
        """The call of an enqueue; a dequeue is checked only, and may be several calls."""
        if op.f == self.into:
            same_again(op)
            return Call(op.f, self.number_of(op, f"the element of {'an' if op.f == 'enqueue' else 'a'} {op.f}"))
        if is_ok(op):
            outputs_of(op)
        return None

    def calls(self, operations: Sequence[Operation]) -> list[tuple[Operation, Call]]:
        calls: list[tuple[Operation, Call]] = []
        surplus = self._never_seen(operations)
        for op in not_failed(operations):
            if op.f == self.into:
                calls.append((op, Call(op.f, self.number(op.value))))
            elif not is_ok(op):
                calls += [(op, Call("dequeue", None, UNKNOWN))] * min(surplus, surplus if op.f == "drain" else 1)
            elif op.f == "drain":
                calls += [(op, call) for call in self._drain(op)]
            else:
                calls.append((op, Call("dequeue", None, None if op.result is None else self.number(op.result))))
        return calls

    def _drain(self, op: Operation) -> list[Call]:
        self._has_drains = True
        return [
            Call("drain", (op.invoke_index, place), self.number(element))
            for place, element in enumerate(outputs_of(op))
        ]

    def _never_seen(self, operations: Sequence[Operation]) -> int:
        """How many elements calls of unknown result can have taken: those put in that no known one returned."""
        out = Counter(self.number(value) for op in operations if is_ok(op) for value in outputs_of(op))
        into = Counter(self.initial)
        for op in not_failed(operations):
            # One of unknown outcome matters only where its element was seen, and then it is none too many.
            if op.f == self.into and (is_ok(op) or out[self.number(op.value)]):
                into[self.number(op.value)] += 1
        return (into - out).total()

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """Elements that nobody had put in yet, those that came out more often than they went in, and lost ones."""
        if self.initial:
            return
        elements: dict[int, _Element] = {}
        for op in not_failed(operations):
            if op.f == self.into:
                elements.setdefault(self.number(op.value), _Element([], [])).into.append(op)
            for value in outputs_of(op) if is_ok(op) else ():
                elements.setdefault(self.number(value), _Element([], [])).out.append(op)
        plain = [flaw for number, element in elements.items() for flaw in self._flaw_of(number, element)]
        yield from plain or self._missed(operations, elements)

    def _flaw_of(self, number: int, element: _Element) -> Iterator[Finding]:
        value = self.value_of(number)
        for op in element.out:
            if all(answered(op) < other.invoke_index for other in element.into):
                later = f"; {describe(element.into[0])} came after" if element.into else ""
                steps: tuple[str, ...] = (
                    f"{describe(op)} returned {value!r:.80}.",
                    f"Nobody had {self.put} that{later}.",
                )
                yield Finding(about=0, anomaly="invented-element", operations=(op, *element.into[:1]), steps=steps)
                return
        if len(element.out) > len(element.into):
            by = "; ".join(describe(op) for op in element.out[:_SHOWN_MAX])
            times = f"was {self.put} {len(element.into)} times and taken {len(element.out)} times"
            steps = (f"{value!r:.80} {times}: by {by}.",)
            operations = (element.out[-1], *element.out[:-1])
            yield Finding(about=0, anomaly="duplicate-element", operations=operations, steps=steps)

    def _missed(self, operations: Sequence[Operation], elements: dict[int, _Element]) -> Iterator[Finding]:
        """The first call that shows an element to be gone which was certainly in all the while (Henzinger, Sezgin &
        Vafeiadis, CONCUR 2013). Only of elements that were put in once; and of those that nobody took only where no
        call that takes is of unknown result.
        """
        unknown = any(op.f != self.into and not is_ok(op) for op in not_failed(operations))
        once = [e for e in elements.values() if len(e.into) == 1 and (e.out or not unknown)]
        before = sorted((e for e in once if is_ok(e.into[0])), key=lambda e: answered(e.into[0]))
        longest: _Element | None = None
        at = 0
        for since, op in sorted(self._gone(operations, once), key=lambda entry: (entry[0], answered(entry[1]))):
            while at < len(before) and answered(before[at].into[0]) < since:
                if longest is None or longest.until < before[at].until:
                    longest = before[at]
                at += 1
            if longest is None or longest.until <= answered(op):
                continue
            first = longest.into[0]
            end = f"{describe(longest.out[0])} took it only later" if longest.out else "nobody ever took it"
            lost = not longest.out or op.result is None
            steps = (
                f"{describe(op)} returned {'that it was empty' if op.result is None else named(op.result)}.",
                f"{describe(first)} came before, and {end}.",
            )
            anomaly = "lost-element" if lost else "reordered-element"
            yield Finding(about=0, anomaly=anomaly, operations=(op, first, *longest.out), steps=steps)
            return

    def _gone(self, operations: Sequence[Operation], once: Sequence[_Element]) -> list[tuple[int, Operation]]:
        """The ok calls that show that all was gone which had certainly been put in before an event."""
        return [
            (op.invoke_index, op)
            for op in operations
            if op.f in self.tells and op.f != "drain" and is_ok(op) and op.result is None
        ]

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        held = [self.elements_in(state) for state in states]
        if failed.f == self.into or not held or not all(held):
            return NON_LINEARIZABLE, ""
        if failed.result is None:
            return "lost-element", f"It was not empty: {self.listed(held[0][:1])} was in it."
        seen = {call.result for _, call in others}
        lost = [state[0] for state in held if state[0] not in seen]
        if len(lost) == len(held) and type(self) is not Bag:
            why = f"{self.listed(lost[:1])} went in before and was to come out first; nothing ever returned it."
            return "lost-element", why
        if all(failed.result in state for state in held) and type(self) is not Bag:
            return "reordered-element", f"{self.listed(held[0][:1])} was to come out first."
        return NON_LINEARIZABLE, ""

    def elements_in(self, state: Any) -> Sequence[int]:
        """The elements of a state, first what is to come out first."""
        return tuple(state[0])

    def show(self, state: Any) -> str:
        held = self.elements_in(state)
        return f"{self.empty.replace('n empty', '')} of {self.listed(held)}" if held else self.empty

    def reads_only(self, call: Call) -> bool:
        return call.f != self.into and call.result is None

    def makes(self, call: Call) -> Iterable[Any]:
        return (call.value,) if call.f == self.into else ()

    def sees(self, call: Call) -> Iterable[Any]:
        return () if call.f == self.into or call.result in (None, UNKNOWN) else (call.result,)

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        """Behind a drain it would also matter how far that had come."""
        return ((), frozenset()) if self.reads_only(call) and not self._has_drains else None

    def parts(self, call: Call) -> Iterable[str]:
        return map(self.text, (*self.makes(call), *self.sees(call)))

    def only(self, calls: Calls, about: Collection[str]) -> Calls:
        # Without the others of its drain an element's place says nothing.
        dequeues = ((op, Call("dequeue", None, call.result) if call.f == "drain" else call) for op, call in calls)
        return [(op, call) for op, call in dequeues if all(part in about for part in self.parts(call))]


class Queue(Bag):
    """First in, first out: the head stands first in the state."""

    name = "queue"
    empty = "an empty queue"
    chances = (Bag.chances[0], chance("reordered-element", "dequeue drain", "enqueue"), *Bag.chances[1:])

    def joined(self, held: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*held, number)

    def first(self, held: tuple[int, ...]) -> tuple[int, ...]:
        return held[:1]

    def _gone(self, operations: Sequence[Operation], once: Sequence[_Element]) -> list[tuple[int, Operation]]:
        """Also those that returned what was enqueued later."""
        return [(e.into[0].invoke_index, e.out[0]) for e in once if e.out] + super()._gone(operations, once)


class Stack(Bag):
    """Last in, first out."""

    name = "stack"
    changes = frozenset({"push"})
    tells = frozenset({"pop"})
    chances = (
        chance("lost-element", "pop", "push"),
        chance("reordered-element", "pop", "push"),
        chance("invented-element", "pop"),
        chance("duplicate-element", "pop"),
    )
    empty = "an empty stack"
    into = "push"
    put = "pushed"

    def joined(self, held: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*held, number)

    def first(self, held: tuple[int, ...]) -> tuple[int, ...]:
        return held[-1:]

    def rest(self, held: tuple[int, ...], number: int) -> tuple[int, ...]:
        return held[:-1]

    def elements_in(self, state: Any) -> Sequence[int]:
        return tuple(reversed(state[0]))


class PriorityQueue(Bag):
    """The least comes out first; elements are integers."""

    name = "priority-queue"
    chances = Queue.chances
    empty = "an empty priority queue"

    def number(self, value: Value) -> int:
        return value if type(value) is int else super().number(value)

    def value_of(self, number: int) -> Value:
        return number

    def number_of(self, op: Operation, what: str) -> int:
        return whole(op, op.value, what)

    def first(self, held: tuple[int, ...]) -> tuple[int, ...]:
        return held[:1]
