"""Group membership: each id has one member, who stays while it renews and goes when it does not, and all learn of it.

Nine guarantees, each with its own verdict. A membership is a lease with an id: how long it certainly lives, and when it
is certainly over, is counted as for leases, by the clocks of the nodes. Where the system states no bound, the verdict
about members that outlive it is `unknown`.

Sources: KIP-30, Group Membership (what `join`, `leave`, `membershipList`, `membership` and listeners mean); Gray &
Cheriton, "Leases" (1989); Chockler, Keidar & Vitenberg, "Group Communication Specifications" (2001), for accuracy and
completeness of a membership.
"""

from collections.abc import Sequence

from fencepost.checkers.derived.evidence import row, rows
from fencepost.checkers.derived.reigns import first_subject, reigns_of
from fencepost.checkers.leases import findings as of_leases
from fencepost.checkers.leases.exposure import looks_after_an_end, looks_after_the_bound, looks_at_the_living
from fencepost.checkers.leases.lives import Lives
from fencepost.checkers.membership.findings import (
    BACK,
    DUPLICATE,
    EVICTED,
    GHOST,
    STALE_LEAVE,
    STUCK,
    TORN,
    UNAWARE,
    UNSEEN,
    WENT_BACK,
    JudgedMember,
    duplicate,
    first_due,
    joins_over_the_living,
    last_calls,
    late_leaves,
    renamed,
    stale,
    successions,
    torn,
    unaware,
    unseen,
    went_back,
)
from fencepost.checkers.membership.view import Listing, listings_of, memberships_of
from fencepost.checkers.rules import Judged, verdict
from fencepost.checkers.violations.finding import Doubt
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Cause, Facts, LeaseBound, Verdict
from fencepost.harness.verdict.figures import Figures, tallies


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every acknowledged membership of a group.

    Args:
        history: joins, renewals, leaves, lists and what listeners were called with.
        facts: `leases` has the longest time in nanoseconds that a membership may outlive its time to live.

    Returns:
        Nine verdicts, one for each guarantee; the first one carries the figures.

    Raises:
        MalformedHistory: a list's result has another form, or two joins have one number; names the event.

    Cost: O(n log n) in operations and in members that lists showed, and joins times memberships of an id.
    """
    subject = first_subject(history, facts)
    bound = facts.leases if facts.leases is not None else LeaseBound(extra_ns=1 << 60, source="nothing bounds it")
    lives = Lives(history, facts, reigns_of(history, subject), bound)
    listings = listings_of(history)
    looks = [listing.look for listing in listings]
    owns = [
        JudgedMember(membership=m, judged=of_leases.judge(m.lease, lives, looks))
        for m in memberships_of(history, listings)
    ]
    unbounded = Doubt(Cause.NOT_APPLICABLE, f"{facts.system} does not say when a membership is over")
    shown = [listing.op for listing in listings if listing.ids]
    stuck, listened = last_calls(history, listings)
    pairs = successions(owns)
    unwarned = [finding for before, after in pairs if (finding := unaware(before, after)) is not None]
    return [
        verdict(facts, _duplicates(history, owns), figures=_figures(history)),
        *(
            verdict(facts, each, doubt=unbounded if facts.leases is None and each.rule is GHOST else None)
            for each in _lived(owns, listings, lives)
        ),
        verdict(facts, TORN.tally(torn(history, listings), rows(shown))),
        verdict(facts, *_order(owns, listings)),
        verdict(facts, STUCK.tally(stuck, rows(listened))),
        verdict(facts, UNAWARE.tally(unwarned, rows(after.membership.join for _, after in pairs))),
    ]


def _duplicates(history: History, owns: Sequence[JudgedMember]) -> Judged:
    tried = joins_over_the_living(history, owns)
    findings = [duplicate(join, own) for join, own in tried if join.type is Outcome.OK]
    return DUPLICATE.tally(findings, rows(join for join, _ in tried))


def _lived(owns: Sequence[JudgedMember], listings: Sequence[Listing], lives: Lives) -> list[Judged]:
    """Judge what follows from how long each membership certainly lives."""
    evicted, stolen, ghosts = [], [], []
    for own in owns:
        for finding in own.judged.findings:
            if finding.anomaly == of_leases.OUTLIVED:
                ghosts.append(renamed(finding, own, GHOST))
            elif finding.anomaly == of_leases.REVOKED:
                leave = stale(finding, own, owns)
                if leave is not None:
                    stolen.append(renamed(finding, own, STALE_LEAVE, (leave,)))
                else:
                    evicted.append(renamed(finding, own, EVICTED))
    current = [listing.look for listing in listings if listing.look.current]
    judged = [own.judged for own in owns]
    listed = [(own, look) for own in owns if (look := first_due(own, current)) is not None]
    missing = [unseen(own, look) for own, look in listed if own.membership.number not in look.numbers]
    return [
        UNSEEN.tally(missing, rows(own.membership.join for own, _ in listed)),
        STALE_LEAVE.tally(stolen, rows(leave for leave, _ in late_leaves(owns))),
        EVICTED.tally(evicted, looks_at_the_living(judged, current)),
        GHOST.tally(ghosts, looks_after_the_bound(judged, lives, current)),
    ]


def _order(owns: Sequence[JudgedMember], listings: Sequence[Listing]) -> tuple[Judged, Judged]:
    findings, later = went_back(listings)
    back = [renamed(f, own, BACK) for own in owns for f in own.judged.findings if f.anomaly == of_leases.BACK]
    current = [listing.look for listing in listings if listing.look.current]
    after = looks_after_an_end([own.judged for own in owns], current)
    return WENT_BACK.tally(findings, rows(later)), BACK.tally(back, len(after))


def _figures(history: History) -> Figures:
    requests = (op for op in history.operations if op.f in ("join", "renew", "leave"))
    return tallies((f"{op.f}_{op.type.value}", row(op)) for op in requests)
