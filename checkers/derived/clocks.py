"""How far times can be trusted: stalls of the harness, and the least and the most that clocks can have counted.

Stalls are times in which the harness, or the machine under it, was so late that its times prove nothing. A verdict that
rests on how long something took is worth nothing where the clock's owner slept. The samples of a history say how late
the harness's own timer was, and for how long some task waited for a processor (Linux pressure stall information, the
"some" line of /proc/pressure/cpu). A busy machine always has some task waiting, so pressure counts only where it lasts
nearly all the time.

A system measures its time-outs by the clocks of its nodes. A node whose clock runs at half its rate may claim for twice
the bound. A node whose clock was put back may claim longer by that amount. So the running time that counts against a
node (`OwnTime`) is the least that any of the clocks in question can have counted:

- at its rate while that is below 1, and at most as fast as true time: a wait that began in the kernel, which knows true
  time only, is not shortened by a fast clock;
- nothing while it strobes, since every step back makes waits longer, and the strobe's height less after it;
- nothing while it is unknown what it shows (`certain` is False: from before that change until the next certain one);
- less every step back, counted whole wherever a change reaches into the time in question.

Any node may measure a lease, and a node whose clock is fast, or was put forward, may lawfully end it early. So a
length is certainly not over only until the first of these clocks (`FastestClock`) may have counted it:

- at its rate while that is above 1, else as fast as true time: a wait in the kernel is not lengthened by a slow clock;
- with every step forward counted whole, wherever a change reaches into the time in question;
- with the height of a strobe more, once one reaches into it: a reader may meet the clock at its height;
- at once while it is unknown what a clock shows (`certain` is False: from before that change to the next certain one).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Intervals, grouped, within
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import Clock, ClockEvent, History, SampleEvent
from fencepost.harness.verdict.figures import Rows

TIMER = "the harness's timer"
#: Who stalled, as `stalled_by` says it.
HARNESS, MACHINE = "harness", "machine"
#: From this share of a lag on, time in which the timer's thread could run and got no processor explains the lag.
_WAITED_SHARE = 0.5
#: Share of a sample's time in which some task waited, from which on the machine counts as overloaded.
_PRESSURE_SHARE = 0.9


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_ns` to `to_ns` the harness's timer or the machine stalled, `length_ns` in all.

    `by` is `MACHINE` where other work held the processors meanwhile.
    """

    from_ns: int
    to_ns: int
    length_ns: int
    what: str
    by: str = HARNESS


def stalls_of(history: History, threshold_ns: int) -> list[Stall]:
    """Return the stalls of the harness's timer, then those of the machine, that are longer than `threshold_ns`."""
    return [*harness_stalls(history, threshold_ns), *machine_stalls(history, threshold_ns)]


def harness_stalls(history: History, threshold_ns: int) -> list[Stall]:
    """Return the times before samples whose worst timer was later than `threshold_ns`."""
    stalls: list[Stall] = []
    previous_ns = 0
    for sample in history.samples:
        lag_ns = sample.loop_lag_ns_max
        if lag_ns > threshold_ns:
            start_ns = min(previous_ns, sample.time_ns - lag_ns)
            waited = (sample.loop_waited_ns or 0) >= _WAITED_SHARE * lag_ns
            stalls.append(
                Stall(
                    from_ns=max(0, start_ns),
                    to_ns=sample.time_ns,
                    length_ns=lag_ns,
                    what=TIMER,
                    by=MACHINE if waited else HARNESS,
                )
            )
        previous_ns = sample.time_ns
    return stalls


def machine_stalls(history: History, threshold_ns: int) -> list[Stall]:
    """Return the stretches under nearly full processor pressure whose waits add up to more than `threshold_ns`."""
    stalls: list[Stall] = []
    since_ns, waited_ns, previous_ns = -1, 0, 0
    for sample in history.samples:
        stall_ns = sample.cpu_stall_ns or 0
        if stall_ns and stall_ns >= _PRESSURE_SHARE * (sample.time_ns - previous_ns):
            since_ns = previous_ns if since_ns < 0 else since_ns
            waited_ns += stall_ns
        elif since_ns >= 0:
            stalls.append(_pressure(since_ns, previous_ns, waited_ns))
            since_ns, waited_ns = -1, 0
        previous_ns = sample.time_ns
    if since_ns >= 0:
        stalls.append(_pressure(since_ns, previous_ns, waited_ns))
    return [stall for stall in stalls if stall.length_ns > threshold_ns]


def _pressure(from_ns: int, to_ns: int, waited_ns: int) -> Stall:
    return Stall(from_ns=from_ns, to_ns=to_ns, length_ns=waited_ns, what="the machine's processors", by=MACHINE)


def stalled_by(stalls: Sequence[Stall]) -> str:
    """Return who stalled: `HARNESS` if any of these stalls was its own, else `MACHINE`; empty without a stall."""
    return next((who for who in (HARNESS, MACHINE) if any(stall.by == who for stall in stalls)), "")


def overlapping(stalls: Sequence[Stall], from_ns: int, to_ns: int) -> list[Stall]:
    """The stalls that touch [`from_ns`, `to_ns`]."""
    return [s for s in stalls if s.from_ns <= to_ns and s.to_ns >= from_ns]


def worst_sample(history: History) -> SampleEvent | None:
    """Return the sample before which the harness's own timer was latest; None if there is no sample."""
    return max(history.samples, key=lambda s: s.loop_lag_ns_max, default=None)


def watched_until(history: History) -> int:
    """Up to when the samples vouch for the harness; -1 when there is none."""
    return history.samples[-1].time_ns if history.samples else -1


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

    @property
    def timers_end_ns(self) -> int:
        """By when every timer has ended that began before a clock of the node was put back; 0: none was put back."""
        return max((step.to_ns + step.lost_ns for _, steps in self._clocks for step in steps), default=0)

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


class _Stretch(msgspec.Struct, frozen=True):
    """From `from_ns` to `to_ns` a clock counts at most `rate` of true time, and `step_ns` at once on entry."""

    from_ns: int
    to_ns: int
    rate: float
    step_ns: int


class FastestClock:
    """The clocks of all nodes, of the given kinds."""

    def __init__(self, history: History, clocks: Sequence[Clock]) -> None:
        own = (e for e in history.of(ClockEvent) if e.clock in clocks)
        changed = grouped(own, lambda e: (e.node, e.clock))
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
        rate = max(_fast_rate(before), _fast_rate(event))
        stretches.append(_Stretch(event.asked_ns, event.time_ns, rate, _forward(before, event)))
        stretches += _while_it_holds(event, max(ends_ns, event.time_ns))
        before = event
    return stretches


def _while_it_holds(event: ClockEvent, ends_ns: int) -> list[_Stretch]:
    if not event.certain or not event.period_ns:
        return [_Stretch(event.time_ns, ends_ns, _fast_rate(event), 0)]
    calm_ns = min(max(event.time_ns, event.since_ns + event.length_ns), ends_ns)
    return [
        _Stretch(event.time_ns, calm_ns, _fast_rate(event), abs(event.delta_ns)),
        _Stretch(calm_ns, ends_ns, _fast_rate(event), 0),
    ]


def _fast_rate(event: ClockEvent | None) -> float:
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
