"""The figures of a curve as one document: samples, medians, the line fitted through them, and what is missing."""

import statistics
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.base.options import plain
from fencepost.harness.contract.profile import SystemOptions
from fencepost.systems.kafka.failover.cell import (
    AMOUNTS,
    ENDS,
    MEASURES,
    NODES,
    REPLICAS,
    FailoverEnding,
    FailoverSample,
    measured,
)
from fencepost.systems.kafka.failover.growth import Growth, fit
from fencepost.systems.kafka.failover.measurable import endings_of, failover_of

FORMAT: Final = 1


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one cell and ending: `values` in the order measured."""

    system: str
    ending: FailoverEnding
    measure: str
    partitions: int
    values: tuple[float, ...]
    #: How many values were planned.
    times: int

    @property
    def median_s(self) -> float | None:
        return statistics.median(self.values) if self.values else None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured; `failures` says which cells ended early, and why."""

    systems: tuple[str, ...]
    versions: dict[str, str]
    partitions: tuple[int, ...]
    times: int
    samples: tuple[FailoverSample, ...]
    failures: tuple[str, ...] = ()
    took_s: float = 0.0
    started_at: str = ""
    machine: dict[str, Any] = {}

    def figure(self, system: str, ending: FailoverEnding, measure: str, partitions: int) -> Figure:
        values = [
            getattr(sample, measure)
            for sample in self.samples
            if (sample.system, sample.ending, sample.partitions) == (system, ending, partitions)
        ]
        return Figure(
            system=system,
            ending=ending,
            measure=measure,
            partitions=partitions,
            values=tuple(value for value in values if value is not None),
            times=self.times,
        )

    def figures(self, system: str, ending: FailoverEnding, measure: str) -> list[Figure]:
        return [self.figure(system, ending, measure, partitions) for partitions in self.partitions]

    def growth(self, system: str, ending: FailoverEnding, measure: str) -> Growth | None:
        """Fit a line through the medians; returns None with fewer than two numbers of partitions."""
        return fit(
            [(f.partitions, f.median_s) for f in self.figures(system, ending, measure) if f.median_s is not None]
        )

    @property
    def incomplete(self) -> list[str]:
        """Every figure with fewer values than planned."""
        return [
            f"{figure.system}, {figure.partitions} partitions, {figure.ending}: {what}:"
            f" {len(figure.values)} of {self.times}"
            for system, ending, measure in self.kinds
            for what in (MEASURES[measure],)
            for figure in self.figures(system, ending, measure)
            if len(figure.values) < self.times
        ]

    @property
    def kinds(self) -> list[tuple[str, FailoverEnding, str]]:
        """Every system with its endings, or phases, and the measures of each."""
        return [(s, ending, measure) for s in self.systems for ending in endings_of(s) for measure in measured(ending)]

    @property
    def endings(self) -> list[tuple[str, FailoverEnding]]:
        """Every system that is not migrated, with the endings of its controller."""
        return [(s, ending) for s in self.systems for ending in endings_of(s) if ending in ENDS]


def document(curve: Curve) -> dict[str, Any]:
    """Make the contents of failover.json."""
    return {
        "format": FORMAT,
        "started_at": curve.started_at,
        "took_s": round(curve.took_s, 1),
        "machine": curve.machine,
        "conditions": {
            "nodes": NODES,
            "replicas": REPLICAS,
            "acks": "all",
            "system_options": {name: _changed(failover_of(name).options) for name in curve.systems},
        },
        "versions": curve.versions,
        "partitions": list(curve.partitions),
        "times": curve.times,
        "measures": dict(MEASURES),
        "amounts": dict(AMOUNTS),
        "bytes": [_amount(curve, s, e, a, p) for s, e in curve.endings for a in AMOUNTS for p in curve.partitions],
        "costs": costs(curve),
        "figures": [_figure(curve, f) for f in _all_figures(curve)],
        "growth": [
            {"system": s, "ending": e.value, "measure": m, **(msgspec.to_builtins(g) if g else {"points": "too few"})}
            for s, e, m in curve.kinds
            for g in (curve.growth(s, e, m),)
        ],
        "incomplete": curve.incomplete,
        "failures": list(curve.failures),
        "samples": msgspec.to_builtins(curve.samples),
    }


def read_document(data: dict[str, Any]) -> Curve:
    """Read the curve back from the contents of failover.json; derived figures are computed again."""
    fields = {name: data[name] for name in Curve.__struct_fields__ if name in data}
    return msgspec.convert({**fields, "systems": tuple(data["versions"])}, Curve)


def _all_figures(curve: Curve) -> list[Figure]:
    return [f for s, e, m in curve.kinds for f in curve.figures(s, e, m)]


