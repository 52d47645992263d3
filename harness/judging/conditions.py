"""Whether a run kept to the conditions under which its system promises something, from its history alone.

Evaluated over the whole run: three faults that damage one node each have damaged three nodes. Outside its condition
nobody stands behind a guarantee, so a violation of it is counted, and does not make the run invalid unless the plan
requires the guarantee by name.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fencepost.harness.history import Disk, Effects, FaultOutcome, FaultSpan, History, Stops
from fencepost.harness.runtime.node import Member, electorates
from fencepost.harness.verdict.guarantee import Condition, Guarantee, KnownIssue, Standing, Unmet

#: From harmless to harmful: who has a damaged disk lacks what it had not synced, too.
_GRAVITY: Final = (Disk.KEPT, Disk.UNSYNCED, Disk.DAMAGED)
_STOPS: Final = (Stops.NO, Stops.POSSIBLE, Stops.CERTAIN)
#: The detail in which a fault names what was lost, as "node:path, node:path".
_LISTED: Final = {Disk.UNSYNCED: "lost", Disk.DAMAGED: "damaged"}


def in_this_run(guarantee: Guarantee, history: History, members: Sequence[Member]) -> Guarantee:
    """Return the guarantee as it stands after this run: its standing where a condition was not met, its known issues.

    Args:
        guarantee: as the release, the settings and the options promise it.
        history: the whole run.
        members: the nodes with their roles and votes.
    """
    unmet = next(
        filter(None, (_unmet(one, guarantee.standing, history, members) for one in guarantee.conditions)), None
    )
    issues = [issue.text for issue in guarantee.issues if _shows(issue, history)]
    known = "; ".join(dict.fromkeys([*filter(None, [guarantee.known_issue]), *issues])) or None
    return msgspec.structs.replace(
        guarantee,
        standing=Standing.MEASURED if unmet else guarantee.standing,
        known_issue=known,
        issues=(),
        unmet=unmet if guarantee.standing is not Standing.MEASURED else None,
    )


def hit(fault: FaultSpan) -> tuple[str, ...]:
    """Return the nodes whose disks this fault left worse than they were, or may have."""
    if fault.outcome is FaultOutcome.SKIPPED or fault.effects.disk is Disk.KEPT:
        return ()
    listed = fault.details.get(_LISTED[fault.effects.disk])
    if not isinstance(listed, str):
        return fault.nodes
    names = {entry.partition(":")[0] for entry in listed.split(", ")}
    return tuple(node for node in fault.nodes if node in names)


def _unmet(condition: Condition, standing: Standing, history: History, members: Sequence[Member]) -> Unmet | None:
    for group in _groups(condition, members):
        # The first fault that hit each node; later ones make it no worse.
        by_node: dict[str, int] = {}
        for place, fault in enumerate(history.faults):
            if _GRAVITY.index(fault.effects.disk) >= _GRAVITY.index(condition.loss):
                for node in hit(fault):
                    if node in group:
                        by_node.setdefault(node, place)
        if len(by_node) > ((len(group) - 1) // 2 if condition.most is None else condition.most):
            return _broken(condition, standing, len(group), by_node, history.faults)
    return None


def _groups(condition: Condition, members: Sequence[Member]) -> list[tuple[str, ...]]:
    if condition.role is not None:
        return [tuple(member.name for member in members if condition.role in member.roles)]
    return list(electorates(members))


def _broken(
    condition: Condition, standing: Standing, among: int, by_node: Mapping[str, int], faults: Sequence[FaultSpan]
) -> Unmet:
    places = sorted({*by_node.values()})
    sure = all(faults[place].outcome is FaultOutcome.INSTALLED for place in places)
    doubt = "" if sure else " at most, since not every fault is proven"
    acts = "; ".join(
        f"#{place + 1} {faults[place].fault} of {', '.join(node for node, first in by_node.items() if first == place)}"
        for place in places
    )
    which = f"{len(by_node)} of {among}{doubt} (fault{'s' if len(places) > 1 else ''} {acts})"
    return Unmet(
        condition=condition.text,
        standing=standing,
        nodes=tuple(by_node),
        faults=tuple(faults[place].fault_id for place in places),
        events=tuple(sorted(event for place in places for event in faults[place].events)),
        text=f"{standing} only while {condition.text}; in this run it was {which}",
    )


def _shows(issue: KnownIssue, history: History) -> bool:
    """Decide whether some fault had the effects without which the issue does not show."""
    return issue.needs is None or any(
        fault.outcome is not FaultOutcome.SKIPPED and _has(fault, issue.needs) for fault in history.faults
    )


def _has(fault: FaultSpan, needs: Effects) -> bool:
    """Decide whether the fault had at least these effects; a loss of disks counts only where something was lost.

    What was not synced is lost in another way than what was damaged: an issue of the one does not show in the other.
    """
    flags = ("cuts", "holds", "delays", "skews", "changes_members", "ends")
    disk = fault.effects.disk if hit(fault) else Disk.KEPT
    return (
        all(getattr(fault.effects, flag) >= getattr(needs, flag) for flag in flags)
        and _STOPS.index(fault.effects.stops) >= _STOPS.index(needs.stops)
        and needs.disk in (Disk.KEPT, disk)
    )
