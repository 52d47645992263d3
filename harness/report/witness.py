"""The picture of a witness: the few operations that show a violation, on an axis that gives each moment room.

The picture must show a pause of seconds beside a read of two milliseconds, so equal distances are not equal times:
every invocation and completion gets room, in order, and labels give the true lengths of the gaps. Arrows lead from a
completion to the invocation that it precedes in real time.

A cycle has a box per transaction with its micro-operations, and an arrow per edge with its kind. The rows of boxes run
alternately to the right and to the left, so each arrow joins neighbours; the last arrow runs below all boxes back to
the first. An arrow's title and the witness's sentences give the reason for the edge.
"""

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from markupsafe import Markup

from fencepost.harness.history import UNNAMED_NODE, Event, FaultEvent, FaultSpan, History, Operation, Outcome
from fencepost.harness.report.drawing import (
    DrawnCycle,
    DrawnNode,
    before,
    cells,
    clipped,
    cycle_of,
    events_words,
    marked,
    micro_words,
    plain,
    transaction_names,
    witness_operations,
    wrapped,
)
from fencepost.harness.report.overview import LaneRow, Lanes, LaneState, follows, stretch_title
from fencepost.harness.report.svg import (
    FAULT_ROW,
    RIGHT,
    WIDTH,
    box,
    element,
    epoch_class,
    fault_name,
    joined,
    label,
    picture,
    title,
)
from fencepost.harness.report.words import OUTCOME_SIGNS, clock, length, operation, text
from fencepost.harness.verdict import Edge, Witness

#: The most operations drawn: nobody reads a picture with more. The table below it has all.
OPERATIONS_MAX: Final = 24
_LEFT: Final = 148
_END: Final = RIGHT - 62
_ROW: Final = 36
_LANE: Final = 28
_LETTER: Final = 6.7
#: A picture of a shorter time shows microseconds, because milliseconds would make its moments look equal.
_FINE_NS: Final = 20_000_000
_SOON_NS: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class Warp:
    """Maps the moments of a witness to positions: in order, with room for each, and linear in between."""

    moments: list[int]
    places: list[float]

    @classmethod
    def of(cls, moments: Sequence[int]) -> "Warp":
        ordered = sorted(set(moments)) or [0, 1]
        weights = [1.0 + 0.55 * math.log10(1 + (b - a) / 1e5) for a, b in itertools.pairwise(ordered)]
        total = sum(weights) or 1.0
        places = [float(_LEFT)]
        for weight in weights:
            places.append(places[-1] + weight / total * (_END - _LEFT))
        return cls(ordered, places)

    def x(self, ns: int) -> float:
        """Return the position of a moment; moments outside stand at the nearer end."""
        at = bisect.bisect_right(self.moments, ns) - 1
        if at < 0:
            return self.places[0]
        if at >= len(self.moments) - 1:
            return self.places[-1]
        a, b = self.moments[at], self.moments[at + 1]
        return self.places[at] + (ns - a) / (b - a) * (self.places[at + 1] - self.places[at])


class _Canvas(msgspec.Struct, frozen=True, kw_only=True):
    """What all operations of a picture share: axis, epochs, the word for epoch, whether its moments are times."""

    warp: Warp
    epochs: list[int]
    word: str
    timed: bool


class _Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """One operation: its text, the height of its row, and its look (a class of the style sheet)."""

    op: Operation
    phrase: str
    y: float
    look: str


def untimed(witness: Witness, history: History) -> bool:
    """Say whether the history has no times; the index of each event then takes the place of its time."""
    return all(event.time_ns == event.index for i in witness.events if (event := _event(history, i)) is not None)


