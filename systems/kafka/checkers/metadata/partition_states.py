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

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import grouped, number_of, row, rows
from fencepost.checkers.derived.positions import completed_ns, in_final, option_ns
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import Agree, NothingOlder, Rule, Statement, says, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration, seconds
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Traced, most
from fencepost.systems.kafka.broker_view import NO_LEADER, BrokerView, broker_view

STALE: Final = Rule(
    guarantee="partition-states-fresh",
    anomaly="stale-partition-state",
    tested="answers asked for long after a leader had changed",
    lacks="no leader had changed long enough before an answer",
)
NOT_FENCED: Final = Rule(
    guarantee="stale-broker-is-fenced",
    anomaly="stale-broker-not-fenced",
    tested="answers of other brokers on whether one that had to be fenced by then was alive",
)


class ViewAnswer(msgspec.Struct, frozen=True):
    """One answer: the operation and what it says."""

    operation: Operation
    says: BrokerView

    @property
    def asked_ns(self) -> int:
        return self.operation.invoked_ns

    @property
    def answered_ns(self) -> int:
        return completed_ns(self.operation)

    @property
    def node(self) -> str:
        return self.operation.node

    def epoch(self, partition: int) -> int:
        """The epoch that it names; -1 where it does not know the partition."""
        return next((state.epoch for state in self.says.partitions if state.partition == partition), -1)


class Lack(msgspec.Struct, frozen=True):
    """`view` lacks an epoch of `partition` that `known` had named before; the longest known of those that it lacks."""

    view: ViewAnswer
    partition: int
    known: ViewAnswer

    @property
    def age_ns(self) -> int:
        return self.view.asked_ns - self.known.answered_ns


class KnownEpochs:
    """Since when each epoch is known: for each partition the answers that named a later epoch than all before."""

    def __init__(self, views: Sequence[ViewAnswer]) -> None:
        self._first: Final[dict[int, list[tuple[int, ViewAnswer]]]] = {}
        for view in sorted(views, key=lambda v: v.answered_ns):
            for state in view.says.partitions:
                own = self._first.setdefault(state.partition, [])
                if not own or state.epoch > own[-1][0]:
                    own.append((state.epoch, view))

    def lack(self, view: ViewAnswer) -> Lack | None:
        """What an answer lacks for longest; None where it names the newest epochs that were known when it was asked."""
        lacks = []
        for state in view.says.partitions:
            own = self._first[state.partition]
            at = bisect_right(own, state.epoch, key=lambda known: known[0])
            if at < len(own) and own[at][1].answered_ns < view.asked_ns:
                lacks.append(Lack(view, state.partition, own[at][1]))
        return max(lacks, key=lambda lack: lack.age_ns, default=None)

    def could_lack(self, view: ViewAnswer, fresh_ns: int) -> bool:
        """Whether some epoch beyond the first was known `fresh_ns` before this answer was asked for."""
        return any(len(own) > 1 and own[1][1].answered_ns < view.asked_ns - fresh_ns for own in self._first.values())


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


def late_episodes(views: Sequence[ViewAnswer], late: Sequence[Lack]) -> list[list[Lack]]:
    """Group late answers of one broker between which it gave no other, in the order in which they were asked for."""
    by_view = {lack.view.operation.invoke_index: lack for lack in late}
    episodes: list[list[Lack]] = []
    for node in dict.fromkeys(view.node for view in views):
        own = (by_view.get(view.operation.invoke_index) for view in views if view.node == node)
        episodes += [[*group] for is_late, group in groupby(own, key=bool) if is_late]  # type: ignore[list-item]
    return sorted(episodes, key=lambda episode: episode[0].view.asked_ns)


def judge_fresh(
    views: Sequence[ViewAnswer], known: KnownEpochs, lacks: Sequence[Lack], fresh_ns: int, facts: Facts
) -> Verdict:
    late = [lack for lack in lacks if lack.age_ns > fresh_ns]
    episodes = late_episodes(views, late)
    exposed = rows(view.operation for view in views if known.could_lack(view, fresh_ns))
    oldest = max(late, key=lambda lack: lack.age_ns, default=None)
    by_node = grouped(late, lambda lack: lack.view.node)
    return verdict(
        facts,
        STALE.here(tested=f"answers asked for more than {duration(fresh_ns)} after a leader had changed").tally(
            [_stale(episode) for episode in episodes], exposed
        ),
        broken="" if oldest is None else f"{_brokers(by_node)}, the oldest {duration(oldest.age_ns)} late",
        exposed=exposed,
        kept=f"no answer was more than {duration(fresh_ns)} late",
        figures={
            "stale_views": number_of(lack.view.operation for lack in late),
            "late_ns_max": most(map(_age, late)),
            "by_node": tuple(
                {
                    "node": node,
                    "stale": number_of(lack.view.operation for lack in own),
                    "age_ns_max": most(map(_age, own)),
                }
                for node, own in sorted(by_node.items())
            ),
        },
    )


