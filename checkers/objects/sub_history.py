"""A few operations of an object that no order explains, and why that refutes all of its history.

A sub-history names operations that *must* be explained and some that *may* have taken effect from their invocation on,
or not. It begins with the history, or behind an operation after which the object's state is known whatever was before
(a read of all that it is about). Of the rest of the history it may leave out only what cannot make an order where there
is none:

- what was invoked when the last one that must be explained had returned: it comes after all of them;
- what had returned when the operation that it begins behind was invoked: it comes before that;
- what changes nothing, and what does not matter to the elements, registers, accounts or offsets that it is about;
- what the object's specification lets go for reasons of its own (`Specification.spare`).

If the history has an order, take what is left of it between the two ends: each operation that is named finds there what
it found. That a named operation only may take effect allows more orders, never fewer. So what has no order refutes the
history; and orders are looked for by the plain search of `checkers.objects.python_search` over the plain objects of
`checkers.objects.specification`, which share nothing with the native core.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.objects.python_search import SearchedCall, Step, kinds_of, search
from fencepost.checkers.objects.specification import Move, Specification, ended, is_known
from fencepost.checkers.objects.specifications import specification
from fencepost.harness.history import Operation, Outcome
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
    """One key's operations, with the specification that a sub-history is checked by."""

    def __init__(self, operations: Sequence[Operation], name: str, about: Collection[str] | None) -> None:
        self.operations = [op for op in operations if op.type is not Outcome.FAIL]
        thing = specification(name, self.operations, about)
        if thing is None:
            raise ValueError(f"no object is called {name!r}")
        self.object: Specification = thing
        self.at = {op.invoke_index: op for op in self.operations}
        self._changing = [
            (op.invoke_index, ended(op)) for op in self.operations if self.object.changes(op) and self.object.moves(op)
        ]
        #: Steps of all searches so far.
        self.spent = 0

    def may(self, must: Collection[int], since: int | None) -> list[int]:
        """What cannot be left out beside `must`, and need not be explained."""
        beside = self._beside(must, since)
        named = {*must, *([] if since is None else [since])}
        while needed := beside - named - self.object.spare(named):
            named |= needed
        return sorted(named & beside - set(must))

    def _beside(self, must: Collection[int], since: int | None) -> set[int]:
        """What changes anything and can take effect before the last of `must` and behind `since`."""
        until = max(ended(self.at[row]) for row in must)
        begin = -1 if since is None else since
        return {row for row, returned in self._changing if row <= until and returned >= begin and row != since}

    def refuted(self, must: Sequence[int], may: Sequence[int], since: int | None, steps: int) -> Objection | None:
        """Why the sub-history proves nothing; None: no order explains it."""
        if (flaw := self._flaw(must, may, since)) is not None:
            return Objection(reason=flaw)
        start = self.object.start if since is None else self.object.after(self.at[since])
        return self._ordered([self.at[row] for row in must], [self.at[row] for row in may], start, steps)

    def _flaw(self, must: Sequence[int], may: Sequence[int], since: int | None) -> str | None:
        """Why these are no sub-history from which anything could follow."""
        if not must:
            return "no operation has to be explained"
        named = {*must, *may, *([] if since is None else [since])}
        if len(named) != len(must) + len(may) + (since is not None):
            return "an operation is named twice"
        if missing := sorted(named - set(self.at)):
            return f"event {missing[0]} invokes no operation on it that may have taken effect"
        if unknown := [row for row in (*must, *([] if since is None else [since])) if not is_known(self.at[row])]:
            return f"the operation of event {unknown[0]} need not have taken effect"
        if since is not None and self.object.after(self.at[since]) is None:
            return f"the operation of event {since} does not tell all that the object then holds"
        if since is not None and (early := [row for row in must if row < ended(self.at[since])]):
            return f"the operation of event {early[0]} need not come behind that of event {since}"
        if left_out := sorted(self._beside(must, since) - named - self.object.spare(named)):
            return f"the operation of event {left_out[0]} is left out, and may matter"
        return None

    def _ordered(self, must: Sequence[Operation], may: Sequence[Operation], start: Any, steps: int) -> Objection | None:
        if self.object.refutes(start, must, may):
            return None
        moves = [(move, op, op.complete_index) for op in must for move in self.object.moves(op)]
        moves += [(move, op, None) for op in may for move in self.object.moves(op)]
        calls, step = _numbered(self.object, [(move, op.invoke_index, until) for move, op, until in moves], start)
        result = search(calls, step, steps=steps, wall_s=_WALL_S)
        self.spent += result.steps
        if result.stop is not None:
            return Objection(reason=f"the search for an order ended early: {result.stop.sentence}", stop=result.stop)
        if result.failed is None:
            return Objection(reason=f"there is an order: {[moves[call][1].invoke_index for call in result.order]}")
        return None

    def explained(self, order: Sequence[int]) -> str | None:
        """Why `order` (events; a drain's once for each element) explains not all of the operations; None: it does."""
        if missing := [row for row in order if row not in self.at]:
            return f"event {missing[0]} invokes no operation on it that may have taken effect"
        latest, moves = -1, list[Move]()
        left = {row: list(reversed(self.object.moves(op))) for row, op in self.at.items()}
        for row in order:
            op = self.at[row]
            if ended(op) < latest:
                return f"the operation of event {row} had returned before others were invoked that it follows"
            latest = max(latest, row)
            if not left[row]:
                return f"the operation of event {row} stands there too often"
            moves.append(left[row].pop())
        if (refused := self.object.first_refused(moves)) is not None:
            return f"the operation of event {order[refused]} cannot follow those before it"
        if missing := [row for row, op in self.at.items() if left[row] and is_known(op)]:
            return f"the operation of event {missing[0]} is missing"
        return None

    def completed(self, order: Sequence[int]) -> list[int]:
        """`order` with the operations that it lacks, which changes nothing and are allowed anywhere in their time."""
        there = set(order)
        lacking = [
            op
            for row, op in self.at.items()
            if row not in there and is_known(op) and not self.object.changes(op) and self.object.moves(op)
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


def _numbered(
    thing: Specification, given: Sequence[tuple[Move, int, int | None]], start: Any
) -> tuple[list[SearchedCall], Step]:
    """The calls and the step of `checkers.objects.python_search`: moves and states by numbers."""
    kinds = kinds_of([move for move, _, _ in given])
    moves = {kind: move for kind, (move, _, _) in zip(kinds, given, strict=True)}
    states, numbers = [start], {start: 0}

    def step(state: int, kind: int) -> int | None:
        after = thing.step(states[state], moves[kind])
        if after is None:
            return None
        if after not in numbers:
            numbers[after] = len(states)
            states.append(after)
        return numbers[after]

    return [SearchedCall(kind, at, until) for kind, (_, at, until) in zip(kinds, given, strict=True)], step


def objection(operations: Sequence[Operation], proof: VerdictProof) -> Objection | None:
    """What is wrong with a kept proof about one key's `operations`; None: it holds."""
    try:
        rows = KeyRows(operations, proof.name, proof.about)
    except ValueError as error:
        return Objection(reason=str(error))
    if proof.kind == KIND:
        return rows.refuted(proof.rows, proof.may, proof.since, STEPS_MAX)
    wrong = rows.explained(proof.rows) if proof.kind == "order" else f"no proof about objects is a {proof.kind!r}"
    return None if wrong is None else Objection(reason=wrong)