def drawn(witness: Witness, history: History, lanes: Lanes, word: str, name: str) -> Markup:
    """Draw faults on top, then what the nodes involved claimed about the leader, then one row per operation."""
    all_operations = witness_operations(witness, history)
    named = _most_telling(all_operations)
    names = transaction_names(history) if any(op.f == "txn" for op in named) else {}
    # No operation of a cycle is marked: each is as much to blame as the others.
    about = None if cycle_of(witness, history) else marked(witness, named, names)
    operations = sorted([*before(witness, history, named, about), *named], key=lambda op: op.invoke_index)
    faults = _faults(witness, operations, history)
    nodes = _nodes(witness, operations, lanes)
    rows = [row for row in lanes.rows() if row.node in nodes]
    timed = not untimed(witness, history)
    warp = Warp.of(_moments(witness, operations, faults, rows))
    canvas = _Canvas(warp=warp, epochs=lanes.epochs, word=word, timed=timed)
    parts: list[Markup] = []
    y = 24.0
    rows_top = y
    bands: list[Markup] = []
    for fault in faults:
        bands.append(_fault(fault, warp, y, history.end_ns))
        y += FAULT_ROW
    y += 6 if faults else 0
    for row in rows:
        parts.append(_lane(row, lanes.epochs, warp, y, word))
        y += _LANE
    y += 8
    placed: list[tuple[Operation, float]] = []
    for op in operations:
        placed.append((op, y))
        is_transaction = op.f == "txn"
        phrase = (
            f"{names.get(op.invoke_index, 'txn')}: {'; '.join(micro_words(op))}" if is_transaction else operation(op)
        )
        look = " marked" if op is about else "" if op in named else " context"
        parts.append(_operation(_Drawn(op=op, phrase=phrase, y=y, look=look), canvas))
        y += _ROW
    bottom = y + 2
    shades = [
        box(warp.x(f.certain_from_ns), warp.x(f.certain_to_ns or history.end_ns), rows_top, bottom - rows_top, "band")
        for f in faults
        if f.certain_from_ns is not None
    ]
    axis = _axis(warp, rows_top, bottom, timed=timed)
    return picture(
        bottom + 34,
        *shades,
        axis,
        *bands,
        *parts,
        _arrows(placed, warp),
        name=name,
        description=f"{witness.anomaly}: {' '.join(witness.steps)}"
        + ("" if len(named) == len(all_operations) else f" {len(named)} of {len(all_operations)} shown."),
    )


def _most_telling(operations: list[Operation]) -> list[Operation]:
    """Return the last operations, because a violation shows at its end."""
    return operations[-OPERATIONS_MAX:]


def _faults(witness: Witness, operations: list[Operation], history: History) -> list[FaultSpan]:
    named = {e.fault_id for i in witness.events if isinstance(e := _event(history, i), FaultEvent)}
    start = min([witness.from_ns, *(o.invoked_ns for o in operations)])
    near = [
        f
        for f in history.faults
        if f.fault_id in named or (f.began_ns <= witness.to_ns and (f.ended_ns or history.end_ns) >= start)
    ]
    return near[-6:]


def _event(history: History, index: int) -> Event | None:
    return history.events[index] if 0 <= index < len(history.events) else None


def _nodes(witness: Witness, operations: list[Operation], lanes: Lanes) -> list[str]:
    """Return the nodes named, those asked by the operations, and those that claimed to lead in that time."""
    start = min([witness.from_ns, *(o.invoked_ns for o in operations)])
    claims = [s for subject in lanes.every for s in subject.claims()]
    leading = {s.node for s in claims if s.to_ns >= start and s.from_ns <= witness.to_ns}
    # A node that claims nothing but names a leader is attached to that leader: its lane shows with whom it stayed.
    attached = {
        node
        for node in lanes.by_node
        if (own := [s for _, lane in lanes.of(node) for s in lane])
        and any(s.leader is not None for s in own)
        and not any(s.state is LaneState.LEADER for s in own)
    }
    wanted = {*witness.nodes, *(o.node for o in operations), *leading, *attached}
    return [node for node in lanes.by_node if node in wanted and any(lane for _, lane in lanes.of(node))]


