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

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import in_final, option_ns
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import Agree, NothingOlder, Rule, Statement, says, verdict
from fencepost.checkers.violations.finding import Doubt, duration
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.broker_view import NO_LEADER, broker_view
from fencepost.systems.kafka.checkers.metadata.late_brokers import (
    KnownEpochs,
    ViewAnswer,
    judge_fenced,
    judge_fresh,
)

TWO_LEADERS: Final = Agree(
    guarantee="partition-states-agree",
    anomaly="two-leaders-of-one-epoch",
    tested="answers that name a leader whose epoch another broker had named",
    of_nodes=True,
    steps=lambda one, other: (
        f"{one.by.node} named broker {one.low} as the leader of p{one.of[0]} in epoch {one.of[1]}.",
        f"{other.by.node} named broker {other.low} as its leader in the same epoch.",
    ),
)
WENT_BACK: Final = NothingOlder(
    guarantee="partition-states-forward",
    anomaly="partition-state-went-back",
    tested="answers of a server that had answered before",
    steps=lambda before, after: (
        f"{after.by.node} named epoch {before.low} of p{before.of[-1]}.",
        f"{duration(after.asked_ns - before.known_ns)} later the same server was asked again, and named"
        f" epoch {after.low}.",
    ),
)
DIFFER: Final = Rule(
    guarantee="partition-states-converge",
    anomaly="final-views-differ",
    tested="brokers whose last answers are compared",
)


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
    named = [
        says(view.operation, state.leader, of=(state.partition, state.epoch))
        for view in views
        for state in view.says.partitions
        if state.leader != NO_LEADER
    ]
    known = KnownEpochs(views)
    lacks = [lack for view in views if (lack := known.lack(view)) is not None]
    fresh_ns, fenced_ns = option_ns(facts, "fresh", "2s"), option_ns(facts, "fenced", "6s")
    incarnations = Incarnations(history)
    return [
        verdict(
            facts,
            TWO_LEADERS.judge(named),
            kept=f"{len({each.of for each in named})} epochs of partitions had one leader each, whoever was asked",
            figures={"views": number_of(view.operation for view in views)},
        ),
        verdict(facts, WENT_BACK.judge(_epochs(views, incarnations))),
        _converge(history, views, facts),
        judge_fresh(views, known, lacks, fresh_ns, facts),
        judge_fenced(views, lacks, fresh_ns, fenced_ns, incarnations, facts),
    ]


def _epochs(views: Sequence[ViewAnswer], incarnations: Incarnations) -> Iterator[Statement]:
    """What each server said of the epoch of each partition."""
    for view in views:
        incarnation = incarnations.of(view.operation)
        for state in view.says.partitions if incarnation is not None else ():
            yield says(view.operation, state.epoch, of=(view.node, incarnation, state.partition))


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
    doubt = f"{', '.join(silent)} answered no more" if silent else ""
    if differing and reference is not None:
        doubt = _difference(reference, differing[0])
    return verdict(
        facts,
        DIFFER.tally((), compared),
        doubt=Doubt(Cause.UNDECIDED, doubt) if doubt else None,
        kept=f"{len(last)} brokers said the same of every partition and of who is alive",
        figures={"nodes_without_answer": silent, "differing": number_of(view.operation for view in differing)},
    )


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
