"""Two leaders of one epoch: judged only where a source says role and epoch together, as the system's own facts say.

Where a node's log has lines about its reigns, a claim counts only when the log names that epoch too: a node that is
about to lead may, for a moment, say that it leads while its state still stands in the epoch before.
"""

from collections import defaultdict
from typing import Final

from fencepost.checkers.facts.reigns import Reigns
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.harness.history import BeliefEvent, Claim, EpochEvent, History
from fencepost.harness.verdict import Facts, Rule, Verdict

GUARANTEE: Final = "one-leader-per-epoch"
TWO_LEADERS: Final = "two-leaders-in-one-epoch"
_WITNESSES_MAX: Final = 3


def judge(history: History, facts: Facts, reigns: Reigns) -> list[Verdict]:
    """Judge whether each epoch had at most one leader.

    Args:
        history: one run.
        facts: `leadership.one_leader_per_epoch` says whether this system's samples allow to judge it.
        reigns: the reigns of one subject of this history.

    Returns:
        One verdict, which counts the epochs that some node said it led; none where the samples do not allow it.

    Source: election safety, "at most one leader can be elected in a given term" (Ongaro & Ousterhout, "In Search of
    an Understandable Consensus Algorithm", 2014); in Zab an epoch has one primary (Junqueira, Reed, Serafini, 2011).
    """
    if facts.leadership is None or not facts.leadership.one_leader_per_epoch:
        return []
    evidence = _evidence(history, reigns)
    double = [(epoch, nodes) for epoch, nodes in sorted(evidence.items()) if len(nodes) > 1]
    findings = [_finding(history, epoch, nodes) for epoch, nodes in double]
    nodes_heard = {s.node for s in reigns.samples if s.claims is not Claim.SILENT}
    nodes_heard |= {node for nodes in evidence.values() for node in nodes}
    chances = len(evidence) if len(nodes_heard) > 1 else 0
    lacks = "" if chances else "fewer than two nodes said anything of whether they lead"
    return [
        Findings(
            checker="leadership",
            guarantee=GUARANTEE,
            findings=findings,
            broken=f"{len(findings)} epochs had two leaders",
            exposed=tuple(next(iter(nodes.values())) for _, nodes in sorted(evidence.items())),
            exposure_of="epochs that a node said it led",
            untested="nobody said that it led, in any epoch",
            kept=f"each of {len(evidence)} epochs had one leader",
            shown=findings[:_WITNESSES_MAX],
            rules=(Rule(name=TWO_LEADERS, chances=chances, lacks=lacks),),
        ).verdict(facts)
    ]


def _evidence(history: History, reigns: Reigns) -> dict[int, dict[str, int]]:
    """Map each epoch to the nodes that led it, each with the event that says so."""
    logged: dict[tuple[str, int], set[int]] = defaultdict(set)
    leaders: dict[int, dict[str, int]] = defaultdict(dict)
    for event in history.of(EpochEvent):
        logged[event.node, event.incarnation].add(event.epoch)
        leaders[event.epoch].setdefault(event.node, event.index)
    for reign in reigns.reigns:
        own = logged.get((reign.node, reign.incarnation))
        if own is None or reign.epoch in own:
            leaders[reign.epoch].setdefault(reign.node, reign.samples[0].index)
    return leaders


def _finding(history: History, epoch: int, nodes: dict[str, int]) -> Finding:
    ordered = sorted(nodes.items(), key=lambda item: item[1])
    times = [history.events[index].time_ns for _, index in ordered]
    steps = []
    for node, index in ordered:
        event = history.events[index]
        statement = (
            "answered that it led" if isinstance(event, BeliefEvent) else "wrote in its log that it came to lead"
        )
        steps.append(f"{node} {statement} epoch {epoch}.")
    return Finding(
        anomaly=TWO_LEADERS,
        events=tuple(nodes.values()),
        counted_by=max(nodes.values()),
        steps=(*steps, "An epoch belongs to at most one leader."),
        from_ns=min(times),
        to_ns=max(times),
        nodes=tuple(node for node, _ in ordered),
    )