def _moments(witness: Witness, operations: list[Operation], faults: list[FaultSpan], rows: list[LaneRow]) -> list[int]:
    """Return the moments of the picture: both ends of every operation, proven ends of faults, changes of leader."""
    moments = [o.invoked_ns for o in operations] + [o.ended_ns for o in operations if o.ended_ns is not None]
    if not moments:
        moments = [witness.from_ns, witness.to_ns]
    start, end = min([witness.from_ns, *moments]), max([witness.to_ns, *moments])
    # A deposed leader's next claim shows that it did not know; it often comes just after its stale answer.
    soon = [
        ns
        for row in rows
        for s in row.lane
        if s.superseded and end < s.from_ns <= end + _SOON_NS
        for ns in (s.from_ns, s.to_ns)
    ]
    moments += [start, end, *soon]
    end = max(moments)
    more = [ns for f in faults for ns in (f.certain_from_ns, f.certain_to_ns) if ns is not None and start <= ns <= end]
    for row in rows:
        for s in row.lane:
            if s.state is LaneState.LEADER:
                more += [ns for ns in (s.from_ns, s.to_ns) if start < ns < end]
    return moments + more[:24]


def _fault(fault: FaultSpan, warp: Warp, y: float, end_ns: int) -> Markup:
    x0, x1 = warp.x(fault.began_ns), warp.x(fault.ended_ns or end_ns)
    out = [label(_LEFT - 8, y + 12, "fault", "lane-name", "end"), box(x0, x1, y + 1, 15, "possible", least=2)]
    if fault.certain_from_ns is not None:
        out.append(
            box(warp.x(fault.certain_from_ns), warp.x(fault.certain_to_ns or end_ns), y + 1, 15, "proven", least=2)
        )
    out.append(label(x0 + 4, y + 12, _fault_text(fault), "fault-name"))
    return joined(out)


def _fault_text(fault: FaultSpan) -> str:
    if fault.certain_from_ns is None:
        return f"{fault_name(fault)}, not proven"
    return f"{fault_name(fault)}, proven {clock(fault.certain_from_ns)} – {clock(fault.certain_to_ns) or 'the end'}"


def _lane(row: LaneRow, epochs: list[int], warp: Warp, y: float, word: str) -> Markup:
    """Draw what the node said of itself: tall for leader, thin for follower, dotted for silence."""
    named = f"{text(row.node, 14)} says" if not row.title else f"{text(row.node, 8)} {text(row.title, 11)}"
    out = [label(_LEFT - 8, y + 18, named, "lane-name", "end")]
    out.append(element("line", x1=_LEFT, x2=_END, y1=y + 24, y2=y + 24, class_="lane-line"))
    classes = {
        LaneState.FOLLOWER: (18, 4),
        LaneState.SILENT: (15, 7),
        LaneState.DOWN: (6, 17),
        LaneState.LEADER: (6, 17),
    }
    for s in row.lane:
        if s.to_ns < warp.moments[0] or s.from_ns > warp.moments[-1]:
            continue
        x0, x1 = warp.x(s.from_ns), warp.x(s.to_ns)
        offset, height = classes[s.state]
        colour = epoch_class(s.epoch, epochs)
        about = title(stretch_title(s, word))
        out.append(box(x0, x1, y + offset, height, f"{s.state} {colour}", about, least=3))
        claim = f"leads {s.epoch_text}".strip() if s.state is LaneState.LEADER else follows(s)
        if s.state is LaneState.LEADER:
            out.append(box(x0, x1, y + offset, height, f"texture t-{colour}", about, least=3))
        if s.state in (LaneState.SILENT, LaneState.DOWN):
            claim = str(s.state)
        if len(claim) * _LETTER + 8 <= x1 - x0:
            class_ = {LaneState.LEADER: "on-leader", LaneState.DOWN: "on-down"}.get(s.state, "lane-text")
            out.append(label(x0 + 4, y + (19 if s.state in (LaneState.LEADER, LaneState.DOWN) else 13), claim, class_))
        # A claim superseded only after the picture's end is not marked.
        if s.superseded and s.superseded[0] <= warp.moments[-1]:
            top, height = (4, 21) if s.state is LaneState.LEADER else (15, 10)
            x0, x1 = warp.x(s.superseded[0]), warp.x(s.superseded[1])
            out.append(box(x0, x1, y + top, height, "superseded", about, least=5))
    return joined(out)


