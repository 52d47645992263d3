"""The page Trends: figures of each system by night, with what changed around them, and change points."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.findings.change_points import ALPHA, SIDE_MIN, ChangePoint, change_points
from fencepost.harness.findings.rate import Rate
from fencepost.warehouse.pages.drawing import figure_over_nights
from fencepost.warehouse.pages.telling import figure, percent
from fencepost.warehouse.pages.values import Overview, Row

FALSE_ALARMS: Final = "false_alarms"


class FigureName(msgspec.Struct, frozen=True):
    """A figure by its column in the step `night_trends`, with its title and unit; `note` says what it is."""

    key: str
    title: str
    unit: str
    note: str = ""


FIGURE_NAMES: Final = (
    FigureName("throughput", "Throughput", "operations that ended ok each second", "main phase"),
    FigureName("recovery_s", "Recovery", "seconds", "from the end of healing to the next ok, median over faults"),
    FigureName("new_leader_s", "Time to a new leader", "seconds", "from the beginning of the fault, median"),
    FigureName("dual_s", "Dual leadership", "seconds in a run", "two nodes led, and both ran"),
    FigureName("unavailable_s", "Unavailability", "seconds", "longest time without an ok in the main phase, mean"),
    FigureName("exposure", "Tested", "times in a run", "all guarantees together, mean"),
    FigureName("beyond_s", "Start and checks", "seconds", "what an attempt took beyond the run itself, mean"),
    FigureName("check_s", "Check time", "seconds in a run", "what its checkers took, mean"),
    FigureName(FALSE_ALARMS, "False alarms", "runs", "controls that were invalid"),
)
#: Commits, machines and cores are cut to so many letters.
_TEXT_MAX: Final = 24
#: What is marked when it is another than the night before.
_MARKS: Final = (
    ("V", "versions", "release"),
    ("H", "commits", "harness"),
    ("C", "cores", "checking core"),
    ("M", "machines", "machine"),
)


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one system, drawn; `note` says what it is."""

    figure: FigureName
    note: str
    svg: Markup
    changes: tuple[str, ...]


def trends_values(overview: Overview) -> dict[str, Any]:
    """What the template shows. Change points share one chance of a false alarm over all series of the page."""
    series = [
        (system, name.key)
        for system, rows in overview.trends.items()
        for name in FIGURE_NAMES
        if len(_measured(rows, name.key)) >= 2 * SIDE_MIN
    ]
    days = {night.night: night.day for night in overview.nights}
    pages = {night.night: night.page for night in overview.nights}
    alpha = ALPHA / max(len(series), 1)
    return {
        "systems": [
            (system, rows, [_panel(rows, name, alpha, days, pages) for name in FIGURE_NAMES], _mark_lines(rows))
            for system, rows in overview.trends.items()
        ],
        "series": len(series),
        "alpha_percent": f"{100 * ALPHA:.0f}",
        "pages_of_nights": pages,
    }


def _measured(rows: Sequence[Row], key: str) -> list[tuple[int, float]]:
    """The nights by number that have the figure."""
    return [(number, row[key]) for number, row in enumerate(rows) if row[key] is not None]


def _panel(
    rows: Sequence[Row], name: FigureName, alpha: float, days: Mapping[str, str], pages: Mapping[str, str]
) -> Panel:
    measured = _measured(rows, name.key)
    points = change_points([value for _, value in measured], alpha)
    numbers = [measured[point.index][0] for point in points]
    return Panel(
        figure=name,
        note=_pooled(rows) if name.key == FALSE_ALARMS else name.note,
        svg=figure_over_nights(
            name.title,
            [days.get(row["night"], row["night"]) for row in rows],
            [row[name.key] for row in rows],
            {number: "".join(letters) for number, letters in _marks(rows)},
            numbers,
            [pages.get(row["night"], "") for row in rows],
        ),
        changes=tuple(
            _change_text(point, rows[number]["night"]) for point, number in zip(points, numbers, strict=True)
        ),
    )


def _pooled(rows: Sequence[Row]) -> str:
    """False alarms over all nights, of the runs of controls."""
    controls = sum(row["controls"] for row in rows)
    if not controls:
        return "no cell with control = true ran, so nobody knows"
    alarms = sum(round(row[FALSE_ALARMS] or 0) for row in rows)
    return f"{Rate(alarms, controls)}: runs of controls that were invalid, over all nights"


def _change_text(point: ChangePoint, night: str) -> str:
    return (
        f"from {night} on {figure(point.after)} instead of {figure(point.before)} "
        f"(medians; by chance in {percent(point.chance)} of cases)"
    )


def _marks(rows: Sequence[Row]) -> list[tuple[int, list[str]]]:
    """The nights by number in which something was another than the night before, with its letters."""
    marks = []
    for number, (before, after) in enumerate(itertools.pairwise(rows), 1):
        letters = [letter for letter, field, _ in _MARKS if _differs(before, after, field)]
        if letters:
            marks.append((number, letters))
    return marks


def _mark_lines(rows: Sequence[Row]) -> list[str]:
    """Each mark in words: "V 2026-11-21: release 3.9.5 instead of 3.9.4"."""
    lines = []
    for before, after in itertools.pairwise(rows):
        for letter, field, noun in _MARKS:
            if _differs(before, after, field):
                new, old = (", ".join(text[:_TEXT_MAX] for text in row[field]) for row in (after, before))
                lines.append(f"{letter} {after['night']}: {noun} {new} instead of {old}")
    return lines


def _differs(before: Row, after: Row, field: str) -> bool:
    """Whether both are known, and differ."""
    return bool(before[field] and after[field] and before[field] != after[field])
