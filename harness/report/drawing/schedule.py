"""A schedule drawn as text: a lane for each target, a bar for each fault, on one time axis.

         0s             10s             20s
n1          ├ kill ────────────────┤
n2                     ├ pause ─┤
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.harness.base.durations import format_duration
from fencepost.harness.report.drawing.terminal import Terminal

#: Distances between the marks of the axis; the first one that fits is used.
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
#: Columns that a mark of the axis needs.
_MARK_COLUMNS: Final = 10
_S: Final = 1_000_000_000


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: its lane, its name, its beginning and its end; times count from the start of the main phase."""

    lane: str
    text: str
    from_ns: int
    to_ns: int


def schedule_lines(bands: Sequence[Band], length_ns: int, terminal: Terminal) -> list[str]:
    """Draw the axis, then each lane; overlapping bands of one lane stand below each other."""
    lanes: dict[str, list[list[Band]]] = {}
    for band in sorted(bands, key=lambda band: band.from_ns):
        rows = lanes.setdefault(band.lane, [])
        row = next((row for row in rows if row[-1].to_ns <= band.from_ns), None)
        if row is None:
            rows.append([band])
        else:
            row.append(band)
    margin = max((len(lane) for lane in lanes), default=0) + 2
    width = max(terminal.width - margin, _MARK_COLUMNS)
    lines = [" " * margin + _axis(length_ns, width)]
    for lane in sorted(lanes):
        for number, row in enumerate(lanes[lane]):
            cells = [" "] * width
            for band in row:
                _draw(cells, band, length_ns, unicode=terminal.unicode)
            lines.append(f"{'' if number else lane:<{margin}}{''.join(cells)}".rstrip())
    return lines


def _axis(length_ns: int, width: int) -> str:
    marks_max = max(width // _MARK_COLUMNS, 1)
    step_ns = next((s * _S for s in _STEPS_S if length_ns / (s * _S) <= marks_max), _STEPS_S[-1] * _S)
    cells = [" "] * width
    for at_ns in range(0, length_ns + 1, step_ns):
        text = format_duration(at_ns)
        column = _column(at_ns, length_ns, width)
        if column + len(text) <= width:
            cells[column : column + len(text)] = text
    return "".join(cells).rstrip()


def _draw(cells: list[str], band: Band, length_ns: int, *, unicode: bool) -> None:
    begin, line, end = ("├", "─", "┤") if unicode else ("|", "-", "|")
    first = _column(band.from_ns, length_ns, len(cells))
    last = max(_column(band.to_ns, length_ns, len(cells)), first + 1)
    room = min(last, len(cells) - 1) - first - 1
    text = f" {band.text} "
    middle = text[: max(room, 0)] if len(text) > room else text + line * (room - len(text))
    bar = begin + middle + end
    room_left = len(cells) - first
    cells[first : first + len(bar)] = bar[:room_left]


def _column(at_ns: int, length_ns: int, width: int) -> int:
    return min(round(at_ns / max(length_ns, 1) * (width - 1)), width - 1)
