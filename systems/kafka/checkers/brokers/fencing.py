"""Brokers that reach no controller: are they fenced in time, do they stop serving by themselves, do others hear of it?

"broker-fenced-in-time"
  broker-not-fenced          a broker was down, or cut off from whoever keeps its session, for longer than its session
                             allows, under one controller that ran all the time, and no controller fenced it
"broker-self-fencing"
  served-without-controller  a broker that reached no controller for that long still answered a client
"fencing-is-told"
  fenced-broker-counted-as-alive   two seconds after a broker was fenced, another one still names it among those alive

A controller that is elected begins every broker's session again, so silence counts from its election. The log of each
controller tells when it fenced a broker, and counts while it certainly led. A broker may serve without a controller,
and nobody promises when others hear: these are measured. The others are brokers that were up and reached a controller
all the time since then.

Source: KIP-631, "Broker lease": a broker that the controller does not hear of within broker.session.timeout.ms is
fenced; KAFKA-18138 (a broker that dies while the controller changes). KIP-500, "Broker states": "Fenced brokers"
(clients are not told of them). MetadataResponse lists unfenced brokers; in ZooKeeper mode UpdateMetadataRequest has the
live ones.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.claims import Landmarks
from fencepost.checkers.derived.clocks import OwnTime, Stall, overlapping, stalls_of, watched_until
from fencepost.checkers.derived.evidence import clipped, grouped, merged, row, rows
from fencepost.checkers.derived.reigns import Reigns
from fencepost.checkers.derived.servers import possibly_stopped
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration, seconds
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome, log_of
from fencepost.harness.verdict import Cause, Facts, SessionBound, Verdict
from fencepost.harness.verdict.figures import Rows, Traced, most, tally
from fencepost.systems.kafka.broker_view import broker_view
from fencepost.systems.kafka.checkers.brokers.silence import Silence, Silences, certain_term

NOT_FENCED: Final = Rule(
    guarantee="broker-fenced-in-time",
    anomaly="broker-not-fenced",
    tested="times that an online broker reported to nobody for longer than its session, under one controller",
)
SERVED: Final = Rule(
    guarantee="broker-self-fencing",
    anomaly="served-without-controller",
    tested="operations asked of a broker that had reached no controller for longer than its session",
)

_STATES: Final = frozenset({Logged.REGISTERED, Logged.UNFENCED, Logged.FENCED})
_FENCED: Final = frozenset({Logged.REGISTERED, Logged.FENCED})


class States:
    """What the controllers' logs say about each broker's registration, in order of time."""

    def __init__(self, history: History) -> None:
        self._of: Final = grouped((e for e in history.of(LogEvent) if e.change in _STATES), lambda e: e.node)

    def online(self, broker: str, at_ns: int) -> bool:
        """Whether the last word on it before `at_ns` was that it may serve."""
        before = [e for e in self._of.get(broker, ()) if e.time_ns <= at_ns]
        return bool(before) and before[-1].change not in _FENCED

    def fenced(self, broker: str, after_ns: int) -> LogEvent | None:
        """The first line after `after_ns` that tells of its fencing."""
        return next((e for e in self._of.get(broker, ()) if e.change is Logged.FENCED and e.time_ns > after_ns), None)


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that had to be fenced; `fenced` is the line that tells of it, `late`: it came late, or never."""

    silence: Silence
    fenced: LogEvent | None
    late: bool
    stalls: tuple[Stall, ...]


def judge_in_time(history: History, facts: Facts, bound: SessionBound, silences: Silences) -> Verdict:
    """Judge whether every broker that could not keep its session alive was fenced in time."""
    states, marks = States(history), Landmarks(history)
    due, quick = _due(history, facts, bound, silences, states)
    late = [one for one in due if one.late]
    proven = [one for one in late if not one.stalls and watched_until(history) >= one.silence.to_ns]
    times = [one for one in (*due, *quick) if one.fenced is not None and not one.late]
    findings = [_not_fenced(one, bound, marks) for one in proven]
    exposed = tuple(i for one in due for i in _began(one.silence, marks))
    limit = duration(bound.limit_ns)
    stalled = Doubt(Cause.STALLED, "a broker was fenced late or never, while the harness or the machine stalled")
    return verdict(
        facts,
        NOT_FENCED.here(
            tested=f"times that an online broker reported to nobody for more than {limit} under one controller",
            lacks=f"no online broker reported to nobody for more than {limit} under one controller",
        ).tally(findings, len(due)),
        exposed=exposed,
        broken=f"{len(findings)} times a broker that reported to nobody for more than {limit} was not fenced",
        doubt=stalled if late and not proven else None,
        kept=f"{len(due)} silent brokers were fenced within {limit} (session {duration(bound.session_ns)})",
        figures={
            "fenced_after_ns_max": most(_took(one, marks) for one in times),
            "fenced": tally(one.fenced.index for one in times if one.fenced is not None),
        },
    )


