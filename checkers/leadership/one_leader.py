"""Two leaders of one epoch: judged only where a source says role and epoch together, as the system's own facts say.

Where a node's log has lines about its reigns, a claim counts only when the log names that epoch too: a node that is
about to lead may, for a moment, say that it leads while its state still stands in the epoch before.
"""

from collections import defaultdict
from typing import Final

from fencepost.checkers.facts.reigns import Reigns
from fencepost.harness.history import BeliefEvent, EpochEvent, History
from fencepost.harness.verdict import Facts, Validity, Verdict, Witness

GUARANTEE: Final = "one-leader-per-epoch"


def judge(history: History, facts: Facts, reigns: Reigns) -> list[Verdict]:
    """The verdict, or none where samples do not keep all assumptions."""
    if facts.leadership is None or not facts.leadership.one_leader_per_epoch:
        return []
    evidence = _evidence(history, reigns)
    double = {epoch: nodes for epoch, nodes in evidence.items() if len(nodes) > 1}
    exposure = len(evidence)
    if double:
        validity, reason = Validity.INVALID, f"{len(double)} epochs had two leaders"
    elif exposure < facts.thresholds.exposure_min:
        validity, reason = Validity.UNKNOWN, "nobody said that it led, in any epoch"
    else:
        validity, reason = Validity.VALID, f"each of {exposure} epochs had one leader"
    return [
        Verdict(
            checker="leadership",
            guarantee=GUARANTEE,
            validity=validity,
            reason=reason,
            exposure=exposure,
            exposure_of="epochs that a node said it led",
            anomalies={"two-leaders-in-one-epoch": len(double)} if double else {},
            witnesses=tuple(_witness(history, epoch, nodes) for epoch, nodes in sorted(double.items())[:3]),
            evidence={
                "exposure": tuple(next(iter(nodes.values())) for _, nodes in sorted(evidence.items())),
                "anomalies.two-leaders-in-one-epoch": tuple(max(nodes.values()) for _, nodes in sorted(double.items())),
            },
        )
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


def _witness(history: History, epoch: int, nodes: dict[str, int]) -> Witness:
    ordered = sorted(nodes.items(), key=lambda item: item[1])
    times = [history.events[index].time_ns for _, index in ordered]
    steps = []
    for node, index in ordered:
        event = history.events[index]
        said = "answered that it led" if isinstance(event, BeliefEvent) else "wrote in its log that it came to lead"
        steps.append(f"{node} {said} epoch {epoch}.")
    return Witness(
        anomaly="two-leaders-in-one-epoch",
        events=tuple(index for _, index in ordered),
        steps=(*steps, "An epoch belongs to at most one leader."),
        from_ns=min(times),
        to_ns=max(times),
        nodes=tuple(node for node, _ in ordered),
    )