def _operation(drawn: _Drawn, canvas: _Canvas) -> Markup:
    """Draw an operation: its node and process, its bar, the epoch of its reply, and its name."""
    op, y, warp = drawn.op, drawn.y, canvas.warp
    x0 = warp.x(op.invoked_ns)
    x1 = warp.x(op.ended_ns) if op.ended_ns is not None else float(_END)
    where = f"process {op.process}" if op.node == UNNAMED_NODE else f"{text(op.node, 12)} · process {op.process}"
    out = [
        label(_LEFT - 8, y + 27, where, "lane-name small", "end"),
        box(x0, x1, y + 17, 14, f"op {op.type}{drawn.look}", title(_operation_title(drawn, canvas)), least=3),
    ]
    if op.type is Outcome.INFO:
        out.append(element("line", x1=x1, x2=RIGHT, y1=y + 24, y2=y + 24, class_="may-happen"))
    if op.epoch is not None:
        stamp = f"stamp {epoch_class(op.epoch, canvas.epochs)}"
        out.append(label(min(x1 + 5, RIGHT - 40), y + 28, f"{canvas.word} {op.epoch}", stamp))
    name = _operation_name(drawn)
    if x0 + len(name) * _LETTER > WIDTH - 4:
        out.append(label(max(x1, x0 + 3), y + 12, name, "op-name", "end"))
    else:
        out.append(label(x0, y + 12, name, "op-name"))
    return joined(out)


def _operation_title(drawn: _Drawn, canvas: _Canvas) -> str:
    """Return the tooltip of a bar: the operation, its outcome, when it began and how long it took."""
    op = drawn.op
    took = "never completed" if op.ended_ns is None else length(op.ended_ns - op.invoked_ns)
    when = f"{clock(op.invoked_ns)}, {took}" if canvas.timed else events_words(op)
    context = " (not named by the witness, but just before or beside it)" if drawn.look == " context" else ""
    return f"{drawn.phrase}: {op.type}, {when}{context}"


def _operation_name(drawn: _Drawn) -> str:
    """Name the operation with the sign of its outcome; if it is not ok, add the outcome and the error."""
    op, name = drawn.op, f"{OUTCOME_SIGNS[drawn.op.type]} {text(drawn.phrase, 80)}"
    if op.type is Outcome.OK:
        return name
    return f"{name} ({op.type}: {text(op.error, 40)})" if op.error else f"{name} ({op.type})"


def _arrows(placed: list[tuple[Operation, float]], warp: Warp) -> Markup:
    """Draw an arrow to each invocation from its latest real-time predecessor in the picture."""
    out: list[Markup] = []
    for op, y in placed:
        before = [
            (other.completed_ns, row)
            for other, row in placed
            if other.type is Outcome.OK and other.completed_ns is not None and other.completed_ns < op.invoked_ns
        ]
        if not before:
            continue
        ended, row = max(before)
        xa, xb = warp.x(ended), warp.x(op.invoked_ns)
        path = f"M{xa:.1f} {row + 31:.1f} L{xa:.1f} {row + 33:.1f} L{xb:.1f} {y + 14:.1f}" if y > row else ""
        if path:
            out.append(
                element(
                    "path", title("completed before, in real time"), d=path, class_="before", marker_end="url(#arrow)"
                )
            )
    return joined(out)


def _fine(ns: int) -> str:
    return f"{ns} ns" if ns < 1_000_000 else f"{ns / 1e9:.6f} s"


