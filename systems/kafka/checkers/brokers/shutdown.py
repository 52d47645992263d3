"""Controlled shutdowns: a broker that is told to end hands over its partitions first, so that nobody waits for them.

"controlled-shutdown"
  ended-without-leave     a broker began its controlled shutdown and ended by itself, no controller had let it, and
                          meanwhile no fault touched another server
"controlled-shutdown-unnoticed"
  unavailable-partition   while a broker was in its controlled shutdown, a partition took no append for a second
"orderly-restart-unnoticed"
  unavailable-in-restart  the same, from the beginning of the shutdown until the broker's server serves again

Which partitions a broker still led when it was let go is judged by `systems.kafka.checkers.brokers.registrations`.

A broker that meets no controller, or whose leaders nobody in sync can take over, may give up and end after
`controlled.shutdown.max.retries`. So what ended without leave under a fault of another server is counted, not accused.

Source: Kafka's documentation, "Graceful shutdown": leaders are moved prior to shutting down, which "minimizes the time
each partition is unavailable to a few milliseconds", and the move "will only succeed if" another replica is alive;
KIP-631, "Controlled shutdown".
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import grouped, row, rows
from fencepost.checkers.derived.servers import ServerEvent, exits, next_return, touches_others
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, duration, seconds
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Traced, most, tally

CONTROLLED: Final = "controlled-shutdown"
NO_LEAVE: Final = Rule(
    guarantee=CONTROLLED,
    anomaly="ended-without-leave",
    tested="brokers that ended by a controlled shutdown",
    lacks="no broker ended by a controlled shutdown while no fault touched another server",
)
UNAVAILABLE, IN_RESTART = (
    Rule(
        guarantee=guarantee,
        anomaly=anomaly,
        tested=f"appends asked for while a broker was {state}",
        lacks=f"nothing was appended while a broker was {state}",
    )
    for guarantee, anomaly, state in (
        ("controlled-shutdown-unnoticed", "unavailable-partition", "in its controlled shutdown"),
        ("orderly-restart-unnoticed", "unavailable-in-restart", "restarted by a controlled shutdown"),
    )
)

#: A partition without an append for longer was unavailable.
_GAP_NS_MAX: Final = 1_000_000_000
#: The exit status of a server that was killed, in the two ways in which it is told.
_KILLED: Final = frozenset({-9, 137})


class _Stop(msgspec.Struct, frozen=True, kw_only=True):
    """One controlled shutdown by the broker's own log, until its server ended."""

    broker: str
    began: LogEvent
    leave: LogEvent | None
    ended: ServerEvent
    #: When the next server of this broker served; None where none did.
    back: ServerEvent | None

    @property
    def killed(self) -> bool:
        return self.ended.exit_status in _KILLED


def stops(history: History) -> list[_Stop]:
    """Every controlled shutdown whose server ended."""
    begun: dict[tuple[str, int], LogEvent] = {}
    leaves: dict[tuple[str, int], LogEvent] = {}
    ended = []
    for event in history.events:
        if type(event) is LogEvent and event.source == "log":
            which = event.node, event.incarnation
            if event.change is Logged.STOPPING:
                begun.setdefault(which, event)
            elif event.change is Logged.MAY_STOP:
                leaves.setdefault(which, event)
    for end in exits(history):
        which = end.node, end.incarnation
        if which in begun:
            back = next_return(history, end)
            ended.append(_Stop(broker=end.node, began=begun[which], leave=leaves.get(which), ended=end, back=back))
    return ended


def judge(history: History, facts: Facts) -> list[Verdict]:
    """Judge the controlled shutdowns of one history; nothing is said where none was begun."""
    own = stops(history)
    if not own and not {rule.name for rule in (NO_LEAVE, UNAVAILABLE, IN_RESTART)} & set(facts.required):
        return []
    ended = [stop for stop in own if not stop.killed]
    hindered = [stop for stop in ended if stop.leave is None and _hindered(history, stop)]
    judged = [stop for stop in ended if stop not in hindered]
    slowest = most(_took(stop, stop.leave) for stop in ended if stop.leave)
    controlled = verdict(
        facts,
        NO_LEAVE.tally(
            [_no_leave(stop) for stop in judged if stop.leave is None], tuple(stop.ended.index for stop in judged)
        ),
        kept=f"{len(judged)} brokers ended after a controller had let them, within {duration(slowest.value)}",
        figures={
            "stopped": tally(stop.ended.index for stop in ended),
            "killed_while_stopping": tally(stop.ended.index for stop in own if stop.killed),
            "hindered_while_stopping": tally(stop.ended.index for stop in hindered),
            "stopped_within_ns_max": slowest,
        },
    )
    shutdowns = [_Window(stop=stop, to_ns=stop.ended.time_ns, to_event=stop.ended.index) for stop in ended]
    restarts = [_Window(stop=s, to_ns=s.back.time_ns, to_event=s.back.index) for s in ended if s.back is not None]
    return [
        controlled,
        _unnoticed(history, facts, UNAVAILABLE, shutdowns),
        _unnoticed(history, facts, IN_RESTART, restarts),
    ]


