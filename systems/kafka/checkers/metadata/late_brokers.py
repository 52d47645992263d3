"""Late brokers: whose answers lack what another broker had named long before, and who counts them as alive."""

from collections.abc import Sequence
from typing import Any, Final

from fencepost.checkers.facts.evidence import Rows, row, rows
from fencepost.checkers.facts.servers import Incarnations
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule, seconds
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.broker_views import KnownEpochs, Lack, ViewAnswer, late_episodes

CHECKER: Final = "partition-states"
FRESH: Final = "partition-states-fresh"
FENCED: Final = "stale-broker-is-fenced"

STALE: Final = "stale-partition-state"
NOT_FENCED: Final = "stale-broker-not-fenced"


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
    return Findings(
        checker=CHECKER,
        guarantee=FRESH,
        findings=[_stale(episode) for episode in episodes],
        broken="" if oldest is None else f"{_brokers(by_node)}, the oldest {duration(oldest.age_ns)} late",
        exposed=exposed,
        exposure_of=f"answers asked for more than {duration(fresh_ns)} after a leader had changed",
        untested="no leader had changed long enough before an answer",
        rules=(rule(STALE, len(exposed), "no leader had changed long enough before an answer"),),
        kept=f"no answer was more than {duration(fresh_ns)} late",
        counted={"stale_views": rows(lack.view.operation for lack in late)},
        figures={
            "late_ns_max": 0 if oldest is None else oldest.age_ns,
            "by_node": [_at_node(node, own) for node, own in sorted(by_node.items())],
        },
        evidence={"late_ns_max": () if oldest is None else _rows(oldest)},
    ).verdict(facts)


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
    return Finding(anomaly=STALE, operations=(oldest.known.operation, view.operation), steps=steps)


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
    exposed = rows(view.operation for view in tested)
    lacking = f"no broker's answers were late for longer than {duration(fenced_ns + fresh_ns)}"
    return Findings(
        checker=CHECKER,
        guarantee=FENCED,
        findings=findings,
        broken=f"{len(findings)} times a broker counted as alive whose answers had been late for longer than"
        f" {duration(fenced_ns)}",
        exposed=exposed,
        exposure_of="answers of other brokers on whether one that had to be fenced by then was alive",
        untested=lacking,
        rules=(rule(NOT_FENCED, len(exposed), lacking),),
        kept="the others stopped counting as alive each broker whose answers were late that long",
    ).verdict(facts)


def _alive(lack: Lack, other: ViewAnswer) -> Finding:
    view, known, partition = lack.view, lack.known, lack.partition
    steps = (
        f"{known.node} named epoch {known.epoch(partition)} of p{partition} at {seconds(known.answered_ns)}.",
        f"{other.node}, asked {duration(other.asked_ns - known.answered_ns)} later, counted {view.node} (broker"
        f" {view.says.broker}) as alive.",
        f"{view.node} lacked that epoch still later, {duration(lack.age_ns)} after it was known.",
    )
    shown = (known.operation, other.operation, view.operation)
    return Finding(anomaly=NOT_FENCED, operations=shown, steps=steps)


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


def _at_node(node: str, own: Sequence[Lack]) -> dict[str, Any]:
    oldest = max(own, key=lambda lack: lack.age_ns)
    return {
        "node": node,
        "stale": len(own),
        "age_ns_max": oldest.age_ns,
        "events": {"stale": rows(lack.view.operation for lack in own), "age_ns_max": _rows(oldest)},
    }


def _rows(lack: Lack) -> Rows:
    return row(lack.known.operation), lack.view.operation.invoke_index