def _axis(warp: Warp, top: float, bottom: float, *, timed: bool) -> Markup:
    """Draw a line at each moment; with enough room, also its time (or event) and the true length of each gap."""
    out: list[Markup] = []
    last_label = -100.0
    fine = warp.moments[-1] - warp.moments[0] < _FINE_NS
    for number, (ns, x) in enumerate(zip(warp.moments, warp.places, strict=True)):
        out.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        if x - last_label >= (76 if fine else 58):
            moment = f"event {ns}" if not timed else _fine(ns) if fine else clock(ns)
            out.append(label(x, bottom + 13, moment, "tick", "middle"))
            last_label = x
        if timed and number + 1 < len(warp.moments):
            gap, width = length(warp.moments[number + 1] - ns), warp.places[number + 1] - x
            if len(gap) * 6 + 8 <= width:
                out.append(label(x + width / 2, bottom + 27, f"+{gap}", "gap", "middle"))
    return joined(out)


def events_of(witness: Witness, history: History, limit: int = 80) -> tuple[list[Event], int]:
    """Return the witness's events for the table, and how many more there are."""
    events = [history.events[i] for i in witness.events if 0 <= i < len(history.events)]
    return events[:limit], max(len(events) - limit, 0)


#: The most nodes drawn: a longer cycle shows the first and the last few; the sentences name all.
NODES_MAX: Final = 24
_LAST: Final = 3
_LINES_MAX: Final = 7
_CYCLE_LEFT: Final = 44
_RAIL: Final = 16
_GAP: Final = 112
_ROW_GAP: Final = 58
_TOP: Final = 8
_PAD: Final = 10
_LINE: Final = 16
#: Widths of a letter in the fonts of the style sheet; names and micro-operations use a font of fixed width.
_FIXED: Final = 6.7
_SMALL: Final = 6.2
_WIDEST: Final = 420
_KINDS: Final = {
    "ww": "the next one overwrote what this one wrote",
    "wr": "the next one read what this one wrote",
    "rw": "this one read what the next one then overwrote",
    "process": "the same process completed this one before it began the next",
    "realtime": "this one completed before the next was invoked",
    "before": "this version came before the next",
}


class _Box(msgspec.Struct, frozen=True):
    """A node with its position."""

    node: DrawnNode
    lines: tuple[str, ...]
    about: str
    x: float
    y: float
    width: float
    height: float
    rightwards: bool
    first_of_row: bool


def cycle_picture(cycle: DrawnCycle, name: str) -> Markup:
    """Draw the cycle; `name` is the title of the picture."""
    nodes, edges = _shortened(cycle)
    boxes = _placed(nodes)
    below = max(box.y + box.height for box in boxes) + 26
    parts = [_node(box) for box in boxes]
    for one, other, edge in zip(boxes, boxes[1:], edges, strict=False):
        parts.append(_between(one, other, edge))
    parts.append(_back(boxes[-1], boxes[0], edges[-1], below))
    description = "; ".join(
        f"{node.name} {edge.kind} {after.name}"
        for node, edge, after in zip(cycle.nodes, cycle.edges, (*cycle.nodes[1:], cycle.nodes[0]), strict=True)
    )
    return picture(below + 16, *parts, name=name, description=f"A cycle: {description}.")


def kinds_in_words(cycle: DrawnCycle) -> list[tuple[str, str]]:
    """Return each kind of edge in a cycle with its meaning."""
    return [(kind, meaning) for kind, meaning in _KINDS.items() if any(edge.kind == kind for edge in cycle.edges)]


def _shortened(cycle: DrawnCycle) -> tuple[list[DrawnNode], list[Edge]]:
    nodes, edges = list(cycle.nodes), list(cycle.edges)
    more = len(nodes) - NODES_MAX
    if more <= 0:
        return nodes, edges
    begin, end = NODES_MAX - _LAST - 1, len(nodes) - _LAST
    gap = DrawnNode(name=f"{end - begin} more", about="the sentences have them all")
    return [*nodes[:begin], gap, *nodes[end:]], [*edges[:begin], edges[end - 1], *edges[end:]]


def _columns(count: int) -> int:
    """Choose how many boxes stand beside each other: fewer boxes have room for longer lines."""
    return count if count < 4 else 2 if count == 4 else 3 if count < 10 else 4


