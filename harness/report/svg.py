"""The parts of SVG that the pictures share: elements with escaped attributes, a time axis, fault rows.

Colours and patterns are classes of the page's style sheet, so pictures adapt to light, dark and print.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

from fencepost.harness.history import FaultOutcome, FaultSpan, History
from fencepost.harness.report.words import clock, text

#: All wide pictures share one width and one left margin, so that equal times stand above each other.
WIDTH: Final = 1200
LEFT: Final = 84
RIGHT: Final = 1188
FAULT_ROW: Final = 18
LANE: Final = 34
#: The width of a letter in a lane's labels, about.
LETTER: Final = 6.6

#: The number of colours and patterns; further epochs reuse them from the first on, but their labels differ.
EPOCH_CLASSES: Final = 6


def element(name: str, /, *children: str, **attributes: Any) -> Markup:
    """Make one element; `class_` means class, other underscores mean hyphens; only plain children are escaped."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        shown = f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(str(shown))}"')
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"{''.join(parts)}>{inner}</{name}>" if inner else f"{''.join(parts)}/>")


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def title(caption: str) -> Markup:
    return element("title", caption)


def label(x: float, y: float, caption: str, class_: str = "", anchor: str | None = None) -> Markup:
    return element("text", caption, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def picture(height: float, *children: Markup, name: str, description: str, id_: str | None = None) -> Markup:
    """Make a picture as wide as the page, with a name and a description for readers who cannot see it."""
    return element(
        "svg",
        title(name),
        element("desc", description),
        *children,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_label=f"{name}. {description}",
        id_=id_,
        xmlns="http://www.w3.org/2000/svg",
    )


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Linear time from left to right."""

    from_ns: int
    to_ns: int

    def x(self, ns: float) -> float:
        span = max(self.to_ns - self.from_ns, 1)
        return LEFT + (min(max(ns, self.from_ns), self.to_ns) - self.from_ns) / span * (RIGHT - LEFT)

    def ticks(self) -> list[int]:
        """Return about ten round moments."""
        span = max(self.to_ns - self.from_ns, 1)
        step = 10 ** math.floor(math.log10(span / 8))
        step = next((step * m for m in (1, 2, 5) if span / (step * m) <= 12), step * 10)
        step = max(int(step), 1)
        first = -(-self.from_ns // step) * step
        return list(range(first, self.to_ns + 1, step))

    def drawn(self, top: float, bottom: float) -> Markup:
        """Draw faint lines at the ticks, and their times below."""
        out = []
        for tick in self.ticks():
            x = self.x(tick)
            out.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
            out.append(label(x, bottom + 13, f"{tick / 1e9:g} s", "tick", "middle"))
        return joined(out)


def box(x0: float, x1: float, y: float, height: float, class_: str, *children: Markup, least: float = 1.0) -> Markup:
    """Draw a rectangle that is never thinner than `least`."""
    return element("rect", *children, x=x0, y=float(y), width=max(x1 - x0, least), height=float(height), class_=class_)


def epoch_class(epoch: int | None, epochs: Sequence[int]) -> str:
    """Return the colour and pattern of an epoch, chosen by its order of appearance, not by its number."""
    return f"e{epochs.index(epoch) % EPOCH_CLASSES}" if epoch in epochs else "e-none"


def fitting(x0: float, x1: float, y: float, phrase: str, class_: str = "lane-text", short: str = "") -> Markup:
    """Draw the text if the bar has room for it, else the short text, else nothing (the title still says it)."""
    for fits in (phrase, short):
        if fits and len(fits) * LETTER + 6 <= x1 - x0:
            return label(x0 + 4, y, fits, class_)
    return Markup("")


def packed(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Give each interval (in the order of their beginnings) the first row in which it overlaps no earlier one."""
    ends: list[int] = []
    rows: list[int] = []
    for start, end in intervals:
        row = next((i for i, last in enumerate(ends) if last <= start), len(ends))
        if row == len(ends):
            ends.append(0)
        ends[row] = end
        rows.append(row)
    return rows


def fault_name(fault: FaultSpan) -> str:
    """Name a fault: `pause n1`, `partition n1,n2 (skipped)`."""
    name = text(f"{fault.fault} {','.join(fault.nodes) or fault.target.partition(':')[0]}", 48)
    return name if fault.outcome is FaultOutcome.INSTALLED else f"{name} ({fault.outcome})"


def fault_bands(
    faults: Sequence[FaultSpan], axis: TimeAxis, top: float, bottom: float, end_ns: int
) -> tuple[Markup, int]:
    """Draw fault rows at `top` and a band down to `bottom` for each proven interval; also return the number of rows.

    The outer, dashed box is the possible interval, the filled one inside it the proven interval.
    """
    spans = [f for f in faults if (f.ended_ns or end_ns) >= axis.from_ns and f.began_ns <= axis.to_ns]
    letter_ns = LETTER * (axis.to_ns - axis.from_ns) / (RIGHT - LEFT)
    # A name ends within the picture, so that of a late fault begins before the fault does.
    names = [min(f.began_ns, int(axis.to_ns - len(fault_name(f)) * letter_ns)) for f in spans]
    order = sorted(range(len(spans)), key=names.__getitem__)
    spans, names = [spans[n] for n in order], [names[n] for n in order]
    room = int((axis.to_ns - axis.from_ns) * 0.09)  # for the label of a short fault
    rows = packed([(at, max(f.ended_ns or end_ns, at + room)) for f, at in zip(spans, names, strict=True)])
    count = max(rows, default=-1) + 1
    out: list[Markup] = []
    for fault, row, name_ns in zip(spans, rows, names, strict=True):
        y = top + row * FAULT_ROW
        x0, x1 = axis.x(fault.began_ns), axis.x(fault.ended_ns or end_ns)
        about = title(_fault_title(fault))
        if fault.certain_from_ns is not None:
            c0, c1 = axis.x(fault.certain_from_ns), axis.x(fault.certain_to_ns or end_ns)
            out.append(box(c0, c1, top + count * FAULT_ROW, bottom - top - count * FAULT_ROW, "band"))
        out.append(box(x0, x1, y + 1, FAULT_ROW - 3, "possible", about, least=2))
        if fault.certain_from_ns is not None:
            out.append(box(c0, c1, y + 1, FAULT_ROW - 3, "proven", about, least=2))
        out.append(label(axis.x(name_ns) + 4, y + 12, fault_name(fault), "fault-name"))
    return joined(out), count


class LanesPicture:
    """A picture of lanes over a whole run, below its faults: lanes begin at `first`, and `parts` are drawn."""

    def __init__(self, history: History, lanes: int) -> None:
        top = 8.0
        self.axis = TimeAxis(0, max(history.end_ns, 1))
        _, rows = fault_bands(history.faults, self.axis, top, top, history.end_ns)
        self.first = top + rows * FAULT_ROW + 8
        self._bottom = self.first + LANE * lanes + 4
        bands, _ = fault_bands(history.faults, self.axis, top, self._bottom, history.end_ns)
        self.parts = [self.axis.drawn(top, self._bottom), bands]
        if rows:
            self.parts.append(label(LEFT - 8, top + 12, "faults", "lane-name", "end"))

    def drawn(self, name: str, described: Sequence[str], id_: str) -> Markup:
        return picture(self._bottom + 20, *self.parts, name=name, description="; ".join(described), id_=id_)


def _fault_title(fault: FaultSpan) -> str:
    possible = f"{fault_name(fault)}: possible {clock(fault.began_ns)} to {clock(fault.ended_ns) or 'the end'}"
    if fault.certain_from_ns is None:
        return f"{possible}; never proven"
    return f"{possible}; proven {clock(fault.certain_from_ns)} to {clock(fault.certain_to_ns) or 'the end'}"
