"""The page of a curve: picture, table, what was measured and how, what is missing; self-contained, without scripts."""

from typing import Final

from markupsafe import Markup

from fencepost.harness.report.page_kit import asset, content_hash
from fencepost.systems.kafka.failover.cell import REPLICAS
from fencepost.systems.kafka.failover.document import Curve, costs, table
from fencepost.systems.kafka.failover.measurable import failover_of
from fencepost.systems.kafka.failover.picture import drawn

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
<section><h2>What each ending or phase costs</h2><ul class="steps">{costs}</ul></section>
<section><h2>What is measured</h2><ul class="steps">{how}</ul></section>
</main></body></html>
""")

_HOW: Final = (
    "Zero is the moment at which the signal was sent: SIGKILL, or SIGTERM for a stop in order.",
    f"Three brokers. Every partition has {REPLICAS} replicas. Before each ending all replicas are in"
    " sync and each partition is led by its first replica and has acknowledged a produce.",
    "A controller that is stopped in order goes on acting until it has handed over: the other nodes refuse changes"
    " until then, so the time includes its shutdown (exit_s among the samples).",
    "First accepted metadata change: CreateTopics with a new name, sent to the controllers of the two remaining nodes"
    " on three connections each, 10 ms after the last answer; the first answer without an error counts.",
    "First acknowledged produce on every partition: acks=all, asked of the remaining brokers in rounds until the last"
    " partition has acknowledged one; while none becomes available only 100 are asked in a round, of 100 ms at most, so"
    " that asking does not slow down what is measured. It may be seen late by two such rounds.",
    "A kill is detected by time-outs, a stop is not: that part of the times comes from the settings, not the systems.",
    "The new controller's own loading is the time between two lines of its log.",
    "A migration goes from phase to phase as its documentation says, each server after the last one serves and all"
    " replicas are in sync. The longest time without an accepted metadata change lies between two answers without an"
    " error to CreateTopics, from the first step towards a phase until it holds and all servers serve. One node is"
    " asked ten times a second while it accepts; after a refusal, or 100 ms without an answer, every node is asked. So"
    " 100 ms are no gap.",
    "Bytes are what passed the links of the new controller's node from the signal until the last partition had"
    " acknowledged a produce: what it fetched, what it pushed to brokers or they fetched from it, and the requests of"
    " the probes.",
)


def page(curve: Curve) -> str:
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
            costs=Markup("").join(Markup("<li>{}</li>").format(f"{text}.") for text in costs(curve)),
            how=Markup("").join(Markup("<li>{}</li>").format(text) for text in (*_HOW, *_of_systems(curve))),
        )
    )


def _table(rows: list[list[str]]) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(text) for text in rows[0])
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(text) for text in row))
        for row in rows[1:]
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def _of_systems(curve: Curve) -> list[str]:
    """Say for each system what its figures are measured by."""
    lines = []
    for name in curve.systems:
        failover = failover_of(name)
        begins, done = failover.loading
        lines.append(f"{name}: {failover.about}. Its loading lasts from “{begins}” to “{done}” in its log.")
    return lines
