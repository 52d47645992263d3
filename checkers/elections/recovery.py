"""Whether somebody leads again after a fault: a leader's lock that never ends keeps everybody else from leading.

Judged for each fault that was healed during the load, up to the next fault: somebody is granted a term, or renews or
uses one, within the bound that the option `leads_within` names. No system promises a time, so this is measured.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.elections.terms import Terms
from fencepost.checkers.rules import Rule
from fencepost.checkers.violations.finding import Finding, duration, seconds
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import FaultOutcome, FaultSpan, History, Operation, Outcome, PhaseName

NO_LEADER: Final = Rule(
    checker="election",
    guarantee="somebody-leads-again",
    anomaly="no-leader",
    tested="faults after which somebody led again, or had the time to",
)


class Recovery(msgspec.Struct, frozen=True):
    """`tested` has an operation for each fault: the first sign of a leader, or the first vain campaign."""

    tested: list[Operation]
    findings: list[Finding]


def recovery(history: History, terms: Terms, within_ns: int) -> Recovery:
    """Judge what followed each healing."""
    signs = [o for o in (*terms.campaigns, *terms.in_terms) if o.type is Outcome.OK and o.f != "resign"]
    tested, findings = [], []
    for fault, from_ns, to_ns in _rests(history):
        first = min((o for o in signs if from_ns <= o.invoked_ns < to_ns), key=_end_ns, default=None)
        if first is not None and _end_ns(first) <= from_ns + within_ns:
            tested.append(first)
            continue
        vain = [o for o in terms.unanswered if from_ns <= o.invoked_ns and _end_ns(o) <= from_ns + within_ns]
        if to_ns < from_ns + within_ns or not vain:
            continue
        steps = (
            f"The fault {fault.fault} was over at {seconds(from_ns)}.",
            f"{len(vain)} campaigns of the following {duration(within_ns)} did not win, and nobody used a term.",
        )
        tested.append(vain[0])
        findings.append(NO_LEADER.finding(vain[0], vain[-1], steps=steps))
    return Recovery(tested, findings)


def _rests(history: History) -> Iterator[tuple[FaultSpan, int, int]]:
    """Each fault that was healed during the load, and the time from then to the next fault or the end of the load."""
    load = history.phases.get(PhaseName.MAIN)
    if load is None:
        return
    spans = [(fault, *history.possible(fault)) for fault in history.faults]
    for fault, _, healed_ns in spans:
        overlaps = any(began_ns <= healed_ns < ended_ns for _, began_ns, ended_ns in spans)
        if fault.outcome is not FaultOutcome.INSTALLED or not load[0] <= healed_ns < load[1] or overlaps:
            continue
        later = (began_ns for _, began_ns, _ in spans if began_ns > healed_ns)
        yield fault, healed_ns, min((*later, load[1]))


def _end_ns(operation: Operation) -> int:
    return NEVER_NS if operation.ended_ns is None else operation.ended_ns
