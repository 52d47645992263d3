"""The size of a group: while nobody changes its members, every node believes in the same number, and in its majority.

A server that starts again and takes its group for a smaller one may elect itself alone and acknowledge what no other
server has (nats-server, release 2.12.4). So a node's answers after a start count, and those of a node that never
stopped do not put anything to the test.
"""

from typing import Final

from fencepost.checkers.facts.group_sizes import SizedBelief, sized_beliefs
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.checkers.findings.rules import rule
from fencepost.checkers.findings.words import seconds
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

GUARANTEE: Final = "groups-keep-their-size"
OTHER_SIZE: Final = "other-group-size"
NO_MAJORITY: Final = "quorum-without-majority"
_LACKS: Final = "no server started again and told the size of its group"


def judge(history: History, facts: Facts, subject: str) -> list[Verdict]:
    """Judge whether all nodes agree on the size and the quorum of one group throughout the run.

    Args:
        history: one run.
        facts: the guarantees that the system states.
        subject: whose group it is.

    Returns:
        One verdict, which counts the starts of servers that told a size; none where the system states nothing of sizes,
        no node tells one, or a fault changed members.
    """
    beliefs = sized_beliefs(history, subject)
    first = next((belief for belief in beliefs if belief.leads), None)
    changed = any(fault.effects.changes_members for fault in history.faults)
    if facts.guarantee(GUARANTEE) is None or first is None or changed:
        return []
    findings = [_finding(subject, first, belief) for belief in _differing(beliefs, first)]
    starts: dict[tuple[str, int], SizedBelief] = {}
    for belief in beliefs:
        if belief.incarnation:
            starts.setdefault((belief.node, belief.incarnation), belief)
    return [
        Findings(
            checker="leadership",
            guarantee=GUARANTEE,
            findings=findings,
            exposed=tuple(belief.row for belief in starts.values()),
            exposure_of="starts of a server after which it told the size of its group",
            untested=_LACKS,
            rules=(rule(OTHER_SIZE, len(starts), _LACKS), rule(NO_MAJORITY, len(starts), _LACKS)),
            kept=f"every server believes in {first.quorum} of {first.size}, after {len(starts)} starts too",
        ).verdict(facts)
    ]


def _differing(beliefs: list[SizedBelief], first: SizedBelief) -> list[SizedBelief]:
    """The first answer of each life of a server that names another size, or a quorum that is no majority."""
    differing: dict[tuple[str, int], SizedBelief] = {}
    for belief in beliefs:
        if belief.size != first.size or belief.quorum != belief.size // 2 + 1:
            differing.setdefault((belief.node, belief.incarnation), belief)
    return list(differing.values())


def _finding(subject: str, first: SizedBelief, belief: SizedBelief) -> Finding:
    other = belief.size != first.size
    return Finding(
        anomaly=OTHER_SIZE if other else NO_MAJORITY,
        events=(first.row, belief.row) if first.row != belief.row else (belief.row,),
        counted_by=belief.row,
        steps=(
            f"{first.node} led the {subject} group at {seconds(first.at_ns)}, with {first.quorum} of {first.size} for a"
            " quorum.",
            f"{belief.node} answered at {seconds(belief.at_ns)}, after {belief.incarnation} restarts, that it needs"
            f" {belief.quorum} of {belief.size}.",
            "Nobody had changed the members." if other else "Two such quorums may have no server in common.",
        ),
        from_ns=first.at_ns,
        to_ns=belief.at_ns,
        nodes=tuple(dict.fromkeys((first.node, belief.node))),
    )