def _placed(nodes: Sequence[DrawnNode]) -> list[_Box]:
    columns = _columns(len(nodes))
    width = min((RIGHT - _CYCLE_LEFT - (columns - 1) * _GAP) / columns, _WIDEST)
    boxes: list[_Box] = []
    y = float(_TOP)
    for start in range(0, len(nodes), columns):
        row = nodes[start : start + columns]
        rightwards = start // columns % 2 == 0
        lines = [_lines(node, width) for node in row]
        height = max(2 * _PAD + 2 * _LINE + len(shown) * _LINE for shown in lines) + 2
        for place, (node, shown) in enumerate(zip(row, lines, strict=True)):
            column = place if rightwards else columns - 1 - place
            about = clipped(plain(node.about, unicode=True), int((width - 2 * _PAD) / _SMALL))
            x = _CYCLE_LEFT + column * (width + _GAP)
            boxes.append(_Box(node, shown, about, x, y, width, float(height), rightwards, place == 0))
        y += height + _ROW_GAP
    return boxes


def _lines(node: DrawnNode, width: float) -> tuple[str, ...]:
    """Return a node's micro-operations, wrapped to the width and cut to the most lines of a box."""
    room = int((width - 2 * _PAD) / _FIXED)
    out: list[str] = []
    for line in node.lines:
        parts = wrapped(plain(line, unicode=True), room, "", "  ")
        out += parts if len(parts) < 3 else [parts[0], clipped(" ".join(part.strip() for part in parts[1:]), room - 2)]
    if len(out) > _LINES_MAX:
        return (*out[: _LINES_MAX - 1], f"… {len(node.lines)} micro-operations in all")
    return tuple(out)


def _node(box: _Box) -> Markup:
    left = box.x + _PAD
    parts = [
        element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=4, class_="txn"),
        label(left, box.y + _PAD + 12, plain(box.node.name, unicode=True), "txn-name"),
        label(left, box.y + _PAD + 12 + _LINE, box.about, "txn-about"),
    ]
    parts += [
        label(left, box.y + _PAD + 15 + (2 + number) * _LINE, line, "micro") for number, line in enumerate(box.lines)
    ]
    whole = "; ".join(plain(line, unicode=True) for line in box.node.lines)
    return element("g", title(f"{box.node.name}, {box.node.about}: {clipped(whole, 400)}"), joined(parts))


def _between(before: _Box, after: _Box, edge: Edge) -> Markup:
    """Draw the arrow between neighbours: within a row, or from the end of one row down to the next."""
    if after.first_of_row:
        x = before.x + before.width / 2
        points = [(x, before.y + before.height), (x, after.y)]
        at = (x, (before.y + before.height + after.y) / 2)
    else:
        y = before.y + 26
        ends = (before.x + before.width, after.x) if before.rightwards else (before.x, after.x + after.width)
        points = [(ends[0], y), (ends[1], y)]
        at = ((ends[0] + ends[1]) / 2, y)
    return _edge(points, at, edge)


def _back(last: _Box, first: _Box, edge: Edge, below: float) -> Markup:
    x, y = last.x + last.width / 2, first.y + 26
    points = [(x, last.y + last.height), (x, below), (_RAIL, below), (_RAIL, y), (first.x, y)]
    return _edge(points, ((x + _RAIL) / 2, below), edge)


def _edge(points: Sequence[tuple[float, float]], at: tuple[float, float], edge: Edge) -> Markup:
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    wide = cells(edge.kind) * _FIXED + 14
    return element(
        "g",
        title(f"{edge.kind}: {plain(edge.text, unicode=True)}"),
        element("path", d=path, class_="edge", marker_end="url(#arrow)"),
        element("rect", x=at[0] - wide / 2, y=at[1] - 9, width=wide, height=18, rx=9, class_="edge-label"),
        label(at[0], at[1] + 4, edge.kind, "edge-kind", "middle"),
    )