def _due(
    history: History, facts: Facts, bound: SessionBound, silences: Silences, states: States
) -> tuple[list[Due], list[Due]]:
    """The brokers that had to be fenced, and those that were fenced before they had to be."""
    threshold_ns = facts.thresholds.stall_ns_max
    stalls = stalls_of(history, threshold_ns)
    due, quick = [], []
    for silence in silences.all():
        leader = silence.reign.node
        time = OwnTime(history, leader, possibly_stopped(history, leader))
        if not states.online(silence.broker, silence.from_ns):
            continue
        fenced = states.fenced(silence.broker, silence.from_ns)
        inside = fenced is not None and fenced.asked_ns <= silence.to_ns
        until_ns = fenced.asked_ns if fenced is not None and inside else silence.to_ns
        one = Due(
            silence=silence,
            fenced=fenced if inside else None,
            late=time.running_ns(silence.from_ns, until_ns) > bound.limit_ns,
            stalls=tuple(overlapping(stalls, silence.from_ns, until_ns)),
        )
        if time.running_ns(silence.from_ns, silence.to_ns) > bound.limit_ns:
            due.append(one)
        elif inside:
            quick.append(one)
    return due, quick


def _took(one: Due, marks: Landmarks) -> Traced[int]:
    assert one.fenced is not None
    return Traced(one.fenced.time_ns - one.silence.from_ns, (*_began(one.silence, marks), one.fenced.index))


def _began(silence: Silence, marks: Landmarks) -> Rows:
    """The row at which the silence began: a fault, a death, or the first claim of the controller."""
    first = min(silence.reign.samples, key=lambda s: s.hi_ns)
    return marks.at(silence.from_ns)[:1] or marks.until(first)[:1]


def _not_fenced(one: Due, bound: SessionBound, marks: Landmarks) -> Finding:
    silence, reign = one.silence, one.silence.reign
    ended = (
        f"It was still not fenced {duration(silence.to_ns - silence.from_ns)} later."
        if one.fenced is None
        else f"It was fenced after {duration(_took(one, marks).value)}."
    )
    began = _began(silence, marks)
    return NOT_FENCED.finding(
        events=(*began, reign.samples[-1].index, *(() if one.fenced is None else (one.fenced.index,))),
        counted_by=began[0],
        steps=(
            f"{reign.node} was the controller, in epoch {reign.epoch}, from {seconds(reign.first_ns)} on.",
            f"From {seconds(silence.from_ns)} on nothing that {silence.broker} sent can have kept its session alive.",
            f"{ended} Its session is {duration(bound.session_ns)} ({bound.source}), judged at 1.5 times that and a"
            " second.",
        ),
        from_ns=silence.from_ns,
        to_ns=silence.to_ns,
        nodes=(silence.broker, reign.node),
    )


class Lonely(msgspec.Struct, frozen=True, kw_only=True):
    """One time without a controller: what the broker was asked beyond the limit, and what it answered."""

    broker: str
    from_ns: int
    to_ns: int
    requests: list[Operation]
    answered: list[Operation]
    #: The last operation at all that it answered in that time.
    last: Operation | None


def judge_self_fencing(history: History, bound: SessionBound, facts: Facts, silences: Silences) -> Verdict:
    """Measure for how long brokers without a controller went on serving clients."""
    marks = Landmarks(history)
    alone = [one for broker in bound.nodes for one in _lonely(history, broker, bound, silences)]
    findings = [_served(one, marks) for one in alone if one.answered]
    requests = [operation for one in alone for operation in one.requests]
    longest = most(
        Traced(_served_for_ns(one), (*_alone_since(one, marks), row(one.last))) for one in alone if one.last is not None
    )
    limit = duration(bound.limit_ns)
    return verdict(
        facts,
        SERVED.here(
            tested=f"operations asked of a broker that had reached no controller for more than {limit}",
            lacks=f"no broker was asked for anything after it had reached no controller for {limit}",
        ).tally(findings, rows(requests)),
        broken=f"{len(findings)} times a broker that reached no controller for more than {limit} still served clients,"
        f" once for {duration(longest.value)}",
        kept=f"no broker served a client {limit} after it had lost its controller",
        figures={
            "without_controller": Traced(len(alone), tuple(i for one in alone for i in _alone_since(one, marks))),
            "served_without_controller_ns_max": longest,
        },
    )


