"""The whole run as one still picture: phases, fault rows, and a lane per node that shows its view of the leader.

It needs neither colour nor JavaScript: a leader's bar is tall and carries its epoch and a pattern, a follower's is a
thin line, silence is dotted, a dead process is crossed, and a superseded claim is framed and marked "superseded".
"""

from typing import Final

from markupsafe import Markup

from fencepost.harness.history import History
from fencepost.harness.report.facts.lanes import Lanes, LaneState, Row, Stretch
from fencepost.harness.report.pictures.migration import migration_bands, who_controls
from fencepost.harness.report.pictures.svg import (
    FAULT_ROW,
    LANE,
    LEFT,
    RIGHT,
    Axis,
    box,
    element,
    epoch_class,
    fault_bands,
    fitting,
    joined,
    label,
    picture,
    title,
)
from fencepost.harness.report.words.wording import clock, length, text

#: In a lane with more stretches than this, those thinner than half a pixel are left out.
_STRETCHES_MAX: Final = 1500
_SUPERSEDED: Final = 84


def overview(history: History, lanes: Lanes, word: str) -> Markup:
    """Draw the phases, faults and lanes of the whole run."""
    axis = Axis(0, max(history.end_ns, 1))
    epochs = lanes.epochs
    top = 20.0
    shown = list(lanes.rows())
    faults = history.faults
    _, rows = fault_bands(faults, axis, top, top, history.end_ns)
    band_y = top + rows * FAULT_ROW
    migrating = migration_bands(history, axis, band_y)
    if migrating:
        migrating += who_controls(lanes, axis, band_y + FAULT_ROW)
    lanes_top = band_y + (FAULT_ROW + LANE if migrating else 0) + 8
    bottom = lanes_top + LANE * len(shown) + 4
    bands, _ = fault_bands(faults, axis, top, bottom, history.end_ns)
    parts = [axis.drawn(top, bottom), _phases(history, axis, bottom), bands, *migrating]
    if rows:
        parts.append(label(LEFT - 8, top + 12, "faults", "lane-name", "end"))
    for number, row in enumerate(shown):
        y = lanes_top + number * LANE
        parts.append(_names(row, y))
        if not row.lane:
            parts.append(label(LEFT + 4, y + 21, "never asked", "lane-text"))
        if row.last:
            parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y + LANE - 1, y2=y + LANE - 1, class_="lane-line"))
        parts.append(lane_bars(row.lane, axis, y, epochs, word))
    parts.append(_epoch_marks(lanes, axis, lanes_top, bottom, word))
    return picture(
        bottom + 20,
        *parts,
        name="Who led when, and the faults",
        description=_in_words(lanes, word),
        id_="overview",
    )


def _names(row: Row, y: float) -> Markup:
    """Draw the node's name and, if the lanes have several subjects, the lane's subject below it."""
    if not row.title:
        return label(LEFT - 8, y + 21, text(row.node, 11), "lane-name", "end")
    subject = label(LEFT - 8, y + 21, text(row.title, 12), "lane-text", "end")
    return joined([label(4, y + 21, text(row.node, 4), "lane-name"), subject] if row.first else [subject])


def lane_bars(lane: list[Stretch], axis: Axis, y: float, epochs: list[int], word: str) -> Markup:
    """Draw one node's stretches within the axis; leaders come last so that nothing hides them."""
    seen = [s for s in lane if s.to_ns >= axis.from_ns and s.from_ns <= axis.to_ns]
    if len(seen) > _STRETCHES_MAX:
        least = (axis.to_ns - axis.from_ns) // (2 * (RIGHT - LEFT))
        seen = [s for s in seen if s.to_ns - s.from_ns >= least or s.state is LaneState.LEADER][:_STRETCHES_MAX]
    seen.sort(key=lambda s: s.state is LaneState.LEADER)
    occupied = [axis.x(s.superseded[1]) for s in seen if s.superseded and not said_inside(s, axis)]
    return joined(_bar(stretch, axis, y, epochs, word, occupied) for stretch in seen)


