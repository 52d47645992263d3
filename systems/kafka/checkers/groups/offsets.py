"""The offsets that groups committed: is the last one kept, and do reads show it at once?"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.positions import in_final
from fencepost.checkers.facts.servers import last_fault_ns, plans_no_fault
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, duration, rule
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.groups.members import CHECKER, ConsumerGroup, completed_ns

DURABLE: Final = "group-commits-durable"
FRESH: Final = "group-offsets-fresh"
LOST: Final = "lost-offset"
PHANTOM: Final = "phantom-offset"
STALE: Final = "stale-offset"
_LACKS: Final = "no fault touched a broker after a commit was sent"
_NO_READ: Final = "no offset was read after a commit had been acknowledged"


def _overtaken(group: ConsumerGroup, read: Operation) -> tuple[Operation | None, Operation] | None:
    """Return the commit that a read shows and a later one that it should have shown, or None where it is fresh."""
    newest = group.newest.before(read.invoked_ns)
    if newest is None:
        return None
    if read.result is None:
        return None, newest[1]
    shown = group.commit_of.get(read.result)
    if shown is None or shown.type is not Outcome.OK or completed_ns(shown) >= newest[0]:
        return None
    return shown, newest[1]


def _finding(anomaly: str, group: ConsumerGroup, read: Operation, shown: Operation | None, newer: Operation) -> Finding:
    steps = [f"{newer.node} acknowledged the commit of {newer.value} in group {group.key}."]
    if shown is not None:
        before = duration(newer.invoked_ns - completed_ns(shown))
        steps.insert(0, f"{shown.node} acknowledged the commit of {shown.value} in group {group.key}.")
        steps[1] = f"{before} later {newer.value} was committed, and acknowledged as well."
    what = "no offset" if shown is None else f"{shown.value} again"
    steps.append(
        f"{duration(read.invoked_ns - completed_ns(newer))} after that a read by way of {read.node} gave {what}."
    )
    operations = (newer, read) if shown is None else (shown, newer, read)
    return Finding(anomaly=anomaly, operations=operations, steps=tuple(steps))


def _phantoms(group: ConsumerGroup) -> list[Finding]:
    """One finding for each number that reads show although its commit was refused, or that nobody committed."""
    by_number: dict[int, Finding] = {}
    for read in group.reads:
        commit = group.commit_of.get(read.result)
        if read.result is None or read.result in by_number or (commit is not None and commit.type is not Outcome.FAIL):
            continue
        why = "that nobody had committed" if commit is None else f"whose commit was refused ({commit.error})"
        step = f"A read of group {group.key} by way of {read.node} gave {read.result}, {why}."
        operations = (read,) if commit is None else (commit, read)
        by_number[read.result] = Finding(anomaly=PHANTOM, operations=operations, steps=(step,))
    return list(by_number.values())


def judge_durable(history: History, groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge what is read last of each group, and that nothing is read that was refused."""
    undisturbed = plans_no_fault(facts)
    until_ns = last_fault_ns(history, {commit.node for group in groups for commit in group.commits})
    findings: list[Finding] = []
    exposed: list[Operation] = []
    unread: list[str] = []
    for group in groups:
        findings += _phantoms(group)
        last = [read for read in group.reads if in_final(history, read)]
        if not last:
            unread.append(group.key)
            continue
        overtaken = _overtaken(group, last[-1])
        if overtaken is not None:
            findings.append(_finding(LOST, group, last[-1], *overtaken))
        exposed += [c for c in group.acknowledged if undisturbed or c.invoked_ns < until_ns]
    doubt = Doubt(Cause.UNDECIDED, f"nothing was read of {', '.join(unread)} at the end") if unread else None
    reads = [read for group in groups for read in group.reads]
    return Findings(
        checker=CHECKER,
        guarantee=DURABLE,
        findings=findings,
        doubt=doubt,
        exposed=rows(exposed),
        exposure_of="acknowledged commits that something disturbed, of groups that were read at the end",
        untested=_LACKS,
        kept=f"{len(groups)} groups kept the newest of {len(exposed)} commits that something disturbed",
        rules=(rule(LOST, len(exposed), _LACKS), rule(PHANTOM, len(reads), "no offset was read")),
        counted={
            "commits_ok": rows(c for group in groups for c in group.acknowledged),
            "commits_fail": rows(c for group in groups for c in group.commits if c.type is Outcome.FAIL),
            "commits_info": rows(c for group in groups for c in group.commits if c.type is Outcome.INFO),
        },
    ).verdict(facts)


def judge_fresh(history: History, groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge every read of an offset against the commits that were acknowledged before it was sent."""
    exposed = [(group, read) for group in groups for read in group.reads if group.newest.before(read.invoked_ns)]
    stale = [(group, read, old) for group, read in exposed if (old := _overtaken(group, read)) is not None]
    return Findings(
        checker=CHECKER,
        guarantee=FRESH,
        findings=[_finding(STALE, group, read, *old) for group, read, old in stale],
        exposed=rows(read for _, read in exposed),
        exposure_of="reads of an offset after a commit had been acknowledged",
        untested=_NO_READ,
        kept=f"{len(exposed)} reads showed the last commit that had been acknowledged, or a later one",
        rules=(rule(STALE, len(exposed), _NO_READ),),
        counted={"stale_reads": rows(read for _, read, _ in stale)},
    ).verdict(facts)
