"""Linearizability of any sequential object in plain Python: slow, within a budget of steps.

Just-in-time linearization (Lowe, "Testing for Linearizability", 2017): walk the invocations and returns once, hold
every configuration (state, open calls that are in) that they allow, and put further calls in only when one of them
returns. A call that never returns need not go in; of two configurations that differ only in such calls the one with
fewer of them can do whatever the other can. A first walk holds few configurations: reaching the end proves that an
order exists, running dry proves nothing, and then the exact walk decides.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import msgspec

from fencepost.harness.verdict import Stop

#: Configurations that the first walk holds.
_WIDTH: Final = 32

#: The state's number after a call's, or None where the call is not allowed.
Step = Callable[[int, int], int | None]
_Trace = tuple[int, "_Trace"] | None


class SearchedCall(msgspec.Struct, frozen=True):
    """`kind` numbers what was called with what result; `returned` is None where the outcome is unknown."""

    kind: int
    invoked: int
    returned: int | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search decided: `order` explains all calls, or is a longest one up to `failed`, which passes in none.

    `open` are the calls that had not returned then, `states` all that the object may be in. `stop` is set where the
    search ended before it decided.
    """

    order: tuple[int, ...] = ()
    failed: int | None = None
    open: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    stop: Stop | None = None
    steps: int = 0


class _Stopped(Exception):
    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.sentence)
        self.stop = stop


def search(calls: Sequence[SearchedCall], step: Step, *, steps: int, wall_s: float) -> Found:
    """Decide whether some order of `calls` is allowed by an object that begins in state 0.

    Args:
        calls: by invocation or not; times in one order.
        step: the object; each try, allowed or not, spends one step of the budget.
        steps: how many tries are allowed.
        wall_s: seconds; a backstop.

    Returns:
        An order; or the call that passes in no order; or what ended the search.

    Cost: linear in calls for a few configurations, exponential in concurrent calls at worst.
    Source: Lowe, "Testing for Linearizability" (2017).
    """
    deadline = time.monotonic() + wall_s
    spent = 0
    for width in (_WIDTH, None):
        walk = _Walk(calls, step, width, steps - spent, deadline)
        try:
            result = walk.run()
        except _Stopped as stopped:
            return Found(stop=stopped.stop, steps=spent + walk.steps)
        spent += walk.steps
        if result is not None:
            return msgspec.structs.replace(result, steps=spent)
    raise AssertionError("the exact walk always decides")


class _Configurations:
    """A set of them, each with the order that led to it; without those that another one stands for."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int, _Trace]] = []
        self._held: dict[tuple[int, int], list[int]] = {}

    def add(self, state: int, needed: int, spare: int, trace: _Trace) -> None:
        """`needed` are the calls that are in and return, `spare` those that do not, by their bits."""
        held = self._held.get((state, needed))
        if held is None:
            self._held[state, needed] = [spare]
        else:
            for other in held:
                if other & spare == other:
                    return
            held.append(spare)
        self.entries.append((state, needed, spare, trace))


class _Walk:
    def __init__(
        self, calls: Sequence[SearchedCall], step: Step, width: int | None, steps: int, deadline: float
    ) -> None:
        self._calls = calls
        self._step = step
        self._width = width
        self._steps_max = steps
        self._deadline = deadline
        self._narrowed = False
        self.steps = 0

    def run(self) -> Found | None:
        """None when a narrowed walk ran dry."""
        events = [(call.invoked, 0, i) for i, call in enumerate(self._calls)]
        events += [(call.returned, 1, i) for i, call in enumerate(self._calls) if call.returned is not None]
        pending: dict[int, int] = {}
        free: list[int] = []
        live = _Configurations()
        live.add(0, 0, 0, None)
        for _, returns, call in sorted(events):
            if not returns:
                pending[call] = free.pop() if free else 1 << len(pending)
                continue
            tried, passed = self._pass(live, pending, call)
            if not passed.entries:
                return None if self._narrowed else _refuted(tried, call, tuple(pending))
            free.append(pending.pop(call))
            live = self._narrow(passed)
        return Found(order=_order(live.entries[0][3]))

    def _pass(
        self, live: _Configurations, pending: Mapping[int, int], goal: int
    ) -> tuple[_Configurations, _Configurations]:
        """All that was tried, and of that what has `goal` in; `pending` are the open calls, each with its bit."""
        reached, step = pending[goal], self._step
        opened = [(i, bit, self._calls[i].kind, self._calls[i].returned is None) for i, bit in pending.items()]
        tried, passed = _Configurations(), _Configurations()
        for entry in live.entries:
            tried.add(*entry)
        for state, needed, spare, trace in tried.entries:  # which grows meanwhile
            if needed & reached:
                passed.add(state, needed ^ reached, spare, trace)
                continue
            if self._width and (len(passed.entries) >= 4 * self._width or len(tried.entries) > 64 * self._width):
                self._narrowed = True
                break
            self._poll()
            used = needed | spare
            # Of equal calls that never return the one that was invoked first will do.
            skipped = set[int]()
            for call, bit, kind, never_returns in opened:
                if used & bit:
                    continue
                if never_returns:
                    if kind in skipped:
                        continue
                    skipped.add(kind)
                self.steps += 1
                after = step(state, kind)
                if after is None:
                    continue
                if never_returns:
                    tried.add(after, needed, spare | bit, (call, trace))
                else:
                    tried.add(after, needed | bit, spare, (call, trace))
        return tried, passed

    def _narrow(self, passed: _Configurations) -> _Configurations:
        if not self._width or len(passed.entries) <= self._width:
            return passed
        self._narrowed = True
        kept = _Configurations()
        for entry in sorted(passed.entries, key=lambda entry: entry[2].bit_count())[: self._width]:
            kept.add(*entry)
        return kept

    def _poll(self) -> None:
        if self.steps > self._steps_max:
            raise _Stopped(Stop.STEPS)
        if time.monotonic() > self._deadline:
            raise _Stopped(Stop.DEADLINE)


def _refuted(tried: _Configurations, failed: int, pending: Sequence[int]) -> Found:
    longest = max((_order(trace) for _, _, _, trace in tried.entries[:256]), key=len)
    return Found(
        order=longest,
        failed=failed,
        open=tuple(call for call in pending if call != failed),
        states=tuple(sorted({state for state, _, _, _ in tried.entries})),
    )


def _order(trace: _Trace) -> tuple[int, ...]:
    calls = []
    while trace is not None:
        call, trace = trace
        calls.append(call)
    return tuple(reversed(calls))


def kinds_of(parts: Sequence[Hashable]) -> list[int]:
    """Equal parts get one number, in the order in which they were met."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(part, len(numbers)) for part in parts]
