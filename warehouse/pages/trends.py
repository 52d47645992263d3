"""The page Trends: figures of each system by night, with what changed around them, and change points."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.findings.change_points import ALPHA, SIDE_MIN, ChangePoint, change_points
from fencepost.harness.findings.rate import Rate
from fencepost.warehouse.pages.drawing import figure_over_nights
from fencepost.warehouse.pages.telling import figure, percent
from fencepost.warehouse.pages.values import Overview, SystemTrend, TrendNight

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
    """One figure of one system, drawn."""

    key: str
    title: str
    unit: str
    note: str
    svg: Markup
    changes: tuple[str, ...]


def trends_values(overview: Overview) -> dict[str, Any]:
    """What the template shows. Change points share one chance of a false alarm over all series of the page."""
    tested = [
        (trend.system, name.key)
        for trend in overview.trends
        for name in FIGURE_NAMES
        if len(_measured(trend, name.key)) >= 2 * SIDE_MIN
    ]
    days = {night.night: night.day for night in overview.nights}
    pages = {night.night: night.page for night in overview.nights}
    alpha = ALPHA / max(len(tested), 1)
    return {
        "systems": [
            (trend, [_panel(trend, name, alpha, days, pages) for name in FIGURE_NAMES], _mark_lines(trend))
            for trend in overview.trends
        ],
        "series": len(tested),
        "alpha_percent": f"{100 * ALPHA:.0f}",
        "pages_of_nights": pages,
    }


def _measured(trend: SystemTrend, key: str) -> list[tuple[int, float]]:
    """The nights by number that have the figure."""
    values = [(number, night.figures.get(key)) for number, night in enumerate(trend.nights)]
    return [(number, value) for number, value in values if value is not None]


def _panel(
    trend: SystemTrend, name: FigureName, alpha: float, days: Mapping[str, str], pages: Mapping[str, str]
) -> Panel:
    measured = _measured(trend, name.key)
    points = change_points([value for _, value in measured], alpha)
    numbers = [measured[point.index][0] for point in points]
    return Panel(
        key=name.key,
        title=name.title,
        unit=name.unit,
        note=_pooled(trend) if name.key == FALSE_ALARMS else name.note,
        svg=figure_over_nights(
            name.title,
            [days.get(night.night, night.night) for night in trend.nights],
            [night.figures.get(name.key) for night in trend.nights],
            {number: "".join(letters) for number, letters in _marks(trend.nights)},
            numbers,
            [pages.get(night.night, "") for night in trend.nights],
        ),
        changes=tuple(_change_text(point, trend.nights[number]) for point, number in zip(points, numbers, strict=True)),
    )


def _pooled(trend: SystemTrend) -> str:
    """False alarms over all nights, of the runs of controls."""
    controls = sum(night.controls for night in trend.nights)
    if not controls:
        return "no cell with control = true ran, so nobody knows"
    alarms = sum(round(night.figures.get(FALSE_ALARMS) or 0) for night in trend.nights)
    return f"{Rate(alarms, controls)}: runs of controls that were invalid, over all nights"


def _change_text(point: ChangePoint, night: TrendNight) -> str:
    return (
        f"from {night.night} on {figure(point.after)} instead of {figure(point.before)} "
        f"(medians; by chance in {percent(point.chance)} of cases)"
    )


def _marks(nights: Sequence[TrendNight]) -> list[tuple[int, list[str]]]:
    """The nights by number in which something was another than the night before, with its letters."""
    marks = []
    for number in range(1, len(nights)):
        letters = [letter for letter, field, _ in _MARKS if _differs(nights[number - 1], nights[number], field)]
        if letters:
            marks.append((number, letters))
    return marks


def _mark_lines(trend: SystemTrend) -> list[str]:
    """Each mark in words: "V 2026-11-21: release 3.9.5 instead of 3.9.4"."""
    lines = []
    for number in range(1, len(trend.nights)):
        before, after = trend.nights[number - 1], trend.nights[number]
        for letter, field, noun in _MARKS:
            if _differs(before, after, field):
                new, old = (", ".join(text[:_TEXT_MAX] for text in getattr(night, field)) for night in (after, before))
                lines.append(f"{letter} {after.night}: {noun} {new} instead of {old}")
    return lines


def _differs(before: TrendNight, after: TrendNight, field: str) -> bool:
    """Whether both are known, and differ."""
    old, new = getattr(before, field), getattr(after, field)
    return bool(old and new and old != new)
