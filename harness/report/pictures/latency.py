"""Latency over time, below the same fault bands: p50, p99 and the slowest of each slice, and every operation not ok.

The scale is logarithmic: a pause of seconds and a round trip of a millisecond belong in one picture. The three lines
differ by dashes and are named at their ends. Below stand the operations that ended `ok`, per slice.
"""

import math
from typing import Final

from markupsafe import Markup

from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.report.pictures.svg import (
    FAULT_ROW,
    LEFT,
    RIGHT,
    Axis,
    box,
    element,
    fault_bands,
    joined,
    label,
    picture,
    title,
)
from fencepost.harness.report.words.wording import count, length, operation

SLICES: Final = 150
#: More marks than this are thinned evenly; the caption says so.
MARKS_MAX: Final = 1200
_HEIGHT: Final = 190
_BARS: Final = 46


class Slice:
    """One slice of time: the latencies of what ended `ok` in it, sorted."""

    __slots__ = ("latencies",)

    def __init__(self) -> None:
        self.latencies: list[int] = []

    def quantile(self, q: float) -> int:
        return self.latencies[min(int(q * len(self.latencies)), len(self.latencies) - 1)]


def slices(history: History, number: int = SLICES) -> tuple[list[Slice], int]:
    """`ok` operations by the slice in which they completed, and the length of a slice."""
    width = max(-(-(history.end_ns + 1) // number), 1)
    out = [Slice() for _ in range(number)]
    for op in history.operations:
        if op.type is Outcome.OK and op.completed_ns is not None:
            out[op.completed_ns // width].latencies.append(op.completed_ns - op.invoked_ns)
    for one in out:
        one.latencies.sort()
    return out, width


def latency(history: History) -> tuple[Markup, str]:
    """The picture, and what had to be left out of it."""
    rows, width = slices(history)
    failed = [o for o in history.operations if o.type is not Outcome.OK]
    marks = failed[:: max(-(-len(failed) // MARKS_MAX), 1)]
    axis = Axis(0, max(history.end_ns, 1))
    _, fault_rows = fault_bands(history.faults, axis, 6, 6, history.end_ns)
    top = 6.0 + fault_rows * FAULT_ROW + 10
    bottom = top + _HEIGHT
    bars_bottom = bottom + 12 + _BARS
    bands, _ = fault_bands(history.faults, axis, 6, bars_bottom, history.end_ns)
    values = [row.latencies[-1] for row in rows if row.latencies]
    values += [o.ended_ns - o.invoked_ns for o in marks if o.ended_ns is not None]
    scale = _Scale(
        min([row.quantile(0.5) for row in rows if row.latencies], default=1_000_000), max(values, default=10**9)
    )
    scale.top, scale.bottom = top, bottom
    parts = [bands, axis.drawn(top, bars_bottom), scale.drawn()]
    free_y = top - 20
    for name, q in (("max", 1.0), ("p99", 0.99), ("p50", 0.5)):
        line, free_y = _line(rows, width, axis, scale, q, name, free_y)
        parts.append(line)
    parts += [_mark(op, axis, scale) for op in marks]
    parts.append(_ok_bars(rows, width, axis, bottom + 12, bars_bottom))
    left_out = "" if len(marks) == len(failed) else f"{count(len(marks))} of {count(len(failed))} marks shown."
    seen = picture(
        bars_bottom + 20,
        *parts,
        name="Latency over time",
        description=f"p50, p99 and slowest of each of {SLICES} slices of {length(width)}; {len(failed)} not ok.",
        id_="latency",
    )
    return seen, left_out


class _Scale:
    """Logarithmic, in whole decades."""

    def __init__(self, least: int, most: int) -> None:
        self.low = math.floor(math.log10(max(least, 1000)))
        self.high = max(math.ceil(math.log10(max(most, 1000))), self.low + 1)
        self.top = 0.0
        self.bottom = 1.0

    def y(self, ns: float) -> float:
        at = (math.log10(max(ns, 1)) - self.low) / (self.high - self.low)
        return self.bottom - min(max(at, 0.0), 1.0) * (self.bottom - self.top)

    def drawn(self) -> Markup:
        out = []
        for power in range(self.low, self.high + 1):
            y = self.y(10**power)
            out.append(element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid"))
            out.append(label(LEFT - 8, y + 4, length(10**power), "lane-name small", "end"))
        return joined(out)


def _line(
    rows: list[Slice], width: int, axis: Axis, scale: _Scale, q: float, name: str, free_y: float
) -> tuple[Markup, float]:
    """One quantile, broken where a slice holds nothing; its name stands at its end, below `free_y`."""
    path: list[str] = []
    pen_down = False
    last = (0.0, 0.0)
    for number, row in enumerate(rows):
        if not row.latencies:
            pen_down = False
            continue
        last = (axis.x((number + 0.5) * width), scale.y(row.quantile(q)))
        path.append(f"{'L' if pen_down else 'M'}{last[0]:.1f} {last[1]:.1f}" + ("" if pen_down else "h0.1"))
        pen_down = True
    if not path:
        return Markup(""), free_y
    y = max(last[1] + 4, free_y + 12)
    line = element("path", title(name), d=" ".join(path), class_=f"line {name}")
    return line + label(min(last[0] + 5, RIGHT - 10), y, name, "line-name"), y


def _mark(op: Operation, axis: Axis, scale: _Scale) -> Markup:
    """fail is a cross, info a ring, at the moment when the caller stopped waiting."""
    end = op.ended_ns if op.ended_ns is not None else op.invoked_ns
    x, y = axis.x(end), scale.y(max(end - op.invoked_ns, 1))
    about = title(f"{operation(op)}: {op.type} {op.error or ''}")
    if op.type is Outcome.FAIL:
        return element("path", about, d=f"M{x - 2.5:.1f} {y - 2.5:.1f}l5 5m0 -5l-5 5", class_="mark fail")
    return element("circle", about, cx=x, cy=y, r=3, class_="mark info")


def _ok_bars(rows: list[Slice], width: int, axis: Axis, top: float, bottom: float) -> Markup:
    most = max((len(row.latencies) for row in rows), default=0)
    if not most:
        return label(LEFT + 4, bottom - 6, "no operation ended ok", "lane-text")
    out = [
        box(
            axis.x(number * width) + 0.5,
            axis.x((number + 1) * width) - 0.5,
            bottom - len(row.latencies) / most * (bottom - top),
            len(row.latencies) / most * (bottom - top),
            "ok-bar",
        )
        for number, row in enumerate(rows)
        if row.latencies
    ]
    out.append(label(LEFT - 8, top + 9, "ok per s", "lane-name small", "end"))
    out.append(label(LEFT - 8, top + 22, f"≤ {count(round(most * 1e9 / width))}", "lane-name small", "end"))
    return joined(out)
