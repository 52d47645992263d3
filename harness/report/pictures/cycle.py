"""A witness's cycle as SVG: a box per transaction with its micro-operations, an arrow per edge with its kind.

The rows of boxes run alternately to the right and to the left, so each arrow joins neighbours; the last arrow runs
below all boxes back to the first. An arrow's title and the witness's sentences give the reason for the edge.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from fencepost.harness.report.drawing.cells import cells, clipped, plain, wrapped
from fencepost.harness.report.drawing.cycle import Cycle, Node
from fencepost.harness.report.pictures.svg import RIGHT, element, joined, label, picture, title
from fencepost.harness.verdict import Edge

#: The most nodes drawn: a longer cycle shows the first and the last few; the sentences name all.
NODES_MAX: Final = 24
_LAST: Final = 3
_LINES_MAX: Final = 7
_LEFT: Final = 44
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

    node: Node
    lines: tuple[str, ...]
    about: str
    x: float
    y: float
    width: float
    height: float
    rightwards: bool
    first_of_row: bool


def cycle_picture(cycle: Cycle, name: str) -> Markup:
    """Draw the cycle; `name` is the title of the picture."""
    nodes, edges = _shortened(cycle)
    boxes = _placed(nodes)
    below = max(box.y + box.height for box in boxes) + 26
    parts = [_node(box) for box in boxes]
    for before, after, edge in zip(boxes, boxes[1:], edges, strict=False):
        parts.append(_between(before, after, edge))
    parts.append(_back(boxes[-1], boxes[0], edges[-1], below))
    description = "; ".join(
        f"{node.name} {edge.kind} {after.name}"
        for node, edge, after in zip(cycle.nodes, cycle.edges, (*cycle.nodes[1:], cycle.nodes[0]), strict=True)
    )
    return picture(below + 16, *parts, name=name, description=f"A cycle: {description}.")


def kinds_in_words(cycle: Cycle) -> list[tuple[str, str]]:
    """Return each kind of edge in a cycle with its meaning."""
    return [(kind, meaning) for kind, meaning in _KINDS.items() if any(edge.kind == kind for edge in cycle.edges)]


def _shortened(cycle: Cycle) -> tuple[list[Node], list[Edge]]:
    nodes, edges = list(cycle.nodes), list(cycle.edges)
    more = len(nodes) - NODES_MAX
    if more <= 0:
        return nodes, edges
    begin, end = NODES_MAX - _LAST - 1, len(nodes) - _LAST
    gap = Node(name=f"{end - begin} more", about="the sentences have them all")
    return [*nodes[:begin], gap, *nodes[end:]], [*edges[:begin], edges[end - 1], *edges[end:]]


def _columns(count: int) -> int:
    """Choose how many boxes stand beside each other: fewer boxes have room for longer lines."""
    return count if count < 4 else 2 if count == 4 else 3 if count < 10 else 4


def _placed(nodes: Sequence[Node]) -> list[_Box]:
    columns = _columns(len(nodes))
    width = min((RIGHT - _LEFT - (columns - 1) * _GAP) / columns, _WIDEST)
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
            x = _LEFT + column * (width + _GAP)
            boxes.append(_Box(node, shown, about, x, y, width, float(height), rightwards, place == 0))
        y += height + _ROW_GAP
    return boxes


def _lines(node: Node, width: float) -> tuple[str, ...]:
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
