"""Topic partitions as lanes: which broker led each in which leader epoch, and when a superseded broker still served.

The zombie-brokers checker computes the reigns from the polls that brokers answered as leaders. A partition has a lane
for each broker that led it. Partitions with a superseded leader come first; partitions that kept one leader in one
epoch are only counted.

Tables beside it say what superseded leaders did, which brokers were cut off, and who led which partition.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.history import History
from fencepost.harness.report.overview import LaneState, Stretch, lane_bars, said_inside
from fencepost.harness.report.section import ReportCase, Table, generic, reigns_by_partition
from fencepost.harness.report.svg import (
    FAULT_ROW,
    LANE,
    LEFT,
    RIGHT,
    Axis,
    element,
    fault_bands,
    label,
    picture,
)
from fencepost.harness.report.words import count, text
from fencepost.harness.verdict.by_guarantee import figures_of
from fencepost.harness.verdict.figures import LeaderDeeds, PartitionReign, ZombieLeaderFigures

_CHECKER: Final = "zombie-brokers"
#: The most partitions drawn; the table below the picture has more.
_DRAWN_MAX: Final = 12
#: Room for the word "superseded" before what the leader did.
_WORD: Final = 74

_Row = Mapping[str, Any]


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """The picture, and a sentence on what it leaves out."""

    picture: Markup
    folded: str


def partitions(case: ReportCase) -> Partitions | None:
    """Draw the partitions; None when no log of topic partitions was judged."""
    whole = next(iter(figures_of(case.verdicts, ZombieLeaderFigures)), None)
    if whole is None:
        return None
    deeds = [d for f in figures_of(case.verdicts, ZombieLeaderFigures) for d in f.deeds]
    by_partition = reigns_by_partition(case)
    drawn = dict(list(by_partition.items())[:_DRAWN_MAX])
    return Partitions(
        picture=_picture(case.history, drawn, deeds) if drawn else Markup(""),
        folded=_folded(whole, len(drawn)),
    )


def _folded(whole: ZombieLeaderFigures, drawn: int) -> str:
    changed = whole.partitions - whole.partitions_quiet
    summary = f"{count(changed)} of {count(whole.partitions)} topic partitions changed leader or leader epoch"
    summary += f", {count(drawn)} of them are drawn" if drawn < changed else ""
    return f"{summary}; {count(whole.partitions_quiet)} kept one leader in one epoch."


def _picture(history: History, drawn: Mapping[str, list[PartitionReign]], deeds: list[LeaderDeeds]) -> Markup:
    axis = Axis(0, max(history.end_ns, 1))
    epochs = sorted({reign.epoch for reigns in drawn.values() for reign in reigns})
    lanes = [(name, node) for name, reigns in drawn.items() for node in dict.fromkeys(r.node for r in reigns)]
    top = 8.0
    _, rows = fault_bands(history.faults, axis, top, top, history.end_ns)
    first = top + rows * FAULT_ROW + 8
    bottom = first + LANE * len(lanes) + 4
    bands, _ = fault_bands(history.faults, axis, top, bottom, history.end_ns)
    parts = [axis.drawn(top, bottom), bands]
    if rows:
        parts.append(label(LEFT - 8, top + 12, "faults", "lane-name", "end"))
    described = []
    for number, (name, node) in enumerate(lanes):
        y = first + number * LANE
        if number == 0 or lanes[number - 1][0] != name:
            parts.append(label(4, y + 21, text(name, 6), "lane-name"))
            if number:
                parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y - 1, y2=y - 1, class_="lane-line"))
        parts.append(label(LEFT - 8, y + 21, text(node, 6), "lane-text", "end"))
        own = [r for r in drawn[name] if r.node == node]
        parts.append(lane_bars([_stretch(r) for r in own], axis, y, epochs, "leader epoch"))
        parts += [_did(deed, own, axis, y) for deed in deeds if (deed.partition, deed.node) == (name, node)]
        described += [f"{node} led {name} in epoch {r.epoch}" for r in own]
    return picture(
        bottom + 20,
        *parts,
        name="Who led each topic partition",
        description="; ".join(described[:24]),
        id_="partitions-lanes",
    )


def _stretch(reign: PartitionReign) -> Stretch:
    late_ns = reign.superseded_ns if reign.claimed_samples else None
    return Stretch(
        node=reign.node,
        state=LaneState.LEADER,
        from_ns=reign.from_ns,
        to_ns=max(reign.to_ns, reign.from_ns),
        last_ns=reign.to_ns,
        incarnation=reign.incarnation,
        epoch=reign.epoch,
        samples=reign.samples,
        superseded=None if late_ns is None else (late_ns, reign.to_ns),
    )


def _did(deed: LeaderDeeds, reigns: list[PartitionReign], axis: Axis, y: float) -> Markup:
    """Say beside its lane what a superseded leader acknowledged and answered."""
    reign = next((r for r in reigns if r.epoch == deed.epoch and r.incarnation == deed.incarnation), None)
    if reign is None:
        return Markup("")
    took = f"{count(deed.acknowledged)} appends acknowledged, {count(deed.lost)} lost"
    reads = f"{took}; {count(deed.stale_reads)} stale reads"
    x = axis.x(max(reign.to_ns, deed.superseded_ns)) + 6 + (0 if said_inside(_stretch(reign), axis) else _WORD)
    if x + len(reads) * 6 > RIGHT:
        return Markup("")
    return label(x, y + 18, reads, "lane-text")


def partition_tables(case: ReportCase) -> list[Table]:
    """Make one table for each kind of figure that the verdicts contain."""
    reigns = [reign for own in reigns_by_partition(case).values() for reign in own]
    leaders = figures_of(case.verdicts, ZombieLeaderFigures)
    by_caption = {
        "what superseded partition leaders did": [d for f in leaders for d in f.deeds],
        "brokers that were cut off from the nodes that hold the metadata": [c for f in leaders for c in f.cut_leaders],
        "who led each topic partition that changed its leader": reigns,
    }
    shown = {caption: msgspec.to_builtins(rows) for caption, rows in by_caption.items() if rows}
    return [table for caption, rows in shown.items() for table in generic(caption, rows)]