def _hindered(history: History, stop: _Stop) -> bool:
    """Whether a fault may have touched another server, or a link, during the shutdown."""
    spans = [(fault, history.possible(fault)) for fault in history.faults if touches_others(fault, stop.broker)]
    return any(from_ns <= stop.ended.time_ns and to_ns >= stop.began.asked_ns for _, (from_ns, to_ns) in spans)


def _took(stop: _Stop, leave: LogEvent) -> Traced[int]:
    return Traced(leave.time_ns - stop.began.time_ns, (stop.began.index, leave.index))


def _no_leave(stop: _Stop) -> Finding:
    return NO_LEAVE.finding(
        events=(stop.began.index, stop.ended.index),
        counted_by=stop.ended.index,
        steps=(
            f"At {seconds(stop.began.time_ns)} the log of {stop.broker} tells that its controlled shutdown began.",
            f"It ended at {seconds(stop.ended.time_ns)}, and its log never tells that a controller let it.",
        ),
        from_ns=stop.began.asked_ns,
        to_ns=stop.ended.time_ns,
        nodes=(stop.broker,),
    )


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time from the beginning of a controlled shutdown to an event that ends the window."""

    stop: _Stop
    to_ns: int
    to_event: int

    @property
    def from_ns(self) -> int:
        return self.stop.began.asked_ns


class _Gap(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last` are acknowledged appends of one partition with none between them, and `waiting` had begun."""

    window: _Window
    first: Operation
    last: Operation
    waiting: int

    @property
    def length_ns(self) -> int:
        return (self.last.completed_ns or 0) - (self.first.completed_ns or 0)


def _unnoticed(history: History, facts: Facts, rule: Rule, windows: Sequence[_Window]) -> Verdict:
    appends = grouped((o for o in history.operations if o.f == "append"), lambda o: o.key)
    gaps = [gap for window in windows for own in appends.values() for gap in _gaps(window, own)]
    longest = most(Traced(gap.length_ns, (row(gap.first), row(gap.last))) for gap in gaps)
    inside = [o for w in windows for own in appends.values() for o in own if w.from_ns <= o.invoked_ns <= w.to_ns]
    return verdict(
        facts,
        rule.tally(
            [_unavailable(rule, gap) for gap in gaps if gap.length_ns > _GAP_NS_MAX and gap.waiting], rows(inside)
        ),
        exposed=rows(inside),
        kept=f"no partition was without an append for more than {duration(_GAP_NS_MAX)}; the longest time was"
        f" {duration(longest.value)}",
        figures={"without_append_ns_max": longest},
    )


def _gaps(window: _Window, own: Sequence[Operation]) -> list[_Gap]:
    """The times between two acknowledged appends that reach into the window."""
    done = sorted((o for o in own if o.type is Outcome.OK), key=lambda o: o.completed_ns or 0)
    gaps = []
    for first, last in pairwise(done):
        from_ns, to_ns = first.completed_ns or 0, last.completed_ns or 0
        if from_ns <= window.to_ns and to_ns >= window.from_ns:
            waiting = sum(from_ns <= o.invoked_ns <= to_ns - _GAP_NS_MAX // 2 for o in own)
            gaps.append(_Gap(window=window, first=first, last=last, waiting=waiting))
    return gaps


def _unavailable(rule: Rule, gap: _Gap) -> Finding:
    stop = gap.window.stop
    state = rule.tested.removeprefix("appends asked for while a broker ")
    return rule.finding(
        gap.first,
        gap.last,
        events=(stop.began.index, gap.window.to_event),
        steps=(
            f"{stop.broker} {state} from {seconds(stop.began.time_ns)} to {seconds(gap.window.to_ns)}.",
            f"No append to {gap.first.key} was acknowledged for {duration(gap.length_ns)}, though {gap.waiting} were"
            " sent.",
        ),
    )