def _bar(stretch: Stretch, axis: Axis, y: float, epochs: list[int], word: str, occupied: list[float]) -> Markup:
    x0, x1 = axis.x(stretch.from_ns), axis.x(stretch.to_ns)
    # The next bar's text must not cover the word "superseded" beside a claim.
    text_x = max([x0, *(end + _SUPERSEDED for end in occupied if end - 4 <= x0 <= end + _SUPERSEDED)])
    about = title(stretch_title(stretch, word))
    colour = epoch_class(stretch.epoch, epochs)
    match stretch.state:
        case LaneState.FOLLOWER:
            bars = [box(x0, x1, y + 22, 5, f"follower {colour}", about)]
            bars.append(fitting(text_x, x1, y + 19, follows(stretch), short=stretch.leader or ""))
            if stretch.superseded:
                s0, s1 = axis.x(stretch.superseded[0]), axis.x(stretch.superseded[1])
                bars.append(box(s0, s1, y + 19, 11, "superseded", about, least=4))
            return joined(bars)
        case LaneState.SILENT:
            return joined([box(x0, x1, y + 20, 8, "silent", about), fitting(text_x, x1, y + 17, "silent")])
        case LaneState.DOWN:
            return joined([box(x0, x1, y + 6, 22, "down", about), fitting(x0, x1, y + 21, "down", "on-down")])
    bars = [
        box(x0, x1, y + 6, 22, f"leader {colour}", about, least=3),
        box(x0, x1, y + 6, 22, f"texture t-{colour}", about, least=3),
        fitting(x0 + 2, x1, y + 21, f"leads {stretch.epoch_text}", "on-leader", f"{stretch.epoch_text}"),
    ]
    if stretch.superseded:
        s0, s1 = axis.x(stretch.superseded[0]), axis.x(stretch.superseded[1])
        bars.append(box(s0, s1, y + 4, 26, "superseded", about, least=4))
        if said_inside(stretch, axis):
            bars.append(label(s1 - 6, y + 21, "superseded", "on-leader", "end"))
        else:
            bars.append(label(min(s1 + 4, RIGHT - 70), y + 18, "superseded", "warn-name"))
    return joined(bars)


def said_inside(stretch: Stretch, axis: Axis) -> bool:
    """Say whether a leader's bar has room for the word "superseded" after its text."""
    if stretch.superseded is None or stretch.state is not LaneState.LEADER:
        return False
    x0, s0, s1 = (axis.x(ns) for ns in (stretch.from_ns, *stretch.superseded))
    return s1 - s0 > _SUPERSEDED and (s0 - x0 > 60 or s1 - s0 > 150)


def follows(stretch: Stretch) -> str:
    """Describe a follower: `follows 3`, or with the leader that it named: `with n1 (3)`."""
    if stretch.leader is not None:
        return f"with {stretch.leader}" + (f" ({stretch.epoch_text})" if stretch.epoch is not None else "")
    return f"follows {stretch.epoch_text}" if stretch.epoch is not None else "follows"


def stretch_title(stretch: Stretch, word: str) -> str:
    about = f"{stretch.node}: {stretch.state}"
    if stretch.leader is not None:
        about += f", with {stretch.leader}"
    if stretch.epoch is not None:
        about += f" of {word} {stretch.epoch_text}"
    about += f", {clock(stretch.from_ns)} to {clock(stretch.to_ns)}"
    if stretch.superseded:
        since, until = stretch.superseded
        about += f"; certainly superseded for at least {length(until - since)}"
    return about


def _epoch_marks(lanes: Lanes, axis: Axis, top: float, bottom: float, word: str) -> Markup:
    marks = []
    for epoch, ns in sorted(lanes.begins_ns.items()):
        if axis.from_ns < ns < axis.to_ns and ns > 0:
            x = axis.x(ns)
            about = title(f"{word} {epoch} has certainly begun by {clock(ns)}")
            marks.append(element("line", about, x1=x, x2=x, y1=top - 2, y2=bottom, class_="epoch-mark"))
    return joined(marks[:200])


def _phases(history: History, axis: Axis, bottom: float) -> Markup:
    out = []
    for phase, (start, end) in history.phases.items():
        x0, x1 = axis.x(start), axis.x(end)
        out.append(element("line", x1=x0, x2=x0, y1=2, y2=bottom, class_="phase-line"))
        if len(phase) * 6.4 + 4 <= x1 - x0:
            out.append(label(x0 + 3, 11, phase, "phase"))
    return joined(out)


def _in_words(lanes: Lanes, word: str) -> str:
    reigns = [
        f"{s.node} led {word} {s.epoch_text or 'unknown'} from {clock(s.from_ns)} to {clock(s.to_ns)}"
        for s in lanes.claims()[:12]
    ]
    return "; ".join(reigns) if reigns else "No node was seen to claim the lead."
