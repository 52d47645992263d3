"""The guarantees about members of groups (`checkers.membership`), with one text for all systems."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.harness.verdict import Guarantee, KnownIssue, Standing

TEXTS: Final[Mapping[str, str]] = {
    "one-member-per-id": "Of concurrent joins with one id one succeeds while its member lives.",
    "joined-member-listed": "A member whose join was acknowledged is in every current list that is asked for later.",
    "leave-ends-own-membership": "A leave ends the membership of whoever leaves, and no later one with the same id.",
    "renewing-member-stays": "A member that renews within its time to live is not dropped.",
    "silent-member-goes": "While nothing disturbs the cluster, a member that does not renew goes within a bound.",
    "member-data-belongs": "A list pairs each id with the data that its member joined with.",
    "member-lists-in-order": "A client's lists of one mode never show an earlier state than the one before, and no"
    " current list shows a member after its end was seen.",
    "group-listener-converges": "A listener's last call shows the members that stay.",
    "member-told-of-its-end": "A member learns that it was dropped before another one has its id.",
}


class Source(NamedTuple):
    """Who says so, and where, and the issues that are known to break it."""

    standing: Standing
    source: str
    issues: tuple[KnownIssue, ...] = ()


def membership_guarantees(sources: Mapping[str, Source]) -> tuple[Guarantee, ...]:
    """All guarantees about groups with these sources; `member-told-of-its-end` is measured wherever none is given."""
    nobody = Source(Standing.MEASURED, "nobody promises it: a lease ends by the servers' clocks, and they call nobody")
    given = {"member-told-of-its-end": nobody, **sources}
    return tuple(
        Guarantee(
            name=name,
            standing=given[name].standing,
            text=text,
            source=given[name].source,
            issues=given[name].issues,
        )
        for name, text in TEXTS.items()
    )
