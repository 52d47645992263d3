"""Partition states: what each broker says of leaders and epochs, beside what the others said before.

Five verdicts on the views of brokers (`harness.history.BrokerView`):
  - "partition-states-agree": no two answers name different leaders of one partition in one epoch;
  - "partition-states-forward": within one run of a broker, no answer names an earlier epoch than one before;
  - "partition-states-converge": all brokers say the same at the end (a broker that lags: unknown);
  - "partition-states-fresh": no answer lacks an epoch that another broker had named long before;
  - "stale-broker-is-fenced": the others stop counting a broker as alive that has lacked an epoch for longer still.

An epoch is known from the first answer on that names it or a later one. An answer is stale when it was asked for more
than `fresh` (an option of the workload) after an epoch was known that it lacks. Epochs of a partition only grow, so
which state is the later one needs no clock.

Source: KIP-500, "Broker states" and its motivation (a controller that cannot reach a broker whose session lives);
KIP-631, "Broker lease" (a broker without heartbeats is fenced); KIP-101 (leader epochs).
"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.positions import in_final, option_ns
from fencepost.checkers.facts.servers import Incarnations
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, duration, rule
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.broker_view import NO_LEADER, broker_view
from fencepost.systems.kafka.checkers.metadata.broker_views import KnownEpochs, ViewAnswer
from fencepost.systems.kafka.checkers.metadata.late_brokers import CHECKER, judge_fenced, judge_fresh

AGREE: Final = "partition-states-agree"
FORWARD: Final = "partition-states-forward"
CONVERGE: Final = "partition-states-converge"

TWO_LEADERS: Final = "two-leaders-of-one-epoch"
WENT_BACK: Final = "partition-state-went-back"
DIFFER: Final = "final-views-differ"


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all views of one history.

    Args:
        history: answers of brokers (`view`) and moves of leaders (`move`).
        facts: the workload's options `fresh` and `fenced`, durations as a plan writes them.

    Returns:
        The five verdicts above, in that order; "partition-states-fresh" also carries how old answers were, by node.

    Cost: O(n p log n) for n views of p partitions.
    """
    views = [ViewAnswer(o, broker_view(o.result)) for o in history.operations if o.f == "view" and o.type is Outcome.OK]
    known = KnownEpochs(views)
    lacks = [lack for view in views if (lack := known.lack(view)) is not None]
    fresh_ns, fenced_ns = option_ns(facts, "fresh", "2s"), option_ns(facts, "fenced", "6s")
    incarnations = Incarnations(history)
    return [
        _agree(views, facts),
        _forward(views, incarnations, facts),
        _converge(history, views, facts),
        judge_fresh(views, known, lacks, fresh_ns, facts),
        judge_fenced(views, lacks, fresh_ns, fenced_ns, incarnations, facts),
    ]


def _agree(views: Sequence[ViewAnswer], facts: Facts) -> Verdict:
    first: dict[tuple[int, int], tuple[int, ViewAnswer]] = {}
    findings: dict[tuple[int, int], Finding] = {}
    compared: list[ViewAnswer] = []
    for view in views:
        again = False
        for state in view.says.partitions:
            if state.leader == NO_LEADER:
                continue
            which = state.partition, state.epoch
            leader, other = first.setdefault(which, (state.leader, view))
            again = again or other.node != view.node
            if leader != state.leader and which not in findings:
                steps = (
                    f"{other.node} named broker {leader} as the leader of p{which[0]} in epoch {which[1]}.",
                    f"{view.node} named broker {state.leader} as its leader in the same epoch.",
                )
                shown = (other.operation, view.operation)
                findings[which] = Finding(anomaly=TWO_LEADERS, operations=shown, steps=steps)
        if again:
            compared.append(view)
    exposed = rows(view.operation for view in compared)
    return Findings(
        checker=CHECKER,
        guarantee=AGREE,
        findings=list(findings.values()),
        broken=f"{len(findings)} epochs of partitions had two leaders",
        exposed=exposed,
        exposure_of="answers that name a leader whose epoch another broker had named",
        untested="no two brokers named a leader of one epoch",
        rules=(rule(TWO_LEADERS, len(exposed), "no two brokers named a leader of one epoch"),),
        kept=f"{len(first)} epochs of partitions had one leader each, whoever was asked",
        counted={"views": rows(view.operation for view in views)},
    ).verdict(facts)


