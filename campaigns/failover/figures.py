"""The figures of a curve as one document: samples, medians, what is missing, and a line fitted through the medians.

A time grows with the number of topic partitions: a straight line by least squares, and how sure its slope is.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Final

import msgspec

#: Any two points lie on a line; only with three or more can the line leave a residual.
_UNCERTAIN_FROM: Final = 3


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """seconds = `at_zero_s` + `per_1000_s` * partitions / 1000.

    `per_1000_error_s` is the slope's standard error; None when there are too few points to tell.
    """

    at_zero_s: float
    per_1000_s: float
    per_1000_error_s: float | None

    def at(self, partitions: float) -> float:
        return self.at_zero_s + self.per_1000_s * partitions / 1000


def fit(points: Sequence[tuple[float, float]]) -> Growth | None:
    """Fit a line through (partitions, seconds); returns None when all points have the same number of partitions."""
    if len({partitions for partitions, _ in points}) < 2:
        return None
    thousands = [partitions / 1000 for partitions, _ in points]
    slope, at_zero = statistics.linear_regression(thousands, [value for _, value in points])
    error = None
    if len(points) >= _UNCERTAIN_FROM:
        unexplained = sum((value - at_zero - slope * x) ** 2 for x, (_, value) in zip(thousands, points, strict=True))
        spread = statistics.pvariance(thousands) * len(points)
        error = math.sqrt(unexplained / (len(points) - 2) / spread)
    return Growth(at_zero_s=at_zero, per_1000_s=slope, per_1000_error_s=error)


FORMAT: Final = 2
#: What is compared, each with its description.
MEASURES: Final = {
    "change_s": "longest time without an accepted metadata change",
    "leader_s": "certain beginning of the new leader's epoch",
    "load_s": "the new leader's own loading, or its copy (its log)",
}


class FailoverSample(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of one run, in seconds; None: not observed. `run`: the attempt's folder; `ended`: the nodes."""

    system: str
    partitions: int
    run: str
    ended: tuple[str, ...] = ()
    change_s: float | None = None
    leader_s: float | None = None
    load_s: float | None = None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one cell: `values` in the order measured; `times`: how many were planned."""

    system: str
    measure: str
    partitions: int
    values: tuple[float, ...]
    times: int

    @property
    def median_s(self) -> float | None:
        return statistics.median(self.values) if self.values else None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured; `faults` by system; `failures` says which runs gave nothing, and why."""

    systems: tuple[str, ...]
    versions: dict[str, str]
    faults: dict[str, str]
    partitions: tuple[int, ...]
    times: int
    samples: tuple[FailoverSample, ...]
    failures: tuple[str, ...] = ()
    took_s: float = 0.0
    started_at: str = ""
    machine: dict[str, Any] = {}

    def figures(self, system: str, measure: str) -> list[Figure]:
        """Return the figure of each number of partitions."""
        return [
            Figure(
                system=system,
                measure=measure,
                partitions=partitions,
                values=tuple(
                    value
                    for sample in self.samples
                    if (sample.system, sample.partitions) == (system, partitions)
                    and (value := getattr(sample, measure)) is not None
                ),
                times=self.times,
            )
            for partitions in self.partitions
        ]

    def growth(self, system: str, measure: str) -> Growth | None:
        """Fit a line through the medians; returns None with fewer than two numbers of partitions."""
        return fit([(f.partitions, f.median_s) for f in self.figures(system, measure) if f.median_s is not None])

    @property
    def incomplete(self) -> list[str]:
        """Every figure with fewer values than planned."""
        return [
            f"{system}, {figure.partitions} partitions: {what}: {len(figure.values)} of {self.times}"
            for system in self.systems
            for measure, what in MEASURES.items()
            for figure in self.figures(system, measure)
            if len(figure.values) < self.times
        ]


def document(curve: Curve) -> dict[str, Any]:
    """Make the contents of failover.json: the curve, and what follows from it."""
    return {
        "format": FORMAT,
        **msgspec.to_builtins(curve),
        "measures": dict(MEASURES),
        "figures": [
            {**msgspec.to_builtins(figure), "median_s": figure.median_s}
            for system in curve.systems
            for measure in MEASURES
            for figure in curve.figures(system, measure)
        ],
        "growth": [
            {"system": s, "measure": m, **(msgspec.to_builtins(g) if g else {"points": "too few"})}
            for s in curve.systems
            for m in MEASURES
            for g in (curve.growth(s, m),)
        ],
        "incomplete": curve.incomplete,
    }


def read_document(data: dict[str, Any]) -> Curve:
    """Read the curve back from the contents of failover.json; derived figures are computed again."""
    return msgspec.convert({name: data[name] for name in Curve.__struct_fields__ if name in data}, Curve)


def seconds(value: float | None) -> str:
    """Write a time for people, in milliseconds below one second."""
    if value is None:
        return "not measured"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def growth_words(growth: Growth | None) -> str:
    """Write the growth for people: `+410 ms per 1,000 (± 20 ms)`."""
    if growth is None:
        return "too few points"
    error = growth.per_1000_error_s
    doubt = "" if error is None else f" (± {error * 1000:.0f} ms)"
    return f"{growth.per_1000_s * 1000:+.0f} ms per 1,000{doubt}"


def table(curve: Curve) -> list[list[str]]:
    """Make the rows for the command line and the page; the first is the heading."""
    rows = [["system", "fault", "measured", *(f"{p:,}" for p in curve.partitions), "growth with partitions"]]
    for measure, what in MEASURES.items():
        for system in curve.systems:
            figures = [_cell(figure) for figure in curve.figures(system, measure)]
            growth = growth_words(curve.growth(system, measure))
            rows.append([system, curve.faults[system], what, *figures, growth])
    return rows


def _cell(figure: Figure) -> str:
    short = "" if len(figure.values) == figure.times else f" [{len(figure.values)} of {figure.times}]"
    return f"{seconds(figure.median_s)}{short if figure.values else ''}"
