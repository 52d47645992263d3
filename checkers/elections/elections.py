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

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.derived.evidence import number_of, numbers_of, rows
from fencepost.checkers.derived.positions import ended_ns, option_ns, weak_reads
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
from fencepost.checkers.elections.terms import (
    OBSERVED_BY_MODE,
    WENT_BACK,
    Belief,
    Overlap,
    Terms,
    beliefs,
    observed,
    token_of,
    two_believers,
    went_back,
)
from fencepost.checkers.rules import GivenOnce, Judged, NothingOlder, Rule, says, sorted_out, verdict
from fencepost.checkers.storage.sets import GUARANTEE as KEPT
from fencepost.checkers.violations.finding import Doubt, Finding, duration, seconds
from fencepost.harness.history import FaultOutcome, FaultSpan, History, Operation, Outcome, PhaseName
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Figures, Traced, most, total

#: How soon somebody must lead again, where the options do not say it.
_WITHIN: Final = "10s"

ACTED: Final = Rule(
    guarantee="one-acting-leader",
    anomaly="acted-after-its-term",
    tested="acts that were sent, or still open, when a later term had been granted",
)
TERM_BACK: Final = NothingOlder(
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
    guarantee="one-believed-leader", anomaly="two-believers", tested="terms that were granted after another one"
)
LOST_ACT: Final = Rule(
    guarantee=KEPT, anomaly="lost-act", tested="acknowledged acts that a strong read after healing had to show"
)
UNSURE: Final = Rule(
    guarantee="linearizable",
    anomaly="leader-unsure",
    tested="questions of leaders who leads, by a current read right after their election",
)
WON_LATE: Final = Rule(
    guarantee="unknown-campaign-is-settled",
    anomaly="won-after-settled",
    tested="campaigns without a known outcome after which somebody asked by a current read who leads",
)
UNEXPLAINED: Final = Rule(
    guarantee="unknown-campaign-is-settled",
    anomaly="unexplained-leader",
    tested="leaders that nobody knew to be one",
    lacks="every leader was a known one",
)
NO_LEADER: Final = Rule(
    guarantee="somebody-leads-again",
    anomaly="no-leader",
    tested="faults after which somebody led again, or had the time to",
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
    # Observers that read a copy may be behind.
    confirmed = [] if mode == "plain" else terms.confirmations
    won = [] if mode == "plain" else won_unknown(terms)
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
            looked_at.tally(went_back(terms, mode), rows(seen.changes)),
            *([] if mode == "plain" else [UNSURE.tally([*unsure(terms, fenced=fenced)], rows(confirmed))]),
            figures=seen.figures,
        ),
        verdict(
            facts,
            LOST_ACT.tally([] if weak else lost_acts(terms), rows(to_be_shown(terms))),
            doubt=_doubt(weak),
        ),
        verdict(
            facts,
            *(settled(terms, won) if mode != "plain" else [WON_LATE.tally((), ()), UNEXPLAINED.tally((), 0)]),
            figures={"unknown_campaigns_won": number_of(won)},
        ),
        verdict(facts, led_again(history, terms, option_ns(facts, "leads_within", _WITHIN))),
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


def unsure(terms: Terms, *, fenced: bool) -> Iterator[Finding]:
    """Find leaders that asked who leads right after their election, and were shown an earlier leader, or nobody.

    KIP-30 has this as `getLeader` after a `nominate` that returned true. Nobody is a wrong answer if the term still
    held: a later renewal or guarded act of it was acknowledged.
    """
    proofs = ("renew", "act") if fenced else ("renew",)
    held = [o for o in terms.in_terms if o.type is Outcome.OK and o.f in proofs]
    for confirmation in terms.confirmations:
        token, seen = token_of(confirmation), next(iter(confirmation.result), None)
        grant = terms.granted.get(token)
        if grant is None or (seen is not None and seen >= token):
            continue
        proof = None
        if seen is None:
            end_ns = confirmation.completed_ns or 0
            proof = next((o for o in held if token_of(o) == token and o.invoked_ns > end_ns), None)
            if proof is None:
                continue
        shown = "nobody" if seen is None else f"the leader of term {seen}"
        steps = [
            f"Process {grant.process} on {grant.node} was granted term {token} by {seconds(grant.completed_ns or 0)}.",
            f"It asked {confirmation.node} at {seconds(confirmation.invoked_ns)} who leads, and was shown {shown}.",
        ]
        if proof is not None:
            steps.append(f"The term still held: its {proof.f} of {seconds(proof.invoked_ns)} was acknowledged.")
        operations = (grant, confirmation, *(() if proof is None else (proof,)))
        yield UNSURE.finding(*operations, steps=steps)


