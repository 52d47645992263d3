"""The last step, in plain Python: from the few rows that Spark returns to the rows of the report."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.harness.warehouse.faults import Landmarks
from fencepost.harness.warehouse.results import FaultRow, OverlapRow, PhaseRow, ReignRow
from fencepost.harness.warehouse.service import Segment, Service, first_ok_ns, longest_gap, within

#: (subject, epoch) -> when that epoch had certainly begun.
Beginnings = Mapping[tuple[str, int], int]


class SupersededReign(NamedTuple):
    """A row of SUPERSEDED."""

    node: str
    epoch: int
    incarnation_from_ns: int
    superseded_ns: int
    claimed_until_ns: int


def beginnings(reigns: Sequence[Mapping[str, Any]], stamps: Sequence[Mapping[str, Any]], subject: str) -> Beginnings:
    """When each epoch had certainly begun: its first claim or, for `subject`, the first operation stamped with it."""
    moments = [((row["subject"], row["epoch"]), row["certain_from_ns"]) for row in reigns if row["epoch"] is not None]
    moments += [((subject, row["epoch"]), row["first_ok_ns"]) for row in stamps]
    begun: dict[tuple[str, int], int] = {}
    for epoch, at in moments:
        begun[epoch] = min(at, begun.get(epoch, at))
    return begun


def reign_rows(rows: Sequence[Mapping[str, Any]], begun: Beginnings) -> list[ReignRow]:
    """Add to every reign when it was superseded, and for how long it certainly went on claiming."""
    reigns = []
    for row in sorted(rows, key=lambda row: (row["from_ns"], row["node"], row["incarnation"])):
        by = _superseding(begun, row["subject"], row["epoch"]) if row["exact"] else None
        since = None if by is None else by[0]
        after = 0 if since is None else max(0, row["certain_to_ns"] - since)
        reigns.append(ReignRow(**row, superseded_ns=since, claimed_after_ns=after))
    return reigns


def overlap_rows(reigns: Sequence[ReignRow], begun: Beginnings) -> list[OverlapRow]:
    """Every reign that certainly went on after a later epoch had begun."""
    overlaps = []
    for reign in reigns:
        by = _superseding(begun, reign.subject, reign.epoch)
        if not reign.claimed_after_ns or by is None or reign.epoch is None:
            continue
        overlaps.append(
            OverlapRow(
                subject=reign.subject,
                node=reign.node,
                epoch=reign.epoch,
                by_nodes=tuple(sorted({r.node for r in reigns if (r.subject, r.epoch) == (reign.subject, by[1])})),
                by_epoch=by[1],
                from_ns=by[0],
                to_ns=reign.certain_to_ns,
            )
        )
    return overlaps


def superseded_reigns(reigns: Sequence[ReignRow], subject: str, marks: Landmarks) -> list[SupersededReign]:
    """The reigns whose late operations are to be looked for."""
    return [
        SupersededReign(
            node=reign.node,
            epoch=reign.epoch,
            incarnation_from_ns=marks.started_ns(reign.node, reign.incarnation),
            superseded_ns=reign.superseded_ns,
            claimed_until_ns=reign.certain_to_ns,
        )
        for reign in reigns
        if reign.subject == subject and reign.superseded_ns is not None and reign.epoch is not None
    ]


def fault_rows(
    marks: Landmarks, served: Sequence[Service], cuts: Sequence[Segment], begun: Beginnings, subject: str
) -> list[FaultRow]:
    """What went on in and after every fault that was tried, in the order of `began_ns`."""
    rows = []
    for fault in marks.faults:
        end_ns = marks.end_ns + 1 if fault.ended_ns is None else fault.ended_ns
        inside = within(served, cuts, fault.began_ns, end_ns)
        gap = longest_gap(inside, fault.began_ns, end_ns)
        recovered = {} if fault.ended_ns is None else first_ok_ns(served, fault.ended_ns)
        next_ns = min((f.began_ns for f in marks.faults if f.began_ns > fault.began_ns), default=marks.end_ns + 1)
        new = _new_epoch(begun, subject, fault.began_ns, next_ns)
        rows.append(
            FaultRow(
                fault_id=fault.fault_id,
                fault=fault.fault,
                target=fault.target,
                nodes=fault.nodes,
                outcome=fault.outcome.value,
                began_ns=fault.began_ns,
                ended_ns=fault.ended_ns,
                new_epoch=None if new is None else new[1],
                new_leader_after_ns=None if new is None else new[0] - fault.began_ns,
                longest_without_ok_ns=gap.length_ns,
                without_ok_from_ns=gap.from_ns,
                recovered_after_ns=min(recovered.values(), default=end_ns) - end_ns if recovered else None,
                recovered_after_ns_by_node={node: at - end_ns for node, at in sorted(recovered.items())},
                **_outcomes(inside),
            )
        )
    return rows


def phase_rows(marks: Landmarks, served: Sequence[Service], cuts: Sequence[Segment]) -> list[PhaseRow]:
    """How much of what was asked in each phase was served."""
    rows = []
    for phase, (from_ns, to_ns) in marks.history.phases.items():
        inside = within(served, cuts, from_ns, to_ns)
        outcomes = _outcomes(inside)
        asked = sum(outcomes.values())
        gap = longest_gap(inside, from_ns, to_ns)
        rows.append(
            PhaseRow(
                phase=phase.value,
                from_ns=from_ns,
                to_ns=to_ns,
                availability=outcomes["ok"] / asked if asked else None,
                longest_without_ok_ns=gap.length_ns,
                without_ok_from_ns=gap.from_ns,
                **outcomes,
            )
        )
    return rows


def _superseding(begun: Beginnings, subject: str, epoch: int | None) -> tuple[int, int] | None:
    """(when, which): the first certain begin of an epoch later than `epoch`."""
    if epoch is None:
        return None
    return min(((at, later) for (of, later), at in begun.items() if of == subject and later > epoch), default=None)


def _new_epoch(begun: Beginnings, subject: str, from_ns: int, to_ns: int) -> tuple[int, int] | None:
    """(when, which): the first begin in [from_ns, to_ns) of an epoch later than any begun before."""
    before = max((epoch for (of, epoch), at in begun.items() if of == subject and at < from_ns), default=None)
    return min(
        (
            (at, epoch)
            for (of, epoch), at in begun.items()
            if of == subject and from_ns <= at < to_ns and (before is None or epoch > before)
        ),
        default=None,
    )


def _outcomes(rows: Sequence[Service]) -> dict[str, int]:
    return {name: sum(getattr(row, name) for row in rows) for name in ("ok", "fail", "info")}