def _figure(curve: Curve, figure: Figure) -> dict[str, Any]:
    values: Sequence[float] = figure.values
    return {
        "system": figure.system,
        "ending": figure.ending.value,
        "measure": figure.measure,
        "partitions": figure.partitions,
        "count": len(values),
        "median_s": figure.median_s,
        "least_s": min(values, default=None),
        "most_s": max(values, default=None),
    }


def _amount(curve: Curve, system: str, ending: FailoverEnding, amount: str, partitions: int) -> dict[str, Any]:
    figure = curve.figure(system, ending, amount, partitions)
    return {
        "system": system,
        "ending": ending.value,
        "amount": amount,
        "partitions": partitions,
        "count": len(figure.values),
        "median_bytes": figure.median_s,
    }


def costs(curve: Curve) -> list[str]:
    """Say for each system what a kill and an orderly stop of its controller cost, or each phase of its migration."""
    return [
        _cost(curve, system, ending) if ending in ENDS else _phase(curve, system, ending)
        for system in curve.systems
        for ending in endings_of(system)
    ]


def _phase(curve: Curve, system: str, ending: FailoverEnding) -> str:
    gaps = [f for f in curve.figures(system, ending, "gap_s") if f.values]
    changes = [f"{seconds(f.median_s)} with {f.partitions:,} partitions" for f in gaps]
    lengths = [seconds(f.median_s) for f in curve.figures(system, ending, "phase_s") if f.values]
    return (
        f"{system}, up to {ending}: no metadata change is accepted for {', '.join(changes) or 'no measured time'}"
        f" ({growth_words(curve.growth(system, ending, 'gap_s'))}); the steps take"
        f" {', '.join(lengths) or 'no measured time'}"
    )


def _cost(curve: Curve, system: str, ending: FailoverEnding) -> str:
    how = "killed" if ending is FailoverEnding.KILL else "stopped in order"
    figures = {
        measure: [f for f in curve.figures(system, ending, measure) if f.values]
        for measure in (*measured(ending), *AMOUNTS)
    }
    changes = [f"{seconds(f.median_s)} with {f.partitions:,} partitions" for f in figures["metadata_s"]]
    produces = [seconds(f.median_s) for f in figures["produce_s"]]
    moved = [
        f"{amount(sent.median_s)} sent and {amount(received.median_s)} received"
        for sent, received in zip(figures["pushed_bytes"], figures["fetched_bytes"], strict=True)
    ]
    return (
        f"{system}, controller {how}: a metadata change is accepted after {', '.join(changes) or 'no measured time'}"
        f" ({growth_words(curve.growth(system, ending, 'metadata_s'))}); a produce on every partition is acknowledged"
        f" after {', '.join(produces) or 'no measured time'}; the new controller's node moved"
        f" {'; '.join(moved) or 'an unknown number of bytes'}"
    )


def amount(value: float | None) -> str:
    """Write a number of bytes for people."""
    if value is None:
        return "not measured"
    return f"{value / 1e6:.1f} MB" if value >= 1e6 else f"{value / 1e3:.0f} kB"


def seconds(value: float | None) -> str:
    """Write a time for people, in milliseconds below one second."""
    if value is None:
        return "not measured"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def growth_words(growth: Growth | None) -> str:
    """Write the growth for people: `+410 ms per 1,000 (± 20 ms)`."""
    if growth is None:
        return "too few points"
    slope = growth.per_1000_s
    error = growth.per_1000_error_s
    doubt = "" if error is None else f" (± {error * 1000:.0f} ms)"
    return f"{slope * 1000:+.0f} ms per 1,000{doubt}"


def table(curve: Curve) -> list[list[str]]:
    """Make the rows for the command line and the page; the first is the heading."""
    rows = [
        [
            "system",
            "controller ends by, or phase",
            "measured",
            *(f"{p:,}" for p in curve.partitions),
            "growth with partitions",
        ]
    ]
    for ending in FailoverEnding:
        systems = [system for system in curve.systems if ending in endings_of(system)]
        for measure in measured(ending):
            for system in systems:
                figures = curve.figures(system, ending, measure)
                rows.append(
                    [
                        system,
                        ending.value,
                        MEASURES[measure],
                        *(_cell(figure) for figure in figures),
                        growth_words(curve.growth(system, ending, measure)),
                    ]
                )
        for name, what in AMOUNTS.items():
            for system in systems if ending in ENDS else ():
                cells = [amount(figure.median_s) for figure in curve.figures(system, ending, name)]
                rows.append([system, ending.value, what, *cells, ""])
    return rows


def _cell(figure: Figure) -> str:
    short = "" if len(figure.values) == figure.times else f" [{len(figure.values)} of {figure.times}]"
    return f"{seconds(figure.median_s)}{short if figure.values else ''}"


def _changed(options: SystemOptions) -> dict[str, Any]:
    """The options that differ from the system's defaults, as a plan keeps them."""
    defaults = plain(type(options)())
    return {name: value for name, value in plain(options).items() if value != defaults[name]}
