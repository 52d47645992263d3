"""Judge an election whose leaders act again and again: does an act of an old term take effect after the term is over?

The verdicts:
  one-acting-leader    in the store's own order every act stands in its term: after its grant, before the next grant and
                       before its leader's resignation. Shown by the trail as read after healing and by acknowledged
                       positions, so no clock decides. An act that was refused must not be there.
  terms-grow           a term that was asked for after another one was granted has a greater token; no token twice.
  one-believed-leader  how often, and for how long, two candidates both believed that they led. With leases nothing
                       prevents that (Kleppmann, "How to do distributed locking", 2016), so it decides only where acts
                       are not guarded: then nothing else stands between two leaders.
  (by read mode)       no observer sees an older term after a newer one: within its session, and for reads that promise
                       to be current across all of them.
Beside them, no acknowledged act may be missing (no-lost-acknowledged-writes).
"""

from collections import Counter
from typing import Any, Final

from checkers.election_acts import Attempts, acts_out_of_term, impossible_acts, lost_acts, to_be_shown
from checkers.election_beliefs import OBSERVED_BY_MODE, observed, two_believers, went_back
from checkers.election_terms import Terms, beliefs
from checkers.register_anomalies import seconds
from checkers.sets import Finding, weak_reads, witness
from harness.history import History
from harness.operation import Operation
from harness.verdict import Facts, Validity, Verdict

CHECKER: Final = "election"
ACTING: Final = "one-acting-leader"
BELIEVED: Final = "one-believed-leader"
GROW: Final = "terms-grow"
KEPT: Final = "no-lost-acknowledged-writes"
_WITNESSES_MAX: Final = 5

_EXPOSURE_OF: Final = {
    ACTING: "acts that were sent, or still open, when a later term had been granted",
    BELIEVED: "terms that were granted after another one",
    GROW: "terms that were asked for after another one was granted",
    KEPT: "acknowledged acts that a strong read after healing had to show",
}


def check(history: History, facts: Facts) -> list[Verdict]:
    """The verdicts of the module's docstring, in its order. Cost: O(n log n)."""
    terms = Terms(history)
    fenced = facts.options.get("fencing", "on") in ("on", True)
    weak = weak_reads(facts)
    held = beliefs(terms)
    overlaps = two_believers(held)
    attempts = Attempts(terms)
    acting = acts_out_of_term(terms) + impossible_acts(terms)
    return [
        _verdict(
            ACTING if fenced else BELIEVED,
            acting,
            exposure=attempts.exposure,
            exposure_of=_EXPOSURE_OF[ACTING],
            # Positions that were acknowledged can prove a violation, but not that there is none.
            lacks=weak or ("" if terms.finals else "no strong read of the trail after healing"),
            facts=facts,
            figures={"fencing": "on" if fenced else "off", **attempts.figures()},
        ),
        _verdict(
            GROW,
            terms_out_of_order(terms),
            exposure=_sequels(terms),
            facts=facts,
            figures={"terms": len(terms.granted), "campaigns_ok": len(terms.campaigns)},
        ),
        _verdict(
            BELIEVED,
            [finding for finding, _ in overlaps],
            exposure=max(0, len(held) - 1),
            facts=facts,
            figures={
                "two_believers": len(overlaps),
                "two_believers_ns_max": max((length_ns for _, length_ns in overlaps), default=0),
                "two_believers_ns": sum(length_ns for _, length_ns in overlaps),
                "believed_ns_max": max((b.to_ns - b.from_ns for b in held), default=0),
            },
        ),
        _verdict(
            OBSERVED_BY_MODE[facts.options.get("observe", "plain")],
            went_back(terms, facts.options.get("observe", "plain")),
            **observed(terms),
            facts=facts,
        ),
        _verdict(
            KEPT,
            [] if weak else lost_acts(terms),
            exposure=to_be_shown(terms),
            lacks=weak,
            facts=facts,
            figures={},
        ),
    ]


def _verdict(
    guarantee: str,
    findings: list[Finding],
    *,
    exposure: int,
    facts: Facts,
    figures: dict[str, Any],
    exposure_of: str | None = None,
    lacks: str = "",
) -> Verdict:
    counted = exposure_of or _EXPOSURE_OF[guarantee]
    if findings:
        validity, reason = Validity.INVALID, f"{len(findings)} violations"
    elif lacks:
        validity, reason = Validity.UNKNOWN, lacks
    elif exposure < facts.thresholds.exposure_min:
        least = facts.thresholds.exposure_min
        validity, reason = Validity.UNKNOWN, f"{exposure} {counted}; at least {least} are asked for"
    else:
        validity, reason = Validity.VALID, ""
    return Verdict(
        checker=CHECKER,
        guarantee=guarantee,
        validity=validity,
        reason=reason,
        exposure=exposure,
        exposure_of=counted,
        anomalies=dict(Counter(finding.anomaly for finding in findings)),
        witnesses=tuple(witness(finding) for finding in _one_of_each_first(findings)[:_WITNESSES_MAX]),
        figures=figures,
    )


def terms_out_of_order(terms: Terms) -> list[Finding]:
    """Tokens that were granted twice, or that are smaller than one granted before they were asked for."""
    found: list[Finding] = []
    for campaign in terms.campaigns:
        first = terms.granted[campaign.result[0]]
        if first is not campaign:
            steps = (f"{_grant(first)}.", f"{_grant(campaign)} again: no two terms may have one token.")
            found.append(Finding(anomaly="same-term-twice", operations=(first, campaign), steps=steps))
    done = sorted(terms.campaigns, key=lambda o: o.completed_ns or 0)
    greatest: Operation | None = None
    at = 0
    for campaign in terms.campaigns:
        while at < len(done) and (done[at].completed_ns or 0) < campaign.invoked_ns:
            if greatest is None or done[at].result[0] > greatest.result[0]:
                greatest = done[at]
            at += 1
        if greatest is not None and campaign.result[0] < greatest.result[0]:
            steps = (
                f"{_grant(greatest)} by {seconds(greatest.completed_ns or 0)}.",
                f"{_grant(campaign)}, asked for later, at {seconds(campaign.invoked_ns)}: terms must grow.",
            )
            found.append(Finding(anomaly="term-went-back", operations=(greatest, campaign), steps=steps))
    return found


def _sequels(terms: Terms) -> int:
    first_ns = min((o.completed_ns or 0 for o in terms.campaigns), default=0)
    return sum(o.invoked_ns > first_ns for o in terms.campaigns)


def _grant(campaign: Operation) -> str:
    return (
        f"Process {campaign.process} on {campaign.node} was granted term {campaign.result[0]} "
        f"(event {campaign.invoke_index})"
    )


def _one_of_each_first(findings: list[Finding]) -> list[Finding]:
    """Every kind of anomaly is shown before a second one of the same kind."""
    rank: Counter[str] = Counter()
    ranked = []
    for i, finding in enumerate(findings):
        ranked.append((rank[finding.anomaly], i, finding))
        rank[finding.anomaly] += 1
    return [finding for _, _, finding in sorted(ranked, key=lambda entry: entry[:2])]
