"""Judge an election whose leaders keep acting: does an act of an old term take effect after the term is over?

The verdicts:
  one-acting-leader    in the store's own order every act stands in its term: after its grant, before the next grant,
                       and before its leader's resignation. The trail, read after healing, and acknowledged positions
                       show this, so no clock decides. An act that was refused must not be on the trail.
  terms-grow           a term that was asked for after another one was granted has a greater token; no token twice.
  resign-ends-own-term a leader whose term is over is refused when it resigns: it ends nobody else's term.
  one-believed-leader  no two candidates believe at the same time that they lead. A lease cannot prevent that, because
                       its holder may stall without knowing it; so this decides the run only where acts are not
                       fenced. Elsewhere it is a figure.
  (by read mode)       no observer sees an older term after a newer one: within its session, or, where reads promise to
                       be current, across all sessions. Nor is a leader that asks right after its election by such
                       a read shown an earlier one, or nobody while its term holds.
  no-lost-acknowledged-writes
                       no acknowledged act is missing from the trail.
  unknown-campaign-is-settled
                       a campaign that was given up does not win after a current read showed another leader.
  somebody-leads-again after a fault somebody leads within the bound that the option `leads_within` names.

Sources: leases end by time, and their safety rests on clocks (Gray & Cheriton, "Leases", 1989); a fencing token, which
grows with each grant, makes a stale leader harmless (Burrows, "The Chubby lock service", 2006, on sequencers;
Kleppmann, "How to do distributed locking", 2016). docs/explanation/design.md has the definitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.checkers.elections import confirmations, recovery, resigns, unknown_campaigns
from fencepost.checkers.elections.acts import Attempts, acts_out_of_term, impossible_acts, lost_acts, to_be_shown
from fencepost.checkers.elections.beliefs import (
    OBSERVED_BY_MODE,
    OBSERVED_EXPOSURE_OF,
    Overlap,
    observed,
    two_believers,
    went_back,
)
from fencepost.checkers.elections.terms import Belief, Terms, beliefs
from fencepost.checkers.facts.evidence import Rows, rows
from fencepost.checkers.facts.positions import option_ns, weak_reads
from fencepost.checkers.findings.finding import (
    WITNESSES_MAX,
    Doubt,
    Finding,
    Findings,
    one_of_each_first,
    rule,
    seconds,
)
from fencepost.checkers.storage.sets import GUARANTEE as KEPT
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Cause, Facts, Rule, Verdict

CHECKER: Final = "election"
ACTING: Final = "one-acting-leader"
BELIEVED: Final = "one-believed-leader"
GROW: Final = "terms-grow"

#: How soon somebody must lead again, where the options do not say it.
_WITHIN: Final = "10s"

_EXPOSURE_OF: Final = {
    ACTING: "acts that were sent, or still open, when a later term had been granted",
    BELIEVED: "terms that were granted after another one",
    GROW: "terms that were asked for after another one was granted",
    KEPT: "acknowledged acts that a strong read after healing had to show",
}


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge one election.

    Args:
        history: campaigns, acts, renewals, resignations, observations and final reads of the trail.
        facts: the options `fencing` ("on" by default) and `observe` (the read mode), and the guarantee of reads.

    Returns:
        The eight verdicts of this module's docstring, in its order. Without fencing the first one is a second verdict
        on "one-believed-leader".

    Raises:
        MalformedHistory: an operation does not carry its term as [token, handle, ...]; names the event.

    Cost: O(n log n) for n operations.
    """
    terms = Terms(history)
    fenced = facts.options.get("fencing", "on") in ("on", True)
    weak = weak_reads(facts)
    held = beliefs(terms)
    overlaps = two_believers(held)
    attempts = Attempts(terms)
    seen, mode = observed(terms), facts.options.get("observe", "plain")
    confirmed = confirmations.judged(terms, mode)
    unknown = unknown_campaigns.unknown_campaigns(terms, mode)
    again = recovery.recovery(history, terms, option_ns(facts, "leads_within", _WITHIN))
    acting = acts_out_of_term(terms) + impossible_acts(terms)
    judgements = [
        _Judgement(
            guarantee=ACTING if fenced else BELIEVED,
            findings=acting,
            anomaly="acted-after-its-term",
            exposed=attempts.exposed,
            exposure_of=_EXPOSURE_OF[ACTING],
            # Positions that were acknowledged can prove a violation, but not that there is none.
            lacks=weak or ("" if terms.finals else "no strong read of the trail after healing"),
            counted=attempts.counted(),
            figures={"fencing": "on" if fenced else "off"},
        ),
        _Judgement(
            guarantee=GROW,
            findings=terms_out_of_order(terms),
            anomaly="term-went-back",
            exposed=_sequels(terms),
            counted={"terms": list(terms.granted.values()), "campaigns_ok": terms.campaigns},
        ),
        _Judgement(
            guarantee=resigns.GUARANTEE,
            findings=resigns.acknowledged_late(terms),
            anomaly=resigns.ANOMALY,
            exposed=resigns.late_resigns(terms),
            exposure_of=resigns.EXPOSURE_OF,
        ),
        _Judgement(
            guarantee=BELIEVED,
            findings=[overlap.finding for overlap in overlaps],
            anomaly="two-believers",
            exposed=[belief.campaign for belief in held[1:]],
            counted={"two_believers": [overlap.finding.counted for overlap in overlaps]},
            **_believed(held, overlaps),
        ),
        _Judgement(
            guarantee=OBSERVED_BY_MODE[mode],
            findings=went_back(terms, mode) + confirmations.unsure(terms, mode, fenced=fenced),
            anomaly="observed-term-went-back",
            exposed=seen.changes,
            exposure_of=OBSERVED_EXPOSURE_OF,
            rules=() if mode == "plain" else (rule(confirmations.ANOMALY, len(confirmed), confirmations.LACKS),),
            counted=seen.counted,
            figures={"observed_behind_ns_max": seen.behind_ns_max},
            evidence={"observed_behind_ns_max": seen.behind_rows},
        ),
        _Judgement(
            guarantee=KEPT,
            findings=[] if weak else lost_acts(terms),
            anomaly="lost-act",
            exposed=to_be_shown(terms),
            lacks=weak,
        ),
        _Judgement(
            guarantee=unknown_campaigns.GUARANTEE,
            findings=unknown.findings,
            anomaly=unknown_campaigns.LATE,
            exposed=unknown.settled,
            exposure_of=unknown_campaigns.EXPOSURE_OF,
            rules=(unknown.unexplained,),
            counted={"unknown_campaigns_won": unknown.won},
        ),
        _Judgement(
            guarantee=recovery.GUARANTEE,
            findings=again.findings,
            anomaly=recovery.ANOMALY,
            exposed=again.tested,
            exposure_of=recovery.EXPOSURE_OF,
        ),
    ]
    return [judgement.verdict(facts) for judgement in judgements]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """One guarantee: the violations found, the operations that tested it, and the figures to report.

    Attributes:
        anomaly: the name of the rule; each operation of `exposed` is a chance for it.
        counted: figures that are counts, each with the operations that it counts.
        figures: other figures, whose rows are in `evidence`.
        exposure_of: what `exposed` contains, in words; None: as `_EXPOSURE_OF` names it.
        rules: of further anomalies than `anomaly`.
        lacks: why the run proves nothing without a violation; empty if it does.
    """

    guarantee: str
    findings: list[Finding]
    anomaly: str
    exposed: list[Operation]
    counted: Mapping[str, list[Operation]] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Rows] = field(default_factory=dict)
    exposure_of: str | None = None
    rules: tuple[Rule, ...] = ()
    lacks: str = ""

    def verdict(self, facts: Facts) -> Verdict:
        """Merge the violations, the doubt and the exposure into one verdict."""
        what = self.exposure_of or _EXPOSURE_OF[self.guarantee]
        return Findings(
            checker=CHECKER,
            guarantee=self.guarantee,
            findings=self.findings,
            broken=f"{len(self.findings)} violations",
            doubt=Doubt(Cause.UNDECIDED, self.lacks) if self.lacks else None,
            exposed=rows(self.exposed),
            exposure_of=what,
            rules=(rule(self.anomaly, len(self.exposed), f"no {what}"), *self.rules),
            shown=one_of_each_first(self.findings)[:WITNESSES_MAX],
            counted={name: rows(own) for name, own in self.counted.items()},
            figures=self.figures,
            evidence=self.evidence,
        ).verdict(facts)


