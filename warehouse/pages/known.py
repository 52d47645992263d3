"""Known issues against findings: what an issue covers, when it has expired, and when it may be removed."""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fencepost.harness.findings.finding import RecurringFinding, id_of, standings_of
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.harness.findings.state import FindingState

Row = Mapping[str, Any]


class IssueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A known issue and what became of it; `finding` is the id of its finding, empty where no run showed it."""

    issue: TrackedIssue
    finding: str
    is_expired: bool
    may_be_removed: bool
    text: str


def covering(
    finding: RecurringFinding,
    sightings: Iterable[Row],
    issues: Sequence[TrackedIssue],
    lately: Collection[str],
    today: datetime.date,
) -> tuple[TrackedIssue, ...]:
    """The issues in force that cover a finding in every release where it was seen lately; empty: some release is bare.

    Args:
        sightings: rows of the step `finding_sightings`.
        lately: the nights that count; the last night that showed it counts always.
    """
    nights = {*lately, finding.last_seen}
    versions = {
        row["version"]
        for row in sightings
        if row["fingerprint"] == finding.fingerprint and row["night"] in nights and row["seen"]
    }
    own = [[issue for issue in issues if issue.covers(finding.fingerprint, version, today)] for version in versions]
    if not all(own):
        return ()
    return tuple(dict.fromkeys(issue for some in own for issue in some))


def status_of(
    issue: TrackedIssue, sightings: Iterable[Row], nights: Sequence[str], today: datetime.date
) -> IssueStatus:
    """What became of an issue after these nights, oldest first: in force, expired, or no longer needed."""
    order = {night: number for number, night in enumerate(nights)}
    in_scope = [
        row
        for row in sightings
        if issue.is_about(row["fingerprint"])
        and row["night"] in order
        and (not issue.versions or row["version"] in issue.versions)
    ]
    every = [
        (name, own)
        for name in sorted({row["fingerprint"] for row in in_scope})
        for own in standings_of((row for row in in_scope if row["fingerprint"] == name), order).values()
    ]
    expired = issue.is_expired(today)
    removable, text = False, "no run here showed it"
    shown, state = max(every, key=lambda each: each[1].chance_unseen) if every else ("", None)
    if state is not None:
        # Every release that showed it must have been silent for long enough.
        removable = all(own.state is FindingState.GONE for _, own in every)
        text = (
            f"not seen in the last {state.clean_runs} runs that could have shown it"
            if state.clean_runs
            else "seen lately"
        )
    if removable and state is not None:
        text = f"may be removed: {text}, more than its rate demands ({state.rate.seen} of {state.rate.runs})"
    if expired:
        text = f"expired on {issue.expires}: renew it or remove it; {text}"
    return IssueStatus(
        issue=issue, finding=id_of(shown) if shown else "", is_expired=expired, may_be_removed=removable, text=text
    )