def _brokers(by_node: dict[str, list[Lack]]) -> str:
    return ", ".join(f"{len(own)} answers of {node} lack later leaders" for node, own in sorted(by_node.items()))


def _stale(episode: Sequence[Lack]) -> Finding:
    oldest = max(episode, key=lambda lack: lack.age_ns)
    view, partition = oldest.view, oldest.partition
    steps = (
        f"{oldest.known.node} named epoch {oldest.known.epoch(partition)} of p{partition} at"
        f" {seconds(oldest.known.answered_ns)}.",
        f"{view.node}, asked {duration(oldest.age_ns)} later, still named epoch {view.epoch(partition)}.",
        f"{len(episode)} answers of {view.node} in succession were late, from {seconds(episode[0].view.asked_ns)} to"
        f" {seconds(episode[-1].view.asked_ns)}.",
    )
    return STALE.finding(oldest.known.operation, view.operation, steps=steps)


def judge_fenced(
    views: Sequence[ViewAnswer],
    lacks: Sequence[Lack],
    fresh_ns: int,
    fenced_ns: int,
    incarnations: Incarnations,
    facts: Facts,
) -> Verdict:
    """Ask of each late episode whether the other brokers ever left its broker out of those that they took for alive.

    Only answers count that were given while the broker lacked what they name: it had then not caught up. A broker that
    was fenced and let in again before it caught up was fenced.
    """
    age_of = {lack.view.operation.invoke_index: lack.age_ns for lack in lacks}
    fresh = [view for view in views if age_of.get(view.operation.invoke_index, 0) <= fresh_ns]
    bound_ns = fenced_ns + fresh_ns
    findings: list[Finding] = []
    tested: list[ViewAnswer] = []
    for episode in late_episodes(views, [lack for lack in lacks if lack.age_ns > fresh_ns]):
        oldest = max(episode, key=lambda lack: lack.age_ns)
        view, since_ns = oldest.view, oldest.known.answered_ns
        if oldest.age_ns <= bound_ns or incarnations.restarted(view.node, since_ns, view.answered_ns):
            continue
        others = _meanwhile(fresh, oldest)
        past_bound = [other for other in others if other.asked_ns > since_ns + bound_ns]
        tested += past_bound
        if past_bound and all(view.says.broker in other.says.live for other in others):
            findings.append(_alive(oldest, past_bound[-1]))
    return verdict(
        facts,
        NOT_FENCED.tally(findings, rows(view.operation for view in tested)),
        exposed=rows(view.operation for view in tested),
        untested=f"no broker's answers were late for longer than {duration(bound_ns)}",
        broken=f"{len(findings)} times a broker counted as alive whose answers had been late for longer than"
        f" {duration(fenced_ns)}",
        kept="the others stopped counting as alive each broker whose answers were late that long",
    )


def _alive(lack: Lack, other: ViewAnswer) -> Finding:
    view, known, partition = lack.view, lack.known, lack.partition
    steps = (
        f"{known.node} named epoch {known.epoch(partition)} of p{partition} at {seconds(known.answered_ns)}.",
        f"{other.node}, asked {duration(other.asked_ns - known.answered_ns)} later, counted {view.node} (broker"
        f" {view.says.broker}) as alive.",
        f"{view.node} lacked that epoch still later, {duration(lack.age_ns)} after it was known.",
    )
    return NOT_FENCED.finding(known.operation, other.operation, view.operation, steps=steps)


def _meanwhile(fresh: Sequence[ViewAnswer], lack: Lack) -> list[ViewAnswer]:
    """Answers of other brokers that name what is lacking, asked for and given while the late broker lacked it."""
    epoch = lack.known.epoch(lack.partition)
    return [
        view
        for view in fresh
        if view.node != lack.view.node
        and lack.known.answered_ns < view.asked_ns
        and view.answered_ns < lack.view.asked_ns
        and view.epoch(lack.partition) >= epoch
    ]


def _age(lack: Lack) -> Traced[int]:
    return Traced(lack.age_ns, (row(lack.known.operation), lack.view.operation.invoke_index))
