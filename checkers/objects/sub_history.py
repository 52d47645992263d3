"""A few operations of an object that no order explains, and why that refutes all of its history.

A sub-history names operations that *must* be explained and some that *may* have taken effect from their invocation on,
or not. It begins with the history, or behind an operation after which the object's state is known whatever was before
(a read of all that it is about). Of the rest of the history it may leave out only what cannot make an order where there
is none:

- what was invoked when the last one that must be explained had returned: it comes after all of them;
- what had returned when the operation that it begins behind was invoked: it comes before that;
- what changes nothing, and what does not matter to the elements, registers, accounts or offsets that it is about;
- what alone made something that nobody named saw (`Kind.makes`).

If the history has an order, take what is left of it between the two ends: each operation that is named finds there
what it found. That a named operation only may take effect allows more orders, never fewer. So what has no order
refutes the history; and orders are looked for by the plain search of `checkers.objects.python_search`, which shares
nothing with the native core.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.positions import is_ok, not_failed
from fencepost.checkers.objects.kind import Call, Kind
from fencepost.checkers.objects.model import Steps
from fencepost.checkers.objects.models import model_of
from fencepost.checkers.objects.python_search import SearchedCall, Step, kinds_of, search
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Stop, VerdictProof

KIND: Final = "sub-history"
#: Steps for one confirmation; the largest takes seconds.
STEPS_MAX: Final = 1_000_000
_WALL_S: Final = 60.0


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    """Why a proof is not confirmed: `reason` in words; `stop` where the search for an order ended before it decided."""

    reason: str
    stop: Stop | None = None


class KeyRows:
    """One key's operations, as calls on the parts `about` of a model (as JSON; None: all of it).

    What an operation does to the rest is left out of it, which is sound for each model because its parts hold apart:
    the order of a queue's elements is that of any of them, a set's elements and a transaction's registers do not know
    of each other, and a log without some of its entries is a log.
    """

    def __init__(
        self, operations: Sequence[Operation], name: str, about: tuple[str, ...] | None, model: Kind | None = None
    ) -> None:
        self.operations = not_failed(operations)
        self.model = model or model_of(name)
        self.at = {op.invoke_index: op for op in self.operations}
        self._every = self.model.calls(self.operations)
        self._take(about)

    def only(self, about: tuple[str, ...] | None) -> "KeyRows":
        """The same operations, as calls on other parts."""
        if about == self.about:
            return self
        other = copy(self)
        other._take(about)
        return other

    def _take(self, about: tuple[str, ...] | None) -> None:
        self.about = about
        self.calls: dict[int, list[Call]] = {row: [] for row in self.at}
        for op, call in self._every if about is None else self.model.only(self._every, about):
            self.calls[op.invoke_index].append(call)
        self.__dict__.pop("_changing", None)
        #: Steps of all searches so far.
        self.spent = 0

    @cached_property
    def _changing(self) -> list[tuple[int, float]]:
        """What may change the state: where it was invoked, and by when it had taken effect."""
        return [(row, ended(op)) for row, op in self.at.items() if self.changes(op)]

    def changes(self, op: Operation) -> bool:
        """Whether `op` may change the state. If not, it can be left out of any order."""
        return not all(map(self.model.is_spare, self.calls[op.invoke_index]))

    def after(self, op: Operation) -> Any:
        """The state after the ok `op` whatever was before; None where that depends."""
        calls = self.calls[op.invoke_index]
        return self.model.after(calls[0], self.about) if len(calls) == 1 else None

    def parts(self, op: Operation) -> list[str]:
        """What `op` is about, where the object can be judged in parts."""
        return [part for call in self.calls[op.invoke_index] for part in self.model.parts(call)]

    def may(self, must: Collection[int], since: int | None) -> list[int]:
        """What cannot be left out beside `must`, and need not be explained."""
        beside = self._beside(must, since)
        named = {*must, *([] if since is None else [since])}
        while needed := beside - named - self._spare(beside, named):
            named |= needed
        return sorted(named & beside - set(must))

    def _spare(self, beside: Collection[int], named: Collection[int]) -> set[int]:
        """Those of `beside` that only make what nobody named saw."""
        if type(self.model).makes is Kind.makes:
            return set()
        seen = {token for row in named for call in self.calls.get(row, ()) for token in self.model.sees(call)}
        made = {row: {t for call in self.calls[row] for t in self.model.makes(call)} for row in beside}
        return {row for row, tokens in made.items() if tokens and not tokens & seen}

    def _beside(self, must: Collection[int], since: int | None) -> set[int]:
        """What changes anything and can take effect before the last of `must` and behind `since`."""
        until = max(ended(self.at[row]) for row in must)
        begin = -1 if since is None else since
        return {row for row, returned in self._changing if row <= until and returned >= begin and row != since}

    def refuted(self, must: Sequence[int], may: Sequence[int], since: int | None, steps: int) -> Objection | None:
        """Why the sub-history proves nothing; None: no order explains it."""
        flaw = self._flaw(must, may, since)
        return self._ordered(must, may, since, steps) if flaw is None else Objection(reason=flaw)

    def _flaw(self, must: Sequence[int], may: Sequence[int], since: int | None) -> str | None:
        """Why these are no sub-history from which anything could follow."""
        if not must:
            return "no operation has to be explained"
        named = {*must, *may, *([] if since is None else [since])}
        if len(named) != len(must) + len(may) + (since is not None):
            return "an operation is named twice"
        if missing := sorted(named - set(self.at)):
            return f"event {missing[0]} invokes no operation on it that may have taken effect"
        if unknown := [row for row in (*must, *([] if since is None else [since])) if not is_ok(self.at[row])]:
            return f"the operation of event {unknown[0]} need not have taken effect"
        if since is not None and self.after(self.at[since]) is None:
            return f"the operation of event {since} does not tell all that the object then holds"
        if since is not None and (early := [row for row in must if row < ended(self.at[since])]):
            return f"the operation of event {early[0]} need not come behind that of event {since}"
        beside = self._beside(must, since)
        if left_out := sorted(beside - named - self._spare(beside - named, named)):
            return f"the operation of event {left_out[0]} is left out, and may matter"
        return None

    def _ordered(self, must: Sequence[int], may: Sequence[int], since: int | None, steps: int) -> Objection | None:
        """The order that a sub-history has, or why none was found; None: there is none."""
        start = self.model.start(self.about) if since is None else self.after(self.at[since])
        moves = [(call, row, self.at[row].complete_index) for row in must for call in self.calls[row]]
        known = len(moves)
        moves += [(call, row, None) for row in may for call in self.calls[row]]
        every = [call for call, _, _ in moves]
        if self.model.refutes(start, every[:known], every[known:]):
            return None
        calls, step = _numbered(self.model.narrowed(every), moves, start)
        result = search(calls, step, steps=steps, wall_s=_WALL_S)
        self.spent += result.steps
        if result.stop is not None:
            return Objection(reason=f"the search for an order ended early: {result.stop.sentence}", stop=result.stop)
        if result.failed is None:
            return Objection(reason=f"there is an order: {[moves[call][1] for call in result.order]}")
        return None

    def explained(self, order: Sequence[int]) -> str | None:
        """Why `order` (events; a drain's once for each element) explains not all of the operations; None: it does."""
        if missing := [row for row in order if row not in self.at]:
            return f"event {missing[0]} invokes no operation on it that may have taken effect"
        latest, step = -1, determined(self.model)
        state = self.model.start(self.about)
        left = {row: calls[::-1] for row, calls in self.calls.items()}
        for row in order:
            if row > latest:
                latest = row
            elif ended(self.at[row]) < latest:
                return f"the operation of event {row} had returned before others were invoked that it follows"
            if not left[row]:
                return f"the operation of event {row} stands there too often"
            state = step(state, left[row].pop())
            if state is None:
                return f"the operation of event {row} cannot follow those before it"
        if missing := [row for row, op in self.at.items() if left[row] and is_ok(op)]:
            return f"the operation of event {missing[0]} is missing"
        return None

    def completed(self, order: Sequence[int]) -> list[int]:
        """`order` with the operations that it lacks, which changes nothing and are allowed anywhere in their time."""
        there = set(order)
        lacking = [
            op
            for row, op in self.at.items()
            if row not in there and is_ok(op) and not self.changes(op) and self.calls[row]
        ]
        if not lacking:
            return list(order)
        # Each goes behind the last that had returned when it was invoked.
        latest, soonest = math.inf, list[float]()
        for row in reversed(order):
            latest = min(latest, ended(self.at[row]))
            soonest.append(latest)
        soonest.reverse()
        last = {op.invoke_index: bisect_left(soonest, op.invoke_index) - 1 for op in lacking}
        waiting = sorted(last, key=lambda row: (last[row], row), reverse=True)
        whole: list[int] = []
        for place in range(-1, len(order)):
            whole += [order[place]] if place >= 0 else []
            while waiting and last[waiting[-1]] == place:
                whole.append(waiting.pop())
        return whole


class Several(frozenset[Any]):
    """All that a state may be, where the object decided by itself."""


def determined(model: Steps) -> Callable[[Any, Call], Any]:
    """The model's `step`, by one state where it returns a list: `Several`."""

    ask = model.step

    def step(state: Any, call: Call) -> Any:
        if type(state) is not Several:
            after = ask(state, *call)
            return after if type(after) is not list else several(after)
        ways = [ask(each, *call) for each in state]
        return several([one for after in ways for one in (after if type(after) is list else [after])])

    def several(states: list[Any]) -> Any:
        there = Several(state for state in states if state is not None)
        return there if len(there) > 1 else next(iter(there), None)

    return step


def _numbered(
    model: Kind, given: Sequence[tuple[Call, int, int | None]], start: Any
) -> tuple[list[SearchedCall], Step]:
    """The calls and the step of `checkers.objects.python_search`: calls and states by numbers."""
    kinds = kinds_of([call for call, _, _ in given])
    calls = {kind: call for kind, (call, _, _) in zip(kinds, given, strict=True)}
    states, numbers = [start], {start: 0}
    step_once = determined(model)

    @cache
    def step(state: int, kind: int) -> int | None:
        after = step_once(states[state], calls[kind])
        if after is None:
            return None
        if after not in numbers:
            numbers[after] = len(states)
            states.append(after)
        return numbers[after]

    return [SearchedCall(kind, at, until) for kind, (_, at, until) in zip(kinds, given, strict=True)], step


def ended(op: Operation) -> float:
    """Return the event by which `op` had certainly taken effect."""
    return op.complete_index if is_ok(op) and op.complete_index is not None else math.inf


def objection(operations: Sequence[Operation], proof: VerdictProof) -> Objection | None:
    """What is wrong with a kept proof about one key's `operations`; None: it holds."""
    try:
        own = KeyRows(operations, proof.name, proof.about)
    except (KeyError, UsageError):
        return Objection(reason=f"no object is called {proof.name!r}")
    if proof.kind == KIND:
        return own.refuted(proof.rows, proof.may, proof.since, STEPS_MAX)
    wrong = own.explained(proof.rows) if proof.kind == "order" else f"no proof about objects is a {proof.kind!r}"
    return None if wrong is None else Objection(reason=wrong)
