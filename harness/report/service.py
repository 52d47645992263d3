"""What clients got: service and stale answers as tables, latency over time as a picture.

Service is shown by phase, by node and around each fault, from the fact tables.

The picture has p50, p99 and the slowest of each slice, and every error, below the same fault bands. Its scale is
logarithmic, because a pause of seconds and a round trip of a millisecond share one picture. The three lines have
different dashes; a legend above names them. Bars below show the operations that ended `ok` per slice. A lost compare is
an answer and gets no mark.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.report.section import Column, ReportCase, TextTable, counts, tabulated
from fencepost.harness.report.svg import (
    FAULT_ROW,
    LEFT,
    RIGHT,
    TimeAxis,
    box,
    element,
    fault_bands,
    joined,
    label,
    picture,
    title,
)
from fencepost.harness.report.words import count, length, operation, traced
from fencepost.harness.verdict.fact_tables import FAULTS, PHASES, RECOVERY, SERVICE, STALE_ANSWERS

Row = Mapping[str, Any]


_OUTCOMES: Final = ("ok", "fail", "info")


def _available(row: Row) -> str:
    total = sum(row[name] for name in _OUTCOMES)
    return f"{100 * row['ok'] / total:.1f} %" if total else "–"


def _traced(rows: Sequence[Row]) -> str:
    return traced(count(len(rows)), [row["index"] for row in rows])


_ENDED: Final[tuple[Column, ...]] = (*counts(*_OUTCOMES), ("available", _available))
_PHASE: Final[tuple[Column, ...]] = (
    ("phase", "phase"),
    ("from", "from_ns"),
    ("to", "to_ns"),
    *_ENDED,
    ("longest without an ok", "longest_without_ok_ns"),
    ("from", "without_ok_from_ns"),
)
_STALE: Final[tuple[Column, ...]] = (
    ("node", lambda own: str(own[0]["node"])),
    ("answers", _traced),
    ("by a superseded leader", lambda own: _traced([row for row in own if row["superseded_epoch"] is not None])),
    ("late by at most", lambda own: length(max(row["late_ns"] for row in own))),
)


def service(case: ReportCase) -> list[TextTable]:
    """Tabulate availability by phase and by node, and stale answers by node."""
    # A gap across two segments of a node is longer than their sum shows.
    served = _by_node(case.rows(SERVICE.name))
    summed = [{"node": node, **{n: sum(row[n] for row in own) for n in _OUTCOMES}} for node, own in served.items()]
    stale = "Answers without an acknowledged write; the guarantee of the reads says whether this is allowed"
    return [
        tabulated("By phase (operations invoked in it)", _PHASE, case.rows(PHASES.name)),
        tabulated("By node that was asked", (("node", "node"), *_ENDED), summed),
        tabulated(stale, _STALE, [own for _, own in sorted(_by_node(case.rows(STALE_ANSWERS.name)).items())]),
    ]


def _by_node(rows: Iterable[Row]) -> dict[str, list[Row]]:
    by_node: dict[str, list[Row]] = {}
    for row in rows:
        if row["node"] is not None:
            by_node.setdefault(row["node"], []).append(row)
    return by_node


_RECOVERY: Final[tuple[Column, ...]] = (
    ("#", lambda row: str(row["number"])),
    ("fault", "fault"),
    ("nodes", lambda row: ", ".join(row["nodes"])),
    ("new leader after", "new_leader_after_ns"),
    ("longest without an ok", "longest_without_ok_ns"),
    ("first ok after healing", "recovered_after_ns"),
    ("by node", "by_node"),
    *_ENDED,
    ("p50", "latency_ns_p50"),
    ("p99", "latency_ns_p99"),
)


def recovery(case: ReportCase) -> TextTable | None:
    """Tabulate the recovery of clients and leadership around each fault; None without facts or faults."""
    faults = case.rows(FAULTS.name)
    numbered = {row["fault_id"]: {"number": number, **row} for number, row in enumerate(faults, 1)}
    of_all: dict[int, Row] = {}
    by_node: dict[int, list[str]] = {}
    for row in case.rows(RECOVERY.name):
        if row["node"] is None:
            of_all[row["fault_id"]] = row
        else:
            by_node.setdefault(row["fault_id"], []).append(f"{row['node']}: {length(row['recovered_after_ns'])}")
    rows = [{**row, **numbered[i], "by_node": ", ".join(by_node.get(i, ())[:12])} for i, row in of_all.items()]
    caption = "Recovery around each fault (operations invoked inside it)"
    return tabulated(caption, _RECOVERY, rows) if faults else None


SLICES: Final = 150
#: The most marks drawn: an even sample of more; the caption says so.
MARKS_MAX: Final = 1200
_HEIGHT: Final = 190
_BARS: Final = 46
#: The lines: class of the style sheet, quantile, name in the legend.
_LINES: Final = (("max", 1.0, "slowest"), ("p99", 0.99, "p99"), ("p50", 0.5, "p50"))
_LEGEND: Final = 110


class Slice:
    """One slice of time with the sorted latencies of the operations that ended `ok` in it."""

    __slots__ = ("latencies",)

    def __init__(self) -> None:
        self.latencies: list[int] = []

    def quantile(self, q: float) -> int:
        return self.latencies[min(int(q * len(self.latencies)), len(self.latencies) - 1)]


def slices(history: History, number: int = SLICES) -> tuple[list[Slice], int]:
    """Group `ok` operations by the slice in which they completed; also return the length of a slice."""
    width = max(-(-(history.end_ns + 1) // number), 1)
    out = [Slice() for _ in range(number)]
    for op in history.operations:
        if op.type is Outcome.OK and op.completed_ns is not None:
            out[op.completed_ns // width].latencies.append(op.completed_ns - op.invoked_ns)
    for one in out:
        one.latencies.sort()
    return out, width


def latency(history: History) -> tuple[Markup, str]:
    """Draw the picture; also return a note about the marks that it leaves out."""
    rows, width = slices(history)
    failed = [o for o in history.operations if o.type is not Outcome.OK and not o.lost_compare]
    marks = failed[:: max(-(-len(failed) // MARKS_MAX), 1)]
    axis = TimeAxis(0, max(history.end_ns, 1))
    _, fault_rows = fault_bands(history.faults, axis, 6, 6, history.end_ns)
    legend_y = 6.0 + fault_rows * FAULT_ROW + 14
    top = legend_y + 10
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
    for number, (name, q, text) in enumerate(_LINES):
        parts.append(_line(rows, width, axis, scale, q, name))
        parts.append(_legend(LEFT + 4 + number * _LEGEND, legend_y, name, text))
    parts += [_mark(op, axis, scale) for op in marks]
    parts.append(_ok_bars(rows, width, axis, bottom + 12, bars_bottom))
    left_out = "" if len(marks) == len(failed) else f"{count(len(marks))} of {count(len(failed))} marks shown."
    seen = picture(
        bars_bottom + 20,
        *parts,
        name="Latency over time",
        description=f"p50, p99 and slowest of each of {SLICES} slices of {length(width)}; {len(failed)} errors.",
        id_="latency",
    )
    return seen, left_out


class _Scale:
    """A logarithmic scale of whole decades."""

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


def _legend(x: float, y: float, name: str, text: str) -> Markup:
    """Draw a piece of a line with its name."""
    return element("path", d=f"M{x:.1f} {y - 4:.1f}h28", class_=f"line {name}") + label(x + 34, y, text, "line-name")


def _line(rows: list[Slice], width: int, axis: TimeAxis, scale: _Scale, q: float, name: str) -> Markup:
    """Draw one quantile as a line, interrupted at slices without operations."""
    path: list[str] = []
    pen_down = False
    for number, row in enumerate(rows):
        if not row.latencies:
            pen_down = False
            continue
        x, y = axis.x((number + 0.5) * width), scale.y(row.quantile(q))
        path.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}" + ("" if pen_down else "h0.1"))
        pen_down = True
    return element("path", title(name), d=" ".join(path), class_=f"line {name}") if path else Markup("")


def _mark(op: Operation, axis: TimeAxis, scale: _Scale) -> Markup:
    """Mark an error when the caller stopped waiting: a cross for `fail`, a ring for `info`."""
    end = op.ended_ns if op.ended_ns is not None else op.invoked_ns
    x, y = axis.x(end), scale.y(max(end - op.invoked_ns, 1))
    about = title(f"{operation(op)}: {op.type} {op.error or ''}")
    if op.type is Outcome.FAIL:
        return element("path", about, d=f"M{x - 2.5:.1f} {y - 2.5:.1f}l5 5m0 -5l-5 5", class_="mark fail")
    return element("circle", about, cx=x, cy=y, r=3, class_="mark info")


def _ok_bars(rows: list[Slice], width: int, axis: TimeAxis, top: float, bottom: float) -> Markup:
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
