"""The page of a curve: picture, table, what was measured and how, what is missing; self-contained, without scripts."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.campaigns.failover.figures import Curve, table
from fencepost.campaigns.failover.picture import drawn
from fencepost.harness.contract.failover import Failover
from fencepost.harness.report.page_kit import PageKit
from fencepost.harness.report.section import TextTable

_OWN_STYLE: Final = """
.fit { stroke-width: 1.5; stroke-dasharray: 6 4; }
.f0 { stroke: var(--e0); } .f1 { stroke: var(--e1); }
.single { fill-opacity: .45; }
"""

_HOW: Final = (
    "Each mark is one run on a new cluster of three nodes, with one fault; its verdict and its report are in the folder"
    " of the night. All partitions are there, with two replicas in sync, before the first request.",
    "Longest time without an accepted metadata change: between two answers without an error to a request for a new"
    " topic, in the time of the fault. Every node is asked several times a second, again when no answer came for a"
    " second, and a name is free every 0.2 s: a gap is exact to about a second, and 0.3 s are none.",
    "Certain beginning of the new leader's epoch: by answers and logs, as every run has it (table recovery).",
    "A kill is detected by time-outs: that part of the times comes from the settings, not the systems.",
    "The new leader's own loading is the time between two lines of its log.",
)


def page(curve: Curve, measured_by: Mapping[str, Failover[Any]]) -> str:
    """Make failover.html."""
    versions = ", ".join(f"{system} {version}" for system, version in curve.versions.items())
    run = f"{versions}; {curve.times} times each; {curve.started_at}; took {curve.took_s:.0f} s;"
    run += f" {curve.machine.get('cores', '?')} cores, Linux {curve.machine.get('kernel', '?')}"
    head, *rows = table(curve)
    note = "Growth is the slope of the fitted line, ± its standard error (from three numbers of partitions on)."
    return PageKit("fencepost.campaigns.failover", _OWN_STYLE, traced=lambda value, *_: value).page(
        "failover",
        title="fencepost failover",
        run=run,
        gaps=[*curve.failures, *curve.incomplete],
        picture=drawn(curve),
        medians=TextTable(
            caption="By system, measure and number of partitions",
            columns=tuple(head),
            rows=tuple(map(tuple, rows)),
            note=note,
        ),
        how=[*_HOW, *_of_systems(measured_by)],
    )


def _of_systems(measured_by: Mapping[str, Failover[Any]]) -> list[str]:
    """Say for each system what its figures are measured by."""
    return [
        f"{name}: {failover.about}. Its loading lasts from “{failover.loading[0]}” to “{failover.loading[1]}” in its"
        " log."
        for name, failover in measured_by.items()
    ]
