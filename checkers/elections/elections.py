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

from typing import Final

from fencepost.checkers.derived.evidence import number_of, numbers_of, rows
from fencepost.checkers.derived.positions import option_ns, weak_reads
from fencepost.checkers.elections import confirmations, recovery, unknown_campaigns
from fencepost.checkers.elections.acts import (
    RESIGNED,
    Attempts,
    acknowledged_late,
    acts_out_of_term,
    impossible_acts,
    late_resigns,
    lost_acts,
    to_be_shown,
)
from fencepost.checkers.elections.beliefs import (
    OBSERVED_BY_MODE,
    WENT_BACK,
    Overlap,
    observed,
    two_believers,
    went_back,
)
from fencepost.checkers.elections.terms import Belief, Terms, beliefs
from fencepost.checkers.rules import GivenOnce, NothingOlder, Rule, says, verdict
from fencepost.checkers.storage.sets import GUARANTEE as KEPT
from fencepost.checkers.violations.finding import Doubt, seconds
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Figures, Traced, most, total

CHECKER: Final = "election"
#: How soon somebody must lead again, where the options do not say it.
_WITHIN: Final = "10s"

ACTED: Final = Rule(
    checker=CHECKER,
    guarantee="one-acting-leader",
    anomaly="acted-after-its-term",
    tested="acts that were sent, or still open, when a later term had been granted",
)
TERM_BACK: Final = NothingOlder(
    checker=CHECKER,
    guarantee="terms-grow",
    anomaly="term-went-back",
    tested="terms that were asked for after another one was granted",
    steps=lambda greatest, campaign: (
        f"{_grant(greatest.by)} by {seconds(greatest.known_ns)}.",
        f"{_grant(campaign.by)}, asked for later, at {seconds(campaign.asked_ns)}: terms must grow.",
    ),
)
TWICE: Final = GivenOnce(
    guarantee="terms-grow",
    anomaly="same-term-twice",
    tested="terms that were granted after another one",
    steps=lambda first, second: (
        f"{_grant(first.by)}.",
        f"{_grant(second.by)} again: no two terms may have one token.",
    ),
)
BELIEVERS: Final = Rule(
    checker=CHECKER,
    guarantee="one-believed-leader",
    anomaly="two-believers",
    tested="terms that were granted after another one",
)
LOST_ACT: Final = Rule(
    checker=CHECKER,
    guarantee=KEPT,
    anomaly="lost-act",
    tested="acknowledged acts that a strong read after healing had to show",
)


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
    acted = ACTED if fenced else ACTED.here(guarantee=BELIEVERS.name)
    looked_at = WENT_BACK.here(guarantee=OBSERVED_BY_MODE[mode])
    return [
        verdict(
            facts,
            acted.tally(acts_out_of_term(terms) + impossible_acts(terms), rows(attempts.exposed)),
            # Positions that were acknowledged can prove a violation, but not that there is none.
            doubt=_doubt(weak or ("" if terms.finals else "no strong read of the trail after healing")),
            figures={**numbers_of(attempts.counted()), "fencing": "on" if fenced else "off"},
        ),
        verdict(
            facts,
            TERM_BACK.judge(says(campaign, campaign.result[0], of="term") for campaign in terms.campaigns),
            TWICE.judge(says(o, o.invoke_index, of=o.result[0]) for o in terms.campaigns),
            figures={"terms": number_of(terms.granted.values()), "campaigns_ok": number_of(terms.campaigns)},
        ),
        verdict(facts, RESIGNED.tally(acknowledged_late(terms), rows(late_resigns(terms)))),
        verdict(
            facts,
            BELIEVERS.tally([overlap.finding for overlap in overlaps], rows(belief.campaign for belief in held[1:])),
            figures=_believed(held, overlaps),
        ),
        verdict(
            facts,
            looked_at.tally(
                went_back(terms, mode) + confirmations.unsure(terms, mode, fenced=fenced), rows(seen.changes)
            ),
            *(() if mode == "plain" else (confirmations.UNSURE.tally((), rows(confirmed)),)),
            figures=seen.figures,
        ),
        verdict(
            facts,
            LOST_ACT.tally([] if weak else lost_acts(terms), rows(to_be_shown(terms))),
            doubt=_doubt(weak),
        ),
        verdict(
            facts,
            unknown_campaigns.WON_LATE.tally(unknown.findings, rows(unknown.settled)),
            unknown.unexplained,
            figures={"unknown_campaigns_won": number_of(unknown.won)},
        ),
        verdict(facts, recovery.NO_LEADER.tally(again.findings, rows(again.tested))),
    ]


def _doubt(why: str) -> Doubt | None:
    return Doubt(Cause.UNDECIDED, why) if why else None


def _believed(held: list[Belief], overlaps: list[Overlap]) -> Figures:
    """For how long was believed, and twice at a time."""
    lengths = [Traced(overlap.length_ns, overlap.rows) for overlap in overlaps]
    return {
        "two_believers": number_of(overlap.finding.counted for overlap in overlaps),
        "two_believers_ns_max": most(lengths),
        "two_believers_ns": total(lengths),
        "believed_ns_max": most(Traced(b.to_ns - b.from_ns, (b.from_row, b.to_row)) for b in held),
    }


def _grant(campaign: Operation) -> str:
    return (
        f"Process {campaign.process} on {campaign.node} was granted term {campaign.result[0]} "
        f"(event {campaign.invoke_index})"
    )
