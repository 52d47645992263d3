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
    """The verdict, or none where samples do not keep all assumptions."""
    if facts.leadership is None or not facts.leadership.one_leader_per_epoch:
        return []
    evidence = _evidence(history, reigns)
    double = [(epoch, nodes) for epoch, nodes in sorted(evidence.items()) if len(nodes) > 1]
    found = [_finding(history, epoch, nodes) for epoch, nodes in double]
    nodes_heard = {s.node for s in reigns.samples if s.claims is not Claim.SILENT}
    nodes_heard |= {node for nodes in evidence.values() for node in nodes}
    chances = len(evidence) if len(nodes_heard) > 1 else 0
    lacks = "" if chances else "fewer than two nodes said anything of whether they lead"
    return [
        Findings(
            checker="leadership",
            guarantee=GUARANTEE,
            found=found,
            broken=f"{len(found)} epochs had two leaders",
            exposed=tuple(next(iter(nodes.values())) for _, nodes in sorted(evidence.items())),
            exposure_of="epochs that a node said it led",
            untested="nobody said that it led, in any epoch",
            kept=f"each of {len(evidence)} epochs had one leader",
            shown=found[:_WITNESSES_MAX],
            rules=(Rule(name=TWO_LEADERS, chances=chances, lacks=lacks),),
        ).verdict(facts)
    ]


def _evidence(history: History, reigns: Reigns) -> dict[int, dict[str, int]]:
    """Epoch to the nodes that led it, each with the event that says so."""
    logged: dict[tuple[str, int], set[int]] = defaultdict(set)
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for event in history.events:
        if type(event) is EpochEvent:
            logged[event.node, event.incarnation].add(event.epoch)
            found[event.epoch].setdefault(event.node, event.index)
    for reign in reigns.reigns:
        own = logged.get((reign.node, reign.incarnation))
        if own is None or reign.epoch in own:
            found[reign.epoch].setdefault(reign.node, reign.samples[0].index)
    return found


def _finding(history: History, epoch: int, nodes: dict[str, int]) -> Finding:
    ordered = sorted(nodes.items(), key=lambda item: item[1])
    times = [history.events[index].time_ns for _, index in ordered]
    steps = []
    for node, index in ordered:
        event = history.events[index]
        said = "answered that it led" if isinstance(event, BeliefEvent) else "wrote in its log that it came to lead"
        steps.append(f"{node} {said} epoch {epoch}.")
    return Finding(
        anomaly=TWO_LEADERS,
        events=tuple(nodes.values()),
        counted_by=max(nodes.values()),
        steps=(*steps, "An epoch belongs to at most one leader."),
        from_ns=min(times),
        to_ns=max(times),
        nodes=tuple(node for node, _ in ordered),
    )
