"""Campaigns without a known outcome: whoever asks who leads must then know whether one of them has won.

KIP-30 has this as `getLeader` after a `nominate` that timed out. A current read that shows another leader says "not
you". That settles the campaign only if it cannot win later, for example when a server that stood still comes to it.

  unexplained-leader  a leader is shown whose term nobody was granted, when no campaign had an unknown outcome
  won-after-settled   a leader is shown whose term nobody was granted, and every campaign that can have won it had ended
                      before a current read showed an earlier term. Terms grow, so it was won after that read
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.elections.terms import Terms
from fencepost.checkers.rules import Judged, Rule
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.history import Operation, Outcome

WON_LATE: Final = Rule(
    checker="election",
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


class UnknownCampaigns(msgspec.Struct, frozen=True):
    """What the campaigns without a known outcome came to; `won` are observations of leaders that nobody knew to be."""

    settled: list[Operation]
    won: list[Operation]
    findings: list[Finding]

    @property
    def unexplained(self) -> Judged:
        """How often a leader could have been unexplained; the findings stand with the others."""
        return UNEXPLAINED.tally((), len(self.won))


def unknown_campaigns(terms: Terms, mode: str) -> UnknownCampaigns:
    """Judge them; nothing where observers read a copy, which may be behind."""
    if mode == "plain":
        return UnknownCampaigns([], [], [])
    unknown = [o for o in terms.unanswered if o.type is Outcome.INFO]
    settling = {o.invoke_index: read for o in unknown if (read := _read_after(terms, o)) is not None}
    won = list(_first_shown(terms))
    findings = [finding for shown in won if (finding := _judged(terms, shown, unknown, settling)) is not None]
    return UnknownCampaigns([o for o in unknown if o.invoke_index in settling], won, findings)


def _read_after(terms: Terms, campaign: Operation) -> Operation | None:
    """The first current read that was asked for after the campaign was given up."""
    end_ns = campaign.ended_ns
    if end_ns is None:
        return None
    return next((o for o in terms.observations if o.invoked_ns > end_ns), None)


def _first_shown(terms: Terms) -> Iterator[Operation]:
    """The first observation of each term that nobody was granted."""
    known = set(terms.granted)
    for observation in sorted(terms.observations, key=lambda o: o.completed_ns or 0):
        if observation.result is not None and observation.result not in known:
            known.add(observation.result)
            yield observation


def _judged(terms: Terms, shown: Operation, unknown: list[Operation], settling: dict[int, Operation]) -> Finding | None:
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
    end_ns = campaign.ended_ns
    if end_ns is None:
        return None
    return next(
        (o for o in terms.observations if o.invoked_ns > end_ns and o.result is not None and o.result < shown.result),
        None,
    )
