"""The earliest moment at which a length of time may be over by the clocks of nodes: a lease may end no earlier.

Any node may measure a lease, and a node whose clock is fast, or was put forward, may lawfully end it early. So a
length is certainly not over only until the first of these clocks may have counted it:

- at its rate while that is above 1, else as fast as true time: a wait in the kernel is not lengthened by a slow clock;
- with every step forward counted whole, wherever a change reaches into the time in question;
- with the height of a strobe more, once one reaches into it: a reader may meet the clock at its height;
- at once while it is unknown what a clock shows (`certain` is False: from before that change to the next certain one).

`checkers.facts.own_time` is the other bound: the least that a node can have counted.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import Rows
from fencepost.harness.base.durations import NEVER_NS
from fencepost.harness.history import Clock, ClockEvent, History


class _Stretch(msgspec.Struct, frozen=True):
    """From `from_ns` to `to_ns` a clock counts at most `rate` of true time, and `step_ns` at once on entry."""

    from_ns: int
    to_ns: int
    rate: float
    step_ns: int


class FastestClock:
    """The clocks of all nodes, of the given kinds."""

    def __init__(self, history: History, clocks: Sequence[Clock]) -> None:
        changed: dict[tuple[str, Clock], list[ClockEvent]] = {}
        for event in history.of(ClockEvent):
            if event.clock in clocks:
                changed.setdefault((event.node, event.clock), []).append(event)
        self._events: Final = sorted((e for own in changed.values() for e in own), key=lambda e: e.index)
        self._clocks: Final = [_stretches(events) for events in changed.values()]

    def reached_ns(self, from_ns: int, length_ns: int) -> int:
        """Return the earliest time at which one of them may have counted `length_ns` since `from_ns`, in ns."""
        return min([from_ns + length_ns, *(_reached(own, from_ns, length_ns) for own in self._clocks)])

    def rows(self, from_ns: int, to_ns: int) -> Rows:
        """Return the rows of the changes of clocks that reach into that time."""
        return tuple(e.index for e in self._events if e.asked_ns < to_ns and from_ns <= e.time_ns)


def _stretches(events: Sequence[ClockEvent]) -> list[_Stretch]:
    """Return what one clock counts at most, from its first change on; before that it counts true time."""
    stretches = []
    before: ClockEvent | None = None
    for event, after in zip(events, [*events[1:], None], strict=True):
        ends_ns = NEVER_NS if after is None else after.asked_ns
        rate = max(_rate(before), _rate(event))
        stretches.append(_Stretch(event.asked_ns, event.time_ns, rate, _forward(before, event)))
        stretches += _while_it_holds(event, max(ends_ns, event.time_ns))
        before = event
    return stretches


def _while_it_holds(event: ClockEvent, ends_ns: int) -> list[_Stretch]:
    if not event.certain or not event.period_ns:
        return [_Stretch(event.time_ns, ends_ns, _rate(event), 0)]
    calm_ns = min(max(event.time_ns, event.since_ns + event.length_ns), ends_ns)
    return [
        _Stretch(event.time_ns, calm_ns, _rate(event), abs(event.delta_ns)),
        _Stretch(calm_ns, ends_ns, _rate(event), 0),
    ]


def _rate(event: ClockEvent | None) -> float:
    if event is None:
        return 1.0
    return max(1.0, event.rate) if event.certain else float("inf")


def _forward(before: ClockEvent | None, event: ClockEvent) -> int:
    """Return by how many nanoseconds the change may put the clock forward."""
    was = 0 if before is None else msgspec.structs.replace(before, period_ns=0).skew_ns(event.asked_ns)
    is_now = msgspec.structs.replace(event, period_ns=0).skew_ns(event.asked_ns)
    return max(0, is_now - was)


def _reached(stretches: Sequence[_Stretch], from_ns: int, length_ns: int) -> int:
    counted, at_ns = 0.0, from_ns
    for stretch in stretches:
        if stretch.to_ns <= from_ns:
            continue
        if stretch.from_ns > at_ns:
            # Before its first change.
            if counted + (stretch.from_ns - at_ns) >= length_ns:
                break
            counted, at_ns = counted + (stretch.from_ns - at_ns), stretch.from_ns
        counted += stretch.step_ns
        if counted >= length_ns or stretch.rate == float("inf"):
            return at_ns
        if counted + (stretch.to_ns - at_ns) * stretch.rate >= length_ns:
            return at_ns + int((length_ns - counted) / stretch.rate)
        counted, at_ns = counted + (stretch.to_ns - at_ns) * stretch.rate, stretch.to_ns
    return at_ns + int(length_ns - counted)