def won_unknown(terms: Terms) -> list[Operation]:
    """List the first observation of each term that nobody was granted."""
    known, won = set(terms.granted), []
    for observation in sorted(terms.observations, key=lambda o: o.completed_ns or 0):
        if observation.result is not None and observation.result not in known:
            known.add(observation.result)
            won.append(observation)
    return won


def settled(terms: Terms, won: list[Operation]) -> list[Judged]:
    """Judge the campaigns without a known outcome: whoever asks who leads must then know whether one of them has won.

    KIP-30 has this as `getLeader` after a `nominate` that timed out. A current read that shows another leader says "not
    you". That settles the campaign only if it cannot win later, for example when a server that stood still comes to it.
    Terms grow: if every campaign that can have won a shown term had ended before a current read showed an earlier one,
    it was won after that read.
    """
    unknown = [o for o in terms.unanswered if o.type is Outcome.INFO]
    findings = [finding for shown in won if (finding := _judged(terms, shown, unknown)) is not None]
    followed = [o for o in unknown if _reads_after(terms, o)]
    return sorted_out(findings, {WON_LATE: rows(followed), UNEXPLAINED: len(won)})


def _reads_after(terms: Terms, campaign: Operation) -> list[Operation]:
    """The current reads that were asked for after the campaign was given up."""
    end_ns = campaign.ended_ns
    return [] if end_ns is None else [o for o in terms.observations if o.invoked_ns > end_ns]


def _judged(terms: Terms, shown: Operation, unknown: list[Operation]) -> Finding | None:
    """The violation that this leader shows, if it shows one."""
    sent = [o for o in unknown if o.invoked_ns < (shown.completed_ns or 0)]
    steps = [
        f"{shown.node} answered process {shown.process} at {seconds(shown.completed_ns or 0)} that the leader of term "
        f"{shown.result} leads, a term that nobody was told of."
    ]
    if not sent:
        steps.append("No campaign without a known outcome had been sent by then.")
        return UNEXPLAINED.finding(shown, steps=steps)
    reads = [_earlier_leader(terms, o, shown) for o in sent]
    if not all(reads):
        return None
    campaign, read = next((o, r) for o, r in zip(sent, reads, strict=True) if r is not None)
    steps = [
        f"Process {campaign.process} asked {campaign.node} at {seconds(campaign.invoked_ns)} to lead, and gave up at "
        f"{seconds(campaign.ended_ns or 0)} without an answer.",
        f"A current read of {seconds(read.invoked_ns)} showed that the leader of the earlier term {read.result} leads.",
        *steps,
        "So a campaign that had been given up won after that read.",
    ]
    return WON_LATE.finding(campaign, read, shown, steps=steps)


def _earlier_leader(terms: Terms, campaign: Operation, shown: Operation) -> Operation | None:
    """A current read, asked for after the campaign was given up, that showed an earlier term than `shown` did."""
    reads = _reads_after(terms, campaign)
    return next((o for o in reads if o.result is not None and o.result < shown.result), None)


def led_again(history: History, terms: Terms, within_ns: int) -> Judged:
    """Judge for each fault that was healed during the load whether somebody led before `within_ns` had passed.

    That is, somebody was granted a term, or renewed or used one. A leader's lock that never ends keeps everybody else
    from leading. No system promises a time, so this is measured.
    """
    signs = [o for o in (*terms.campaigns, *terms.in_terms) if o.type is Outcome.OK and o.f != "resign"]
    tested, findings = [], []
    for fault, from_ns, to_ns in _rests(history):
        first = min((o for o in signs if from_ns <= o.invoked_ns < to_ns), key=ended_ns, default=None)
        if first is not None and ended_ns(first) <= from_ns + within_ns:
            tested.append(first)
            continue
        vain = [o for o in terms.unanswered if from_ns <= o.invoked_ns and ended_ns(o) <= from_ns + within_ns]
        if to_ns < from_ns + within_ns or not vain:
            continue
        steps = (
            f"The fault {fault.fault} was over at {seconds(from_ns)}.",
            f"{len(vain)} campaigns of the following {duration(within_ns)} did not win, and nobody used a term.",
        )
        tested.append(vain[0])
        findings.append(NO_LEADER.finding(vain[0], vain[-1], steps=steps))
    return NO_LEADER.tally(findings, rows(tested))


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
