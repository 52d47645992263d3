"""Two small pictures: the curve of a finding's findability, and a figure over nights."""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from fencepost.harness.base.quantities import counted
from fencepost.harness.findings.findability import FIXED_AT, chance_unseen
from fencepost.harness.report.svg import element, joined, label, title
from fencepost.warehouse.pages.telling import figure, percent
from fencepost.warehouse.pages.values import ListedFinding

_WIDTH: Final = 360
_LEFT: Final = 58
_RIGHT: Final = 350
_TOP: Final = 16
_BOTTOM: Final = 110
_HEIGHT: Final = 132
_CURVE_POINTS: Final = 80
#: The curve goes on a little beyond the number of runs that settles it.
_BEYOND: Final = 1.25


def findability_curve(each: ListedFinding) -> Markup:
    """The chance of so many clean runs in a row, were the finding still there; lines at 5 % and at the runs so far."""
    rate, so_far = each.finding.standing.rate, each.finding.standing.clean_runs
    most = max(4, round(_BEYOND * max(each.clean_runs_needed, so_far)))

    def x(runs: float) -> float:
        return _LEFT + runs / most * (_RIGHT - _LEFT)

    def y(chance: float) -> float:
        return _BOTTOM - chance * (_BOTTOM - _TOP)

    steps = sorted({round(number * most / _CURVE_POINTS) for number in range(_CURVE_POINTS + 1)})
    path = " ".join(f"{'M' if not i else 'L'}{x(m):.1f} {y(chance_unseen(rate, m)):.1f}" for i, m in enumerate(steps))
    needed = each.clean_runs_needed
    parts = [
        element("line", x1=_LEFT, x2=_RIGHT, y1=y(FIXED_AT), y2=y(FIXED_AT), class_="limit"),
        element("line", x1=x(needed), x2=x(needed), y1=_TOP, y2=_BOTTOM, class_="mark-line"),
        element("path", d=path, class_="curve"),
        element(
            "circle",
            title(counted(so_far, "clean run")),
            cx=x(so_far),
            cy=y(chance_unseen(rate, so_far)),
            r=4,
            class_="dot",
        ),
        label(_LEFT - 4, _TOP + 4, "100 %", "tick", "end"),
        label(_LEFT - 4, y(FIXED_AT) + 1, percent(FIXED_AT), "tick", "end"),
        label(x(so_far) + 6, max(y(chance_unseen(rate, so_far)) - 6, 10.0), f"{so_far} so far", "tick"),
        label(min(x(needed), _RIGHT - 60.0), _HEIGHT - 6.0, counted(needed, "clean run"), "tick", "middle"),
    ]
    return _svg(
        parts,
        "Findability",
        f"{counted(so_far, 'clean run')} so far, a chance of {percent(chance_unseen(rate, so_far))}; {needed} needed.",
    )


def figure_over_nights(
    name: str,
    nights: Sequence[str],
    values: Sequence[float | None],
    marks: Mapping[int, str],
    changes: Sequence[int],
    links: Sequence[str],
) -> Markup:
    """A line over nights, broken where nothing was measured.

    Args:
        links: the page of each night, empty without one.
        marks: letters of what was another one, by the night's number.
        changes: numbers of the nights from which on the figure is another.
    """
    measured = [value for value in values if value is not None]
    high = max([*measured, 0.0]) or 1.0
    step = (_RIGHT - _LEFT) / max(len(nights) - 1, 1)

    def x(number: int) -> float:
        return _LEFT + number * step

    def y(value: float) -> float:
        return _BOTTOM - value / high * (_BOTTOM - _TOP)

    parts = [
        element("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="axis-line"),
        label(_LEFT - 4, _BOTTOM + 1.0, "0", "tick", "end"),
    ]
    if measured:
        parts.append(label(_LEFT - 4, _TOP + 4.0, figure(high), "tick", "end"))
    else:
        parts.append(label((_LEFT + _RIGHT) / 2, (_TOP + _BOTTOM) / 2, "not measured", "gap", "middle"))
    for number, letters in marks.items():
        parts.append(element("line", x1=x(number), x2=x(number), y1=_TOP, y2=_BOTTOM, class_="mark-line"))
        parts.append(label(x(number), 10.0, letters, "mark-name", "middle"))
    path, pen_up = [], True
    for number, value in enumerate(values):
        if value is not None:
            path.append(f"{'M' if pen_up else 'L'}{x(number):.1f} {y(value):.1f}")
        pen_up = value is None
    parts.append(element("path", d=" ".join(path) or "M0 0", class_="curve"))
    for number, value in enumerate(values):
        if value is None:
            continue
        text = title(f"{nights[number]}: {figure(value)}")
        if number in changes:
            at_x, at_y = x(number), y(value)
            diamond = f"M{at_x:.1f} {at_y - 6:.1f}l6 6l-6 6l-6 -6z"
            point = element("path", text, d=diamond, class_="change")
        else:
            point = element("circle", text, cx=x(number), cy=y(value), r=2.5, class_="dot")
        parts.append(element("a", point, href=links[number]) if links[number] else point)
    if nights:
        parts.append(label(_LEFT, _HEIGHT - 6.0, nights[0], "tick"))
    if len(nights) > 1:
        parts.append(label(_RIGHT, _HEIGHT - 6.0, nights[-1], "tick", "end"))
    last = f"last {figure(measured[-1])}, highest {figure(max(measured))}" if measured else "never measured"
    return _svg(parts, name, f"{counted(len(nights), 'night')}, {last}.")


def _svg(parts: Sequence[Markup], name: str, description: str) -> Markup:
    return element(
        "svg",
        title(name),
        element("desc", description),
        joined(parts),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{name}. {description}",
        xmlns="http://www.w3.org/2000/svg",
    )
