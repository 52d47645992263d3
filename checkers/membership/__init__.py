"""Group membership: each id has one member, who stays while it renews and goes when it does not, and all learn of it.

Nine guarantees, each with its own verdict. A membership is a lease with an id: how long it certainly lives, and when it
is certainly over, is counted as for leases, by the clocks of the nodes. Where the system states no bound, the verdict
about members that outlive it is `unknown`.

Sources: KIP-30, Group Membership (what `join`, `leave`, `membershipList`, `membership` and listeners mean); Gray &
Cheriton, "Leases" (1989); Chockler, Keidar & Vitenberg, "Group Communication Specifications" (2001), for accuracy and
completeness of a membership.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.checkers.facts.evidence import Rows, rows
from fencepost.checkers.facts.reigns import first_subject, reigns_of
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, rule
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
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Cause, Facts, LeaseBound, Rule, Verdict

CHECKER: Final = "group-membership"

ONE_PER_ID: Final = "one-member-per-id"
LISTED: Final = "joined-member-listed"
LEAVES_OWN: Final = "leave-ends-own-membership"
STAYS: Final = "renewing-member-stays"
GOES: Final = "silent-member-goes"
DATA: Final = "member-data-belongs"
ORDER: Final = "member-lists-in-order"
LISTENERS: Final = "group-listener-converges"
KNOWS: Final = "member-told-of-its-end"

#: For each guarantee: what its exposure counts, and why it is `unknown` without exposure.
_EXPOSURES: Final = {
    ONE_PER_ID: (
        "joins that were answered while a member with that id was certainly alive",
        "nobody tried to join with an id whose member was certainly alive",
    ),
    LISTED: (
        "joins whose member had to be in the first current list that was asked for after the answer",
        "no current list was asked for soon enough after a join",
    ),
    LEAVES_OWN: (
        "leaves of ended memberships while another member had the id",
        "nobody left late, while another member had the id",
    ),
    STAYS: ("current lists that had to show some member", "no list had to show a member"),
    GOES: (
        "current lists after the bound of a member that did not renew, while nothing disturbed the cluster",
        "no list came after the bound",
    ),
    DATA: ("lists that show a member with its data", "no list shows a member"),
    ORDER: ("lists by processes that had listed members before in this mode", "no process listed twice"),
    LISTENERS: (
        "listeners that listened until well after the last change",
        "no listener listened until well after the last change",
    ),
    KNOWS: (
        "joins with an id whose last member had not left",
        "no id was taken over from a member that had not left",
    ),
}


class _Judged(NamedTuple):
    """What one guarantee came to."""

    findings: Sequence[Finding]
    exposed: Rows
    rules: tuple[Rule, ...]


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
    judged = {
        ONE_PER_ID: _one_per_id(history, owns),
        **_lived(owns, listings, lives),
        DATA: _data(history, listings),
        ORDER: _order(owns, listings),
        LISTENERS: _listeners(history, listings),
        KNOWS: _knows(owns),
    }
    unbounded = Doubt(Cause.NOT_APPLICABLE, f"{facts.system} does not say when a membership is over")
    return [
        Findings(
            checker=CHECKER,
            guarantee=guarantee,
            findings=judged[guarantee].findings,
            doubt=unbounded if facts.leases is None and guarantee == GOES else None,
            exposed=judged[guarantee].exposed,
            exposure_of=exposure_of,
            untested=untested,
            rules=judged[guarantee].rules,
            counted=_counted(history) if guarantee == ONE_PER_ID else {},
        ).verdict(facts)
        for guarantee, (exposure_of, untested) in _EXPOSURES.items()
    ]


def _rules(guarantee: str, chances: int, *anomalies: str) -> tuple[Rule, ...]:
    return tuple(rule(anomaly, chances, _EXPOSURES[guarantee][1]) for anomaly in anomalies)


def _one_per_id(history: History, owns: Sequence[JudgedMember]) -> _Judged:
    tried = joins_over_the_living(history, owns)
    findings = [duplicate(join, own) for join, own in tried if join.type is Outcome.OK]
    return _Judged(findings, rows(join for join, _ in tried), _rules(ONE_PER_ID, len(tried), DUPLICATE))


def _lived(owns: Sequence[JudgedMember], listings: Sequence[Listing], lives: Lives) -> dict[str, _Judged]:
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
    living = looks_at_the_living(judged, current)
    late = rows(leave for leave, _ in late_leaves(owns))
    over = looks_after_the_bound(judged, lives, current)
    return {
        LISTED: _Judged(missing, rows(own.membership.join for own, _ in listed), _rules(LISTED, len(listed), UNSEEN)),
        LEAVES_OWN: _Judged(stolen, late, _rules(LEAVES_OWN, len(late), STALE_LEAVE)),
        STAYS: _Judged(evicted, living, _rules(STAYS, len(living), EVICTED)),
        GOES: _Judged(ghosts, over, _rules(GOES, len(over), GHOST)),
    }


def _data(history: History, listings: Sequence[Listing]) -> _Judged:
    shown = [listing.op for listing in listings if listing.ids]
    return _Judged(torn(history, listings), rows(shown), _rules(DATA, len(shown), TORN))


def _order(owns: Sequence[JudgedMember], listings: Sequence[Listing]) -> _Judged:
    findings, later = went_back(listings)
    back = [renamed(f, own, BACK) for own in owns for f in own.judged.findings if f.anomaly == of_leases.BACK]
    current = [listing.look for listing in listings if listing.look.current]
    after = looks_after_an_end([own.judged for own in owns], current)
    return _Judged(
        [*findings, *back],
        rows(later),
        (*_rules(ORDER, len(later), WENT_BACK), rule(BACK, len(after), "no current list came after an end")),
    )


def _listeners(history: History, listings: Sequence[Listing]) -> _Judged:
    findings, tested = last_calls(history, listings)
    return _Judged(findings, rows(tested), _rules(LISTENERS, len(tested), STUCK))


def _knows(owns: Sequence[JudgedMember]) -> _Judged:
    pairs = successions(owns)
    findings = [finding for before, after in pairs if (finding := unaware(before, after)) is not None]
    return _Judged(findings, rows(after.membership.join for _, after in pairs), _rules(KNOWS, len(pairs), UNAWARE))


def _counted(history: History) -> dict[str, Rows]:
    """Return the rows of the figures that count operations, by their names."""
    by_figure: dict[str, list[int]] = {}
    for op in history.operations:
        if op.f in ("join", "renew", "leave"):
            by_figure.setdefault(f"{op.f}_{op.type.value}", []).extend(rows((op,)))
    return {name: tuple(own) for name, own in by_figure.items()}
