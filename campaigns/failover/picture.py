"""The curve as a picture: seconds against partitions, a panel for each measure, all systems in each.

Systems differ by the mark as well as by the colour. Small marks are single measurements, large ones medians, the line
is the fitted growth; its dashes say that it is no measurement.
"""

import math
from typing import Final

from markupsafe import Markup

from fencepost.campaigns.failover.figures import MEASURES, Curve, growth_words, seconds
from fencepost.harness.report.svg import element, joined, label, picture, title

_LEFTS: Final = (64.0, 664.0)
_WIDTH: Final = 510.0
_HEIGHT: Final = 170.0
_TOP: Final = 60.0
_ROW: Final = 250.0
#: For a picture in a file of its own; on the page the style sheet does this.
_ALONE: Final = Markup("""
svg { font: 12px system-ui, sans-serif; } text { fill: #1b1f24; }
.grid { stroke: #e4e7eb; } .tick, .lane-text { fill: #5b6470; font-size: 11px; } .lane-name { font-weight: 600; }
.e0 { fill: #2f6fb5; } .e1 { fill: #c9820a; } .f0 { stroke: #2f6fb5; } .f1 { stroke: #c9820a; }
.fit { stroke-width: 1.5; stroke-dasharray: 6 4; } .single { fill-opacity: .45; }
""")


def standing_alone(curve: Curve) -> str:
    """Draw failover.svg: the same picture with its own colours and background."""
    paper = element("rect", width="100%", height="100%", fill="#ffffff")
    return str(drawn(curve, element("style", _ALONE), paper)) + "\n"


def drawn(curve: Curve, *before: Markup) -> Markup:
    """Draw all panels; a panel without values says "not measured". `before` is drawn first."""
    parts = [*before, _legend(curve)]
    for number, (measure, heading) in enumerate(MEASURES.items()):
        row, column = divmod(number, len(_LEFTS))
        parts.append(_panel(curve, measure, heading, _LEFTS[column], _TOP + row * _ROW))
    return picture(
        _TOP + math.ceil(len(MEASURES) / len(_LEFTS)) * _ROW,
        *parts,
        name="Failover against the number of topic partitions",
        description=_in_words(curve),
        id_="curve",
    )


def _legend(curve: Curve) -> Markup:
    parts = []
    for number, system in enumerate(curve.systems):
        x = _LEFTS[0] + number * 240
        parts += [_mark(number, x, 12, 5.5), label(x + 12, 16, f"{system} {curve.versions[system]}", "lane-name")]
    return joined(parts)


def _panel(curve: Curve, measure: str, heading: str, left: float, top: float) -> Markup:
    figures = [figure for system in curve.systems for figure in curve.figures(system, measure)]
    values = [value for figure in figures for value in figure.values]
    parts = [label(left, top - 10, heading, "lane-name")]
    if not values:
        return joined([*parts, label(left, top + 20, "not measured", "lane-text")])
    highest = _round_up(max(values))
    most = max(curve.partitions)

    def x(partitions: float) -> float:
        return left + partitions / most * _WIDTH

    def y(value: float) -> float:
        return top + _HEIGHT - min(max(value / highest, 0.0), 1.0) * _HEIGHT

    for step in range(5):
        value = highest * step / 4
        parts.append(element("line", x1=left, x2=left + _WIDTH, y1=y(value), y2=y(value), class_="grid"))
        parts.append(label(left - 6, y(value) + 4, f"{value:g} s", "tick", "end"))
    shown = -math.inf
    for partitions in sorted(curve.partitions):
        # Where numbers would overlap, the titles of the marks have them.
        if x(partitions) - shown > 34:
            parts.append(label(x(partitions), top + _HEIGHT + 16, f"{partitions:,}", "tick", "middle"))
            shown = x(partitions)
    for number, system in enumerate(curve.systems):
        growth = curve.growth(system, measure)
        if growth is not None:
            # Only between the measured numbers of partitions.
            known = [f.partitions for f in curve.figures(system, measure) if f.values]
            low, high = min(known), max(known)
            ends = {"x1": x(low), "y1": y(growth.at(low)), "x2": x(high), "y2": y(growth.at(high))}
            parts.append(element("line", title(f"{system}: {growth_words(growth)}"), **ends, class_=f"fit f{number}"))
        for figure in curve.figures(system, measure):
            cell = f"{system}, {figure.partitions:,} partitions"
            for value in figure.values:
                parts.append(_mark(number, x(figure.partitions), y(value), 2.2, f"{cell}: {seconds(value)}", "single"))
            if figure.median_s is not None:
                about = f"{cell}: median {seconds(figure.median_s)} of {len(figure.values)}"
                parts.append(_mark(number, x(figure.partitions), y(figure.median_s), 5.5, about))
    return joined(parts)


def _mark(number: int, x: float, y: float, size: float, about: str = "", more: str = "") -> Markup:
    children = (title(about),) if about else ()
    class_ = f"e{number} {more}".strip()
    if number == 0:
        return element("circle", *children, cx=float(x), cy=float(y), r=float(size), class_=class_)
    return element(
        "rect", *children, x=x - size, y=y - size, width=2 * float(size), height=2 * float(size), class_=class_
    )


def _round_up(value: float) -> float:
    """Round up to 1, 2, 4, 5 or 8 times a power of ten, so that a quarter of it is a short number."""
    ten = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(ten * step for step in (1, 2, 4, 5, 8, 10) if value <= ten * step * (1 + 1e-9))


def _in_words(curve: Curve) -> str:
    return "; ".join(
        f"{system}, {what}: {growth_words(curve.growth(system, measure))}"
        for measure, what in MEASURES.items()
        for system in curve.systems
    )
