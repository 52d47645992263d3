"""How long a node has run by its own clocks: the time that counts against it when clocks are skewed.

A system measures its time-outs by the clocks of its nodes. A node whose clock runs at half its rate may claim for twice
the bound. A node whose clock was put back may claim longer by that amount. So the running time that counts against a
node is the least that any of the clocks in question can have counted:

- at its rate while that is below 1, and at most as fast as true time: a wait that began in the kernel, which knows true
  time only, is not shortened by a fast clock;
- nothing while it strobes, since every step back makes waits longer, and the strobe's height less after it;
- nothing while it is unknown what it shows (`certain` is False: from before that change until the next certain one);
- less every step back, counted whole wherever a change reaches into the time in question.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.facts.intervals import Intervals, within
from fencepost.harness.history import Clock, ClockEvent, History


class _Piece(msgspec.Struct, frozen=True):
    """From `from_ns` to `to_ns` the clock counted at least `rate` of true time."""

    from_ns: int
    to_ns: int
    rate: float


class _StepBack(msgspec.Struct, frozen=True):
    """At some moment from `from_ns` to `to_ns` the clock lost `lost_ns`."""

    from_ns: int
    to_ns: int
    lost_ns: int


class OwnTime:
    """The time of one node; `stopped` is when it may not have run at all."""

    def __init__(self, history: History, node: str, stopped: Intervals, clocks: Sequence[Clock] = tuple(Clock)) -> None:
        self.stopped: Final = stopped
        events = [e for e in history.of(ClockEvent) if e.node == node]
        self._events: Final = events
        self._clocks = [_pieces([e for e in events if e.clock is clock], history.end_ns) for clock in clocks]

    @property
    def was_put_back(self) -> bool:
        """Whether one of its clocks lost time at once: then a longer time may have counted less."""
        return any(steps for _, steps in self._clocks)

    def running_ns(self, from_ns: int, to_ns: int) -> int:
        """Return the least time, in ns, that the node can have run from `from_ns` to `to_ns` by its own clocks."""
        true_ns = to_ns - from_ns - within(self.stopped, from_ns, to_ns)
        counted = [self._counted(pieces, steps, from_ns, to_ns) for pieces, steps in self._clocks]
        return max(0, min([true_ns, *counted]))

    def rows(self, from_ns: int, to_ns: int) -> Rows:
        """Return the rows of the clock settings that were in force in that time."""
        indexes = []
        for clock in Clock:
            own = [e for e in self._events if e.clock is clock]
            before = [e for e in own if e.time_ns <= from_ns][-1:]
            indexes += [e.index for e in (*before, *(e for e in own if from_ns < e.time_ns and e.asked_ns < to_ns))]
        return tuple(sorted(indexes))

    def _counted(self, pieces: list[_Piece], steps: list[_StepBack], from_ns: int, to_ns: int) -> int:
        counted = 0
        for piece in pieces:
            start, end = max(from_ns, piece.from_ns), min(to_ns, piece.to_ns)
            if start < end:
                counted += int((end - start - within(self.stopped, start, end)) * piece.rate)
        return counted - sum(s.lost_ns for s in steps if s.from_ns < to_ns and from_ns < s.to_ns)


def _pieces(events: Sequence[ClockEvent], end_ns: int) -> tuple[list[_Piece], list[_StepBack]]:
    """Return what one clock counted over the whole history; before its first event it counts true time."""
    pieces: list[_Piece] = []
    steps: list[_StepBack] = []
    at_ns, before = 0, None
    for event in events:
        _add(pieces, steps, before, at_ns, event.asked_ns)
        if event.certain:
            rate = min(_rate(before), _rate(event))
            lost_ns = _height(before, event.asked_ns) - _plain(event, event.asked_ns)
        else:
            rate, lost_ns = 0.0, 0
        if lost_ns > 0:
            steps.append(_StepBack(event.asked_ns, event.time_ns, lost_ns))
        pieces.append(_Piece(event.asked_ns, event.time_ns, rate))
        at_ns, before = event.time_ns, event
    _add(pieces, steps, before, at_ns, max(end_ns, at_ns))
    return pieces, steps


def _add(pieces: list[_Piece], steps: list[_StepBack], event: ClockEvent | None, from_ns: int, to_ns: int) -> None:
    """Add what a clock counts while one setting is in force."""
    strobe_ends_ns = from_ns
    if event is not None and event.certain and event.period_ns:
        strobe_ends_ns = max(from_ns, event.since_ns + event.length_ns)
        if from_ns < strobe_ends_ns <= to_ns:
            # Something that began to wait at its height waits for so much longer.
            steps.append(_StepBack(strobe_ends_ns - 1, strobe_ends_ns, abs(event.delta_ns)))
        strobe_ends_ns = min(strobe_ends_ns, to_ns)
        pieces.append(_Piece(from_ns, strobe_ends_ns, 0.0))
    pieces.append(_Piece(strobe_ends_ns, to_ns, _rate(event)))


def _rate(event: ClockEvent | None) -> float:
    return 1.0 if event is None else min(1.0, event.rate) if event.certain else 0.0


def _plain(event: ClockEvent, at_ns: int) -> int:
    """The skew without the strobe."""
    return msgspec.structs.replace(event, period_ns=0).skew_ns(at_ns)


def _height(event: ClockEvent | None, at_ns: int) -> int:
    """Return how far ahead the clock may be, in ns; if unknown, at most as far as it was meant to be, at least 0."""
    if event is None:
        return 0
    strobing = event.period_ns and at_ns - event.since_ns < event.length_ns
    height_ns = _plain(event, at_ns) + (abs(event.delta_ns) if strobing else 0)
    return height_ns if event.certain else max(0, height_ns)
