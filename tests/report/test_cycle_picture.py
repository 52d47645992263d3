"""A cycle as SVG: well-formed, named for those who cannot see it, every edge explained, and nothing overlaps."""

import itertools
import xml.etree.ElementTree as ET
from typing import NamedTuple

import pytest

from fencepost.harness.report.drawing import DrawnCycle, DrawnNode, cells, cycle_of
from fencepost.harness.report.svg import WIDTH
from fencepost.harness.report.witness import NODES_MAX, cycle_picture, kinds_in_words
from fencepost.harness.verdict import Edge, EdgeKind
from tests.report.drawing import scenes

_SVG = "{http://www.w3.org/2000/svg}"
#: As a browser draws them, at most: by class, the width of a cell and the height above and below the line.
_FONTS = {"txn-name": (9.0, 13), "txn-about": (6.2, 11), "micro": (6.7, 11), "edge-kind": (6.7, 11)}


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def apart(self, other: "Area") -> bool:
        return (
            self.right <= other.left or other.right <= self.left or self.bottom <= other.top or other.bottom <= self.top
        )

    def within(self, other: "Area") -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def parsed(cycle: DrawnCycle) -> ET.Element:
    return ET.fromstring(str(cycle_picture(cycle, "Witness 1, <the cycle>")))


def rects(svg: ET.Element, class_: str) -> list[Area]:
    found = []
    for rect in svg.iter(f"{_SVG}rect"):
        if rect.get("class") == class_:
            x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            found.append(Area(x, y, x + w, y + h))
    return found


def texts(svg: ET.Element) -> list[tuple[str, str, Area]]:
    found = []
    for text in svg.iter(f"{_SVG}text"):
        class_, said = text.attrib["class"], text.text or ""
        letter, size = _FONTS[class_]
        wide, x, y = cells(said) * letter, float(text.attrib["x"]), float(text.attrib["y"])
        left = x - wide / 2 if text.get("text-anchor") == "middle" else x
        found.append((class_, said, Area(left, y - size + 3, left + wide, y + 3)))
    return found


def of(count: int, value: str = "{}") -> DrawnCycle:
    found = cycle_of(*scenes.judged(scenes.ring(count, value)))
    assert found is not None
    return found


def made(count: int, lines: int, kind: str = "realtime") -> DrawnCycle:
    """A cycle of transactions with so many micro-operations each, as long as they may come."""
    nodes = tuple(
        DrawnNode(
            name=f"T{10**6 + n}",
            about=f"process {10**6 + n} on a-node-of-a-name, events {10**8} and {10**8 + n}, unknown, may happen",
            lines=tuple(f"append k{place} {'日本語' * 30 if place % 2 else 'x' * 200}" for place in range(lines)),
        )
        for n in range(count)
    )
    return DrawnCycle(
        nodes=nodes,
        edges=tuple(
            Edge(source=n, target=(n + 1) % count, kind=EdgeKind(kind), text=f"because of {n}") for n in range(count)
        ),
    )


_CYCLES = {
    **{f"ring of {count}": of(count) for count in (2, 3, 4, 5, 6)},
    "long values": of(6, '"' + "v" * 60 + '-{}"'),
    **{f"{count} of {lines} lines": made(count, lines) for count in (2, 3, 7, 12, 40) for lines in (0, 1, 30)},
}


@pytest.mark.parametrize("name", _CYCLES)
def test_nothing_overlaps_and_all_is_inside(name: str) -> None:
    svg = parsed(_CYCLES[name])
    _, _, width, height = (float(part) for part in svg.attrib["viewBox"].split())
    boxes, labels, said = rects(svg, "txn"), rects(svg, "edge-label"), texts(svg)
    assert width == WIDTH and len(boxes) == len(labels) == min(len(_CYCLES[name].nodes), NODES_MAX)
    for one, other in itertools.combinations([*boxes, *labels], 2):
        assert one.apart(other), (one, other)
    for (_, first, one), (_, second, other) in itertools.combinations(said, 2):
        assert one.apart(other), (first, second)
    for class_, words, area in said:
        around = labels if class_ == "edge-kind" else boxes
        assert any(area.within(box) for box in around), words
    whole = Area(0, 0, width, height)
    assert all(area.within(whole) for area in [*boxes, *labels])


@pytest.mark.parametrize("count", [2, 5])
def test_it_can_be_read_without_being_seen(count: int) -> None:
    cycle = of(count)
    svg = parsed(cycle)
    assert svg.attrib["role"] == "img" and "Witness 1, <the cycle>" in svg.attrib["aria-label"]
    assert svg.findtext(f"{_SVG}title") == "Witness 1, <the cycle>"
    description = svg.findtext(f"{_SVG}desc") or ""
    titles = {title.text for title in svg.iter(f"{_SVG}title")}
    for node, edge, after in zip(cycle.nodes, cycle.edges, [*cycle.nodes[1:], cycle.nodes[0]], strict=True):
        assert f"{node.name} rw {after.name}" in description
        assert f"rw: {edge.text}" in titles
        assert f"{node.name}, {node.about}: {'; '.join(node.lines)}" in titles
    said = [words for _, words, _ in texts(svg)]
    for node in cycle.nodes:
        assert said.count(node.name) == 1 and all(line in said for line in node.lines)


def test_arrows_run_from_each_node_to_the_next() -> None:
    """The ends of an edge's path lie on the boxes that it joins."""
    for count in (2, 3, 4, 6, 9, 11):
        svg = parsed(made(count, 2))
        boxes = rects(svg, "txn")
        paths = [path.attrib for path in svg.iter(f"{_SVG}path") if path.get("class") == "edge"]
        assert len(paths) == count and all(path["marker-end"] == "url(#arrow)" for path in paths)
        for place, path in enumerate(paths):
            points = [tuple(map(float, point.split())) for point in path["d"].removeprefix("M").split(" L")]
            for (x, y), box in ((points[0], boxes[place]), (points[-1], boxes[(place + 1) % count])):
                assert Area(x, y, x, y).within(Area(box[0] - 0.1, box[1] - 0.1, box[2] + 0.1, box[3] + 0.1))
            # An edge goes along no box but those that it joins.
            for (xa, ya), (xb, yb) in itertools.pairwise(points):
                line = Area(min(xa, xb), min(ya, yb), max(xa, xb) + 0.1, max(ya, yb) + 0.1)
                others = [box for number, box in enumerate(boxes) if number not in (place, (place + 1) % count)]
                assert all(line.apart(box) for box in others)


def test_a_long_cycle_says_how_many_are_left_out() -> None:
    said = [words for _, words, _ in texts(parsed(made(40, 1)))]
    assert sum(words.startswith("T1") for words in said) == NODES_MAX - 1
    assert f"{40 - (NODES_MAX - 1)} more" in said
    titles = [title.text or "" for title in parsed(made(40, 1)).iter(f"{_SVG}title")]
    # Into what is left out, and out of it, lead the edges that do.
    shown = [int(title.rpartition(" ")[2]) for title in titles if title.startswith("realtime: ")]
    assert shown == [*range(20), 36, 37, 38, 39]


def test_each_kind_is_explained_once() -> None:
    assert kinds_in_words(of(3)) == [("rw", "this one read what the next one then overwrote")]
    assert [kind for kind, _ in kinds_in_words(made(2, 1, "process"))] == ["process"]


def test_values_are_escaped() -> None:
    svg = str(cycle_picture(of(2, '"<script>&-{}"'), "name"))
    assert "<script" not in svg and ET.fromstring(svg) is not None
