"""The size of a group: while nobody changes its members, every node believes in the same number, and in its majority.

A server that starts again and takes its group for a smaller one may elect itself alone and acknowledge what no other
server has (nats-server, release 2.12.4). The same is true of a server that never learns how many members a change
brought. So a node's answers after a start or a change of members count; the others put nothing to the test.
"""

from typing import Final

from fencepost.checkers.facts.group_sizes import SizedBelief, sized_beliefs
from fencepost.checkers.findings.finding import Finding, rule, seconds
from fencepost.checkers.findings.ladder import Findings
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

GUARANTEE: Final = "groups-keep-their-size"
OTHER_SIZE: Final = "other-group-size"
NO_MAJORITY: Final = "quorum-without-majority"
_LACKS: Final = "no server told the size of its group after it had started again or members had changed"
#: How long after the proof of a change a member may still name the group as it was: it learns of it from the log.
_LEARNS_NS: Final = 2_000_000_000


def judge(history: History, facts: Facts, subject: str) -> list[Verdict]:
    """Judge whether all nodes agree on the size and the quorum of one group while nobody changes its members.

    Args:
        history: one run.
        facts: the guarantees that the system states.
        subject: whose group it is.

    Returns:
        One verdict, which counts the starts of servers that told a size, and the servers that told one after a change
        of members; none where the system states nothing of sizes, or no node tells one.
    """
    beliefs = sized_beliefs(history, subject)
    if facts.guarantee(GUARANTEE) is None or not any(belief.leads for belief in beliefs):
        return []
    stretches = _stretches(history)
    findings: list[Finding] = []
    tested: dict[tuple[int, str, int], SizedBelief] = {}
    sizes: set[int] = set()
    for number, (from_ns, to_ns) in enumerate(stretches):
        answers = [belief for belief in beliefs if from_ns <= belief.at_ns <= to_ns]
        first = next((belief for belief in answers if belief.leads), None)
        if first is None:
            continue
        sizes.add(first.size)
        findings += [_finding(subject, first, belief, changed=number > 0) for belief in _differing(answers, first)]
        for belief in answers:
            if belief.incarnation or (number and belief.node != first.node):
                tested.setdefault((number, belief.node, belief.incarnation), belief)
    named = " or ".join(map(str, sorted(sizes)))
    return [
        Findings(
            checker="leadership",
            guarantee=GUARANTEE,
            findings=findings,
            exposed=tuple(belief.row for belief in tested.values()),
            exposure_of="starts of a server, or changes of members, after which it told the size of its group",
            untested=_LACKS,
            rules=(rule(OTHER_SIZE, len(tested), _LACKS), rule(NO_MAJORITY, len(tested), _LACKS)),
            kept=f"every server believes in a group of {named}, after {len(tested)} starts and changes too",
        ).verdict(facts)
    ]


def _stretches(history: History) -> list[tuple[int, int]]:
    """The times from and to which nobody changed members, in ns; the first one begins with the run.

    A member that was cut off or stopped may learn of a change late, and act by the old members meanwhile. So a stretch
    after a change counts only where no other fault was in force since that change began, and from a while after the
    proof on. A change without a proof ends the last stretch.
    """
    changes = [fault for fault in history.faults if fault.effects.changes_members]
    others = [fault for fault in history.faults if not fault.effects.changes_members]
    end_ns = history.end_ns
    if not changes:
        return [(0, end_ns)]
    stretches = [(0, changes[0].began_ns)]
    for number, change in enumerate(changes):
        if change.certain_from_ns is None or change.ended_ns is None:
            break
        next_ns = changes[number + 1].began_ns if changes[number + 1 :] else end_ns
        in_force_to_ns = end_ns if change.certain_to_ns is None else change.certain_to_ns
        for since_ns, from_ns, to_ns in (
            (change.began_ns, change.certain_from_ns, in_force_to_ns),
            (change.began_ns, change.ended_ns, next_ns),
        ):
            disturbed = any(
                fault.began_ns <= to_ns and (fault.ended_ns is None or fault.ended_ns >= since_ns) for fault in others
            )
            if not disturbed and from_ns + _LEARNS_NS < to_ns:
                stretches.append((from_ns + _LEARNS_NS, to_ns))
    return stretches


def _differing(beliefs: list[SizedBelief], first: SizedBelief) -> list[SizedBelief]:
    """The first answer of each life of a server that names another size, or a quorum that is no majority."""
    differing: dict[tuple[str, int], SizedBelief] = {}
    for belief in beliefs:
        if belief.size != first.size or belief.quorum != belief.size // 2 + 1:
            differing.setdefault((belief.node, belief.incarnation), belief)
    return list(differing.values())


def _finding(subject: str, first: SizedBelief, belief: SizedBelief, *, changed: bool) -> Finding:
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
            _since(changed=changed) if other else "Two such quorums may have no server in common.",
        ),
        from_ns=first.at_ns,
        to_ns=belief.at_ns,
        nodes=tuple(dict.fromkeys((first.node, belief.node))),
    )


def _since(*, changed: bool) -> str:
    if changed:
        return (
            f"The members had been changed at least {_LEARNS_NS / 1e9:g} s before, and nobody changed them meanwhile."
        )
    return "Nobody had changed the members."