def _forward(views: Sequence[ViewAnswer], incarnations: Incarnations, facts: Facts) -> Verdict:
    servers: dict[tuple[str, int], list[ViewAnswer]] = {}
    for view in views:
        incarnation = incarnations.of(view.operation)
        if incarnation is not None:
            servers.setdefault((view.node, incarnation), []).append(view)
    findings: list[Finding] = []
    again: list[ViewAnswer] = []
    for own in servers.values():
        answered = sorted(own, key=lambda v: v.answered_ns)
        newest: dict[int, tuple[int, ViewAnswer]] = {}
        at = 0
        for view in sorted(own, key=lambda v: v.asked_ns):
            while answered[at].answered_ns < view.asked_ns:
                for state in answered[at].says.partitions:
                    if state.epoch > newest.get(state.partition, (-1,))[0]:
                        newest[state.partition] = state.epoch, answered[at]
                at += 1
            if newest:
                again.append(view)
            findings += _steps_back(view, newest)
    exposed = rows(view.operation for view in again)
    return Findings(
        checker=CHECKER,
        guarantee=FORWARD,
        findings=findings,
        broken=f"{len(findings)} answers named an earlier epoch than the same server had named before",
        exposed=exposed,
        exposure_of="answers of a server that had answered before",
        untested="no server was asked again after it had answered",
        rules=(rule(WENT_BACK, len(exposed), "no server was asked again after it had answered"),),
        kept=f"{len(exposed)} answers named no earlier epoch than their server had named before",
    ).verdict(facts)


def _steps_back(view: ViewAnswer, newest: dict[int, tuple[int, ViewAnswer]]) -> list[Finding]:
    """At most one finding for an answer: the first of its partitions that went back."""
    for state in view.says.partitions:
        epoch, before = newest.get(state.partition, (-1, view))
        if state.epoch < epoch:
            steps = (
                f"{view.node} named epoch {epoch} of p{state.partition}.",
                f"{duration(view.asked_ns - before.answered_ns)} later the same server was asked again, and named"
                f" epoch {state.epoch}.",
            )
            return [Finding(anomaly=WENT_BACK, operations=(before.operation, view.operation), steps=steps)]
    return []


def _converge(history: History, views: Sequence[ViewAnswer], facts: Facts) -> Verdict:
    last: dict[str, ViewAnswer] = {}
    for view in sorted(views, key=lambda v: v.answered_ns):
        if in_final(history, view.operation):
            last[view.node] = view
    nodes = {o.node for o in history.operations if o.f == "view" and in_final(history, o)}
    silent = sorted(nodes - set(last))
    reference = next(iter(last.values()), None)
    differing = [view for view in last.values() if reference and not view.says.says_the_same(reference.says)]
    compared = rows(view.operation for view in last.values()) if len(last) > 1 else ()
    doubt = None
    if differing and reference is not None:
        doubt = Doubt(Cause.UNDECIDED, _difference(reference, differing[0]))
    elif silent:
        doubt = Doubt(Cause.UNDECIDED, f"{', '.join(silent)} answered no more")
    return Findings(
        checker=CHECKER,
        guarantee=CONVERGE,
        doubt=doubt,
        exposed=compared,
        exposure_of="brokers whose last answers are compared",
        untested="no two brokers answered in the final phase",
        rules=(rule(DIFFER, len(compared), "no two brokers answered in the final phase"),),
        kept=f"{len(last)} brokers said the same of every partition and of who is alive",
        figures={"nodes_without_answer": silent, "differing": len(differing)},
        evidence={"differing": rows(view.operation for view in differing)},
    ).verdict(facts)


def _difference(one: ViewAnswer, other: ViewAnswer) -> str:
    """The first thing on which two views differ."""
    for mine in one.says.partitions:
        theirs = next((s for s in other.says.partitions if s.partition == mine.partition), None)
        if theirs != mine:
            there = "nothing" if theirs is None else f"leader {theirs.leader}, epoch {theirs.epoch}, {theirs.in_sync}"
            return (
                f"{one.node} says of p{mine.partition} at the end: leader {mine.leader}, epoch {mine.epoch},"
                f" {mine.in_sync}; {other.node} says: {there}"
            )
    return f"{one.node} counts {one.says.live} as alive at the end; {other.node} counts {other.says.live}"
