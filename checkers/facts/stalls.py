"""Stalls: times in which the harness, or the machine under it, was so late that its times prove nothing.

A verdict that rests on how long something took is worth nothing where the clock's owner slept. The samples of a
history say how late the harness's own timer was, and for how long some task waited for a processor (Linux pressure
stall information, the "some" line of /proc/pressure/cpu). A busy machine always has some task waiting, so pressure
counts only where it lasts nearly all the time.
"""

from collections.abc import Sequence

import msgspec

from fencepost.harness.history import History, SampleEvent

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
