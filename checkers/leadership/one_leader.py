"""Two leaders of one epoch: judged only where a source says role and epoch together, as the system's own facts say."""

from typing import Final

from fencepost.checkers.facts.leaders import Leading, leaders_by_epoch
from fencepost.checkers.facts.reigns import Reigns
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.harness.history import Claim, History
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
    evidence = leaders_by_epoch(history, reigns)
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
            exposed=tuple(next(iter(nodes.values())).event for _, nodes in sorted(evidence.items())),
            exposure_of="epochs that a node said it led",
            untested="nobody said that it led, in any epoch",
            kept=f"each of {len(evidence)} epochs had one leader",
            shown=findings[:_WITNESSES_MAX],
            rules=(Rule(name=TWO_LEADERS, chances=chances, lacks=lacks),),
        ).verdict(facts)
    ]


def _finding(history: History, epoch: int, nodes: dict[str, Leading]) -> Finding:
    ordered = sorted(nodes.items(), key=lambda item: item[1].event)
    events = [leading.event for leading in nodes.values()]
    times = [history.events[index].time_ns for index in events]
    steps = []
    for node, leading in ordered:
        statement = "wrote in its log that it came to lead" if leading.logged else "answered that it led"
        steps.append(f"{node} {statement} epoch {epoch}.")
    return Finding(
        anomaly=TWO_LEADERS,
        events=tuple(events),
        counted_by=max(events),
        steps=(*steps, "An epoch belongs to at most one leader."),
        from_ns=min(times),
        to_ns=max(times),
        nodes=tuple(node for node, _ in ordered),
    )
