"""The page of a curve: picture, table, what was measured and how, what is missing; self-contained, without scripts."""

from collections.abc import Mapping
from typing import Any, Final

from markupsafe import Markup

from fencepost.campaigns.failover.figures import Curve, table
from fencepost.campaigns.failover.picture import drawn
from fencepost.harness.contract.failover import Failover
from fencepost.harness.report.page_kit import asset, content_hash

_OWN_STYLE: Final = """
.fit { stroke-width: 1.5; stroke-dasharray: 6 4; }
.f0 { stroke: var(--e0); } .f1 { stroke: var(--e1); }
.single { fill-opacity: .45; }
"""

_PAGE: Final = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src '{hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>fencepost failover</title>
<style>{style}</style>
</head>
<body><main id="main">
<h1>Failover against the number of topic partitions</h1>
<p class="run">{run}</p>
{missing}
<section aria-label="Picture"><figure>{picture}<figcaption>Small marks: single measurements. Large marks: medians.
Dashed: least squares through the medians.</figcaption></figure></section>
<section><h2>Medians</h2><div class="scroll">{table}</div>
<p class="note">Growth is the slope of the fitted line, ± its standard error (from three numbers of partitions on).</p>
</section>
<section><h2>What is measured</h2><ul class="steps">{how}</ul></section>
</main></body></html>
""")

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
    style = asset("style.css") + _OWN_STYLE
    versions = ", ".join(f"{system} {version}" for system, version in curve.versions.items())
    run = f"{versions}; {curve.times} times each; {curve.started_at}; took {curve.took_s:.0f} s;"
    run += f" {curve.machine.get('cores', '?')} cores, Linux {curve.machine.get('kernel', '?')}"
    gaps = [*curve.failures, *curve.incomplete]
    missing = Markup("")
    if gaps:
        items = Markup("").join(Markup("<li>{}</li>").format(text) for text in gaps)
        missing = Markup('<div class="notes"><strong>Not everything was measured</strong><ul>{}</ul></div>').format(
            items
        )
    return str(
        _PAGE.format(
            hash=Markup(content_hash(style)),
            style=Markup(style),  # our own file
            run=run,
            missing=missing,
            picture=drawn(curve),
            table=_table(table(curve)),
            how=Markup("").join(Markup("<li>{}</li>").format(text) for text in (*_HOW, *_of_systems(measured_by))),
        )
    )


def _table(rows: list[list[str]]) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(text) for text in rows[0])
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(text) for text in row))
        for row in rows[1:]
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def _of_systems(measured_by: Mapping[str, Failover[Any]]) -> list[str]:
    """Say for each system what its figures are measured by."""
    return [
        f"{name}: {failover.about}. Its loading lasts from “{failover.loading[0]}” to “{failover.loading[1]}” in its"
        " log."
        for name, failover in measured_by.items()
    ]
