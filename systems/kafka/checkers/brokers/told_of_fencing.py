"""Brokers that a controller has fenced: do the others hear of it?

"fencing-is-told"
  fenced-broker-counted-as-alive   two seconds after a broker was fenced, another one still names it among those alive

The controller's own log says when it fenced a broker, and only while it certainly led. The others are brokers that were
up and reached a controller all the time since then. Nobody promises a bound, so it is measured.

Source: KIP-500, "Broker states" (clients are not told of fenced brokers); KIP-631, MetadataResponse lists unfenced
brokers; in ZooKeeper mode UpdateMetadataRequest has the live ones.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import clipped, merged, rows
from fencepost.checkers.derived.reigns import Reigns
from fencepost.checkers.derived.servers import possibly_stopped
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, duration, seconds
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome, log_of
from fencepost.harness.verdict import Facts, SessionBound, Verdict
from fencepost.harness.verdict.figures import Traced, most
from fencepost.systems.kafka.broker_view import broker_view
from fencepost.systems.kafka.checkers.brokers.silence import Silences, certain_term

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


def judge(history: History, bound: SessionBound, facts: Facts, silences: Silences, reigns: Reigns) -> list[Verdict]:
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
            COUNTED.tally([_finding(answer) for answer in wrong], rows(answer.operation for answer in late)),
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


def _finding(answer: _Answer) -> Finding:
    fenced, operation = answer.fenced, answer.operation
    steps = (
        f"{fenced.source} says at {seconds(fenced.time_ns)} that {fenced.node} is fenced.",
        f"{operation.node}, asked {duration(answer.after_ns)} later, still counted it as alive.",
    )
    return COUNTED.finding(operation, events=(fenced.index,), steps=steps)
