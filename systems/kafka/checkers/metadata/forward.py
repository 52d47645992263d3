"""Does each node's view of a setting only move forward, within one run of its server?

A node went back when an answer shows a change that is certainly older than one that the same server had shown before.
A change of unknown outcome may take effect late, and a forwarded one twice: only provable steps back count.
"""

from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.servers import Incarnations
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChange, MetadataChanges, completed

GUARANTEE: Final = "metadata-forward"
EXPOSURE_OF: Final = "answered reads of a setting through a node that had shown a change of it before"


class _Seen(msgspec.Struct, frozen=True):
    """The newest change of one setting that one server had shown, by invocation, and the read that showed it."""

    change: MetadataChange
    read: Operation


def judge(changes: MetadataChanges, incarnations: Incarnations, facts: Facts, *, checker: str) -> Verdict:
    """Judge whether each server's view only moved forward.

    Returns:
        `invalid` if a server's answer lacks a change that the same run of the server had shown; `unknown` if no server
        was read again after it had shown a change.

    Cost: O(n log n) for n operations.
    """
    views: dict[tuple[str, int, str | None], list[Operation]] = {}
    straddling: list[Operation] = []
    for read in changes.reads:
        incarnation = incarnations.of(read)
        if incarnation is None:
            straddling.append(read)
        else:
            views.setdefault((read.node, incarnation, read.key), []).append(read)
    findings: list[Finding] = []
    exposed: list[Operation] = []
    unprovable: list[Operation] = []
    for reads in views.values():
        steps_back, again, doubtful = _view(changes, reads)
        findings += steps_back
        exposed += again
        unprovable += doubtful
    findings.sort(key=lambda f: f.operations[-1].invoked_ns)
    return Findings(
        checker=checker,
        guarantee=GUARANTEE,
        findings=findings,
        broken=f"{len(findings)} answers went back behind a change that the same server had shown",
        exposed=rows(exposed),
        exposure_of=EXPOSURE_OF,
        untested="no node was read again after it had shown a change",
        rules=(rule("view-went-back", len(exposed), "no node was read again after it had shown a change"),),
        kept=f"{len(exposed)} answers went back behind no change that their node had shown",
        counted={
            "describes": rows(changes.reads),
            "describes_across_a_restart": rows(straddling),
            "steps_back_not_provable": rows(unprovable),
        },
    ).verdict(facts)


def _view(changes: MetadataChanges, reads: list[Operation]) -> tuple[list[Finding], list[Operation], list[Operation]]:
    """Return the steps back, the exposure and the doubtful steps of one server's answers about one setting."""
    findings: list[Finding] = []
    exposed: list[Operation] = []
    doubtful: list[Operation] = []
    answered = sorted(reads, key=completed)
    newest: _Seen | None = None
    at = 0
    for read in reads:
        while completed(answered[at]) < read.invoked_ns:
            shown = changes.shown(answered[at])
            if shown is not None and (newest is None or shown.invoked_ns > newest.change.invoked_ns):
                newest = _Seen(shown, answered[at])
            at += 1
        if newest is None:
            continue
        exposed.append(read)
        if read.result == newest.change.operation.value:
            continue
        last_by_ns = changes.last_by(read)
        if last_by_ns is None:
            shown = changes.shown(read)
            if shown is not None and shown.first_by_ns is not None and shown.first_by_ns < newest.change.invoked_ns:
                doubtful.append(read)
        elif last_by_ns < newest.change.invoked_ns:
            findings.append(_went_back(changes, newest, read))
    return findings, exposed, doubtful


def _went_back(changes: MetadataChanges, newest: _Seen, read: Operation) -> Finding:
    before, change = newest.read, newest.change.operation
    old = changes.shown(read)
    steps = (
        f"{read.node} answered that {read.key} is {before.result!r}, which process {change.process} had set through "
        f"{change.node}.",
        f"{duration(read.invoked_ns - completed(before))} later the same server was asked again, and answered "
        f"{read.result!r}.",
        f"{read.result!r} had been set, for good, before {before.result!r} was asked for."
        if old is not None
        else "It was so before the first change of this run, and nobody set it to that again.",
    )
    shown = (change, before, read) if old is None else (old.operation, change, before, read)
    return Finding(anomaly="view-went-back", operations=shown, steps=steps)
