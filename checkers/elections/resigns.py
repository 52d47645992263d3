"""Resignations of leaders whose term was over: they must end nobody else's term.

A leader that stalled, and resigns as if nothing had happened, is refused where the store looks at the term. A store
that acknowledges such a resignation has ended a term by it, and only the later leader's term was left to end.
"""

from typing import Final

from fencepost.checkers.elections.terms import Terms, token_of
from fencepost.checkers.findings.finding import Finding, seconds
from fencepost.harness.history import Operation, Outcome

GUARANTEE: Final = "resign-ends-own-term"
ANOMALY: Final = "deposed-by-stale-resign"
EXPOSURE_OF: Final = "answered resignations that were sent when a later term had been granted"


def late_resigns(terms: Terms) -> list[Operation]:
    """List the resignations that were sent after a later grant had been acknowledged, and that the store answered."""
    return [
        o
        for o in terms.in_terms
        if o.f == "resign"
        and (o.type is Outcome.OK or (o.type is Outcome.FAIL and o.error == "not-held"))
        and (since_ns := terms.superseded_ns(token_of(o))) is not None
        and o.invoked_ns > since_ns
    ]


def acknowledged_late(terms: Terms) -> list[Finding]:
    """Find those of them that the store acknowledged."""
    findings = []
    for resign in late_resigns(terms):
        later = terms.superseded_by(token_of(resign))
        if resign.type is not Outcome.OK or later is None:
            continue
        steps = (
            f"Term {later.result[0]} was granted to process {later.process} on {later.node} by "
            f"{seconds(later.completed_ns or 0)}.",
            f"Process {resign.process} resigned from the earlier term {token_of(resign)} after that, at "
            f"{seconds(resign.invoked_ns)}.",
            f"{resign.node} acknowledged it, so it ended a term that was not the term of process {resign.process}.",
        )
        findings.append(Finding(anomaly=ANOMALY, operations=(later, resign), steps=steps))
    return findings