def _lonely(history: History, broker: str, bound: SessionBound, silences: Silences) -> list[Lonely]:
    time = OwnTime(history, broker, possibly_stopped(history, broker))
    own = [o for o in history.operations if o.node == broker and o.ended_ns is not None]
    alone = []
    for from_ns, to_ns in silences.lonely(broker):
        inside = [o for o in own if o.invoked_ns >= from_ns and (o.ended_ns or 0) <= to_ns]
        late = [o for o in inside if time.running_ns(from_ns, o.invoked_ns) > bound.limit_ns]
        answered = [o for o in inside if o.type is Outcome.OK]
        alone.append(
            Lonely(
                broker=broker,
                from_ns=from_ns,
                to_ns=to_ns,
                requests=late,
                answered=[o for o in late if o.type is Outcome.OK],
                last=max(answered, key=lambda o: o.completed_ns or 0, default=None),
            )
        )
    return alone


def _served_for_ns(one: Lonely) -> int:
    return 0 if one.last is None else (one.last.completed_ns or 0) - one.from_ns


def _alone_since(one: Lonely, marks: Landmarks) -> Rows:
    return marks.at(one.from_ns)[:1]


def _served(one: Lonely, marks: Landmarks) -> Finding:
    last = one.answered[-1]
    return SERVED.finding(
        last,
        events=_alone_since(one, marks),
        steps=(
            f"From {seconds(one.from_ns)} to {seconds(one.to_ns)} {one.broker} reached no controller that acted.",
            f"It answered {len(one.answered)} operations beyond the limit, the last {duration(_served_for_ns(one))}"
            " after it had lost its controller.",
        ),
        from_ns=one.from_ns,
    )


_TOLD_NS_MAX: Final = 2_000_000_000
_BACK: Final = frozenset({Logged.UNFENCED, Logged.REGISTERED})
COUNTED: Final = Rule(
    guarantee="fencing-is-told",
    anomaly="fenced-broker-counted-as-alive",
    tested=f"answers of other brokers, {duration(_TOLD_NS_MAX)} after a broker was fenced, on who is alive",
)


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What another broker said of `fenced.node` while it was certainly fenced."""

    fenced: LogEvent
    operation: Operation
    counts_it: bool

    @property
    def after_ns(self) -> int:
        """How long after the fencing it was asked for."""
        return self.operation.invoked_ns - self.fenced.time_ns


def judge_told(
    history: History, bound: SessionBound, facts: Facts, silences: Silences, reigns: Reigns
) -> list[Verdict]:
    """Measure how soon brokers leave out one that was fenced; nothing is said where none was asked who is alive."""
    views = [(o, broker_view(o.result)) for o in history.operations if o.f == "view" and o.type is Outcome.OK]
    if not views:
        return []
    away = {name: merged([*silences.lonely(name), *possibly_stopped(history, name)]) for name in bound.nodes}
    answers = [
        _Answer(fenced=fenced, operation=operation, counts_it=bound.nodes[fenced.node] in view.live)
        for fenced, until_ns in _fenced(history, bound, reigns)
        for operation, view in views
        if fenced.time_ns < operation.invoked_ns
        and (operation.completed_ns or until_ns) < until_ns
        and operation.node in bound.nodes
        and view.broker != bound.nodes[fenced.node]
        and not clipped(away[operation.node], fenced.asked_ns, operation.invoked_ns)
    ]
    late = [answer for answer in answers if answer.after_ns > _TOLD_NS_MAX]
    wrong = [answer for answer in late if answer.counts_it]
    counting = (a for a in answers if a.counts_it)
    longest = most(Traced(a.after_ns, (a.fenced.index, a.operation.invoke_index)) for a in counting)
    return [
        verdict(
            facts,
            COUNTED.tally([_counted(answer) for answer in wrong], rows(answer.operation for answer in late)),
            broken=f"a fenced broker counted as alive for {duration(longest.value)} after its fencing",
            kept=f"{len(late)} answers left out a broker that had been fenced; the last one that named it was asked for"
            f" {duration(longest.value)} after the fencing",
            figures={"counted_after_fencing_ns_max": longest},
        )
    ]


def _fenced(history: History, bound: SessionBound, reigns: Reigns) -> Iterator[tuple[LogEvent, int]]:
    """Each fencing of a broker by the controller's own log, and until when the broker certainly stayed fenced."""
    lines = [event for event in history.of(LogEvent) if event.node in bound.nodes]
    for reign in reigns.reigns:
        first_ns, last_ns = certain_term(reign)
        for at, line in enumerate(lines):
            if line.change is not Logged.FENCED or line.source != log_of(reign.node):
                continue
            if first_ns <= line.asked_ns and line.time_ns <= last_ns:
                back = (e.asked_ns for e in lines[at + 1 :] if e.node == line.node and e.change in _BACK)
                yield line, min(last_ns, next(back, last_ns))


def _counted(answer: _Answer) -> Finding:
    fenced, operation = answer.fenced, answer.operation
    steps = (
        f"{fenced.source} says at {seconds(fenced.time_ns)} that {fenced.node} is fenced.",
        f"{operation.node}, asked {duration(answer.after_ns)} later, still counted it as alive.",
    )
    return COUNTED.finding(operation, events=(fenced.index,), steps=steps)
