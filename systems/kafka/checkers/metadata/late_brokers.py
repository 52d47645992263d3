"""Late brokers: whose answers lack what another broker had named long before, and who counts them as alive.

An epoch is known from the first answer on that names it or a later one. Epochs of a partition only grow, so which state
is the later one needs no clock.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, duration, seconds
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Traced, most
from fencepost.systems.kafka.broker_view import BrokerView
from fencepost.systems.kafka.checkers.metadata.changes import completed

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
        return completed(self.operation)

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
    by_node: dict[str, list[Lack]] = {}
    for lack in late:
        by_node.setdefault(lack.view.node, []).append(lack)
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