def _believed(held: list[Belief], overlaps: list[Overlap]) -> dict[str, Any]:
    """For how long was believed, and twice at a time: the figures, and the rows behind them."""
    longest = max(overlaps, key=lambda overlap: overlap.length_ns, default=None)
    belief = max(held, key=lambda belief: belief.to_ns - belief.from_ns, default=None)
    return {
        "figures": {
            "two_believers_ns_max": longest.length_ns if longest else 0,
            "two_believers_ns": sum(overlap.length_ns for overlap in overlaps),
            "believed_ns_max": belief.to_ns - belief.from_ns if belief else 0,
        },
        "evidence": {
            "two_believers_ns_max": longest.rows if longest else (),
            "two_believers_ns": tuple(i for overlap in overlaps for i in overlap.rows),
            "believed_ns_max": (belief.from_row, belief.to_row) if belief else (),
        },
    }


def terms_out_of_order(terms: Terms) -> list[Finding]:
    """Find tokens that were granted twice, or that are smaller than one granted before they were asked for."""
    findings: list[Finding] = []
    for campaign in terms.campaigns:
        first = terms.granted[campaign.result[0]]
        if first is not campaign:
            steps = (f"{_grant(first)}.", f"{_grant(campaign)} again: no two terms may have one token.")
            findings.append(Finding(anomaly="same-term-twice", operations=(first, campaign), steps=steps))
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
            findings.append(Finding(anomaly="term-went-back", operations=(greatest, campaign), steps=steps))
    return findings


def _sequels(terms: Terms) -> list[Operation]:
    first_ns = min((o.completed_ns or 0 for o in terms.campaigns), default=0)
    return [o for o in terms.campaigns if o.invoked_ns > first_ns]


def _grant(campaign: Operation) -> str:
    return (
        f"Process {campaign.process} on {campaign.node} was granted term {campaign.result[0]} "
        f"(event {campaign.invoke_index})"
    )
