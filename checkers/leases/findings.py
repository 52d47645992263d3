"""What was wrong with a lease: judged by the looks at its key and by the answers to its keep-alives.

The key vanished at one instant d. d is not before the invocation of the last current look that showed the key, and not
after the answer to the first look without it. An answered keep-alive was served before d or after d. If before, the
lease had to live for its time to live from then on. If after, a dead lease was kept alive. So there are two cases:

- Every possible d lies where the lease was certainly alive: the lease was revoked while it lived. If only keep-alives
  that a superseded leader may have answered show that, these keep-alives were in vain.
- Otherwise take the latest d at which the lease may have ended by right. Every keep-alive that was answered after it,
  and whose time to live covers it, kept a dead lease alive.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Intervals, row
from fencepost.checkers.leases.lives import Lives
from fencepost.checkers.leases.view import GrantedLease, LookAtKeys, Renewal
from fencepost.checkers.violations.finding import Finding, duration, seconds, shown
from fencepost.harness.history import Operation

REVOKED: Final = "live-lease-revoked"
IN_VAIN: Final = "keep-alive-in-vain"
OUTLIVED: Final = "expired-lease-lives"
BACK: Final = "ended-lease-came-back"
DEAD: Final = "keep-alive-of-the-dead"


class LeaseFinding(Finding, frozen=True, kw_only=True):
    """A violation about one lease, which happened between `since_ns` and `by_ns`."""

    lease: GrantedLease
    since_ns: int
    by_ns: int


class JudgedLease(msgspec.Struct, frozen=True, kw_only=True):
    """One lease with its violations.

    `alive` are the times at which it certainly lived by keep-alives that no superseded leader can have answered;
    `in_doubt` are the other renewals.
    """

    lease: GrantedLease
    alive: Intervals
    in_doubt: tuple[Renewal, ...]
    findings: tuple[LeaseFinding, ...]


def judge(lease: GrantedLease, lives: Lives, looks: Sequence[LookAtKeys]) -> JudgedLease:
    """Find the violations about one lease: at most one of each anomaly, but for keep-alives of the dead."""
    doubtful = tuple(r for r in lease.renewals if lives.superseded_by(r) is not None)
    heard = lives.certain(lease, [r for r in lease.renewals if lives.superseded_by(r) is None])
    answered = lives.certain(lease, lease.renewals)
    findings: list[LeaseFinding] = []
    end, gone = end_of(lease), lease.gone
    if gone is not None and (early := _vanished(lease, gone, lives, heard, answered)) is not None:
        findings.append(early)
    elif end is not None:
        ended_at_ns = _latest_lawful(answered, end.completed_ns or end.invoked_ns)
        findings += _of_the_dead(lease, lives, end, ended_at_ns)
    findings += _came_back(lease)
    findings += _lives_on(lease, lives)
    return JudgedLease(lease=lease, alive=heard, in_doubt=doubtful, findings=tuple(findings))


def vanished_since_ns(lease: GrantedLease, gone: LookAtKeys) -> int:
    """Return the latest time by which the key certainly had not vanished: it was there, or had yet to come."""
    seen_ns = [look.invoked_ns for look in lease.seen if look.invoked_ns < gone.completed_ns]
    attached_ns = lease.grant.asked_ns if lease.attach is None else lease.attach.invoked_ns
    return max([attached_ns, *seen_ns])


def end_of(lease: GrantedLease) -> Operation | None:
    """Return the first operation whose answer proves its end: a look without its key, or an acknowledged revoke."""
    known = [o for o in (lease.revoked, None if lease.gone is None else lease.gone.op) if o is not None]
    return min(known, key=row, default=None)


def asked_after(op: Operation, end: Operation | None) -> bool:
    """Whether `op` was invoked after the answer to `end`, by the order of the rows."""
    return end is not None and op.invoke_index > row(end)


def _vanished(
    lease: GrantedLease, gone: LookAtKeys, lives: Lives, heard: Intervals, answered: Intervals
) -> LeaseFinding | None:
    """Return the violation if the key vanished while the lease was certainly alive."""
    since_ns, by_ns = vanished_since_ns(lease, gone), gone.completed_ns
    if _covers(heard, since_ns, by_ns):
        return _revoked(REVOKED, lease, gone, lives, since_ns)
    if _covers(answered, since_ns, by_ns):
        return _revoked(IN_VAIN, lease, gone, lives, since_ns)
    return None


def _covers(intervals: Intervals, from_ns: int, to_ns: int) -> bool:
    return any(start <= from_ns and to_ns < end for start, end in intervals)


def _latest_lawful(answered: Intervals, by_ns: int) -> int:
    """Return the latest time up to `by_ns` at which the lease may have ended by right."""
    return next((start - 1 for start, end in answered if start <= by_ns < end), by_ns)


def _of_the_dead(lease: GrantedLease, lives: Lives, end: Operation, ended_at_ns: int) -> list[LeaseFinding]:
    """Find the keep-alives that were answered although the lease had ended by `ended_at_ns`."""
    findings = []
    asked_to_end = lease.revoke_asked_ns is not None and lease.revoke_asked_ns <= ended_at_ns
    for renewal in lease.renewals[1:]:
        overlaps = renewal.answered_ns > ended_at_ns and lives.until_ns(renewal) > ended_at_ns and not asked_to_end
        if not (asked_after(renewal.op, end) or renewal.asked_ns > ended_at_ns or overlaps):
            continue
        steps = (
            f"{_granted(lease)}.",
            _ended_words(end),
            f"Process {renewal.op.process} asked {renewal.op.node} at {seconds(renewal.asked_ns)} to keep it alive, "
            f"and was answered at {seconds(renewal.answered_ns)} that it lives for {duration(renewal.ttl_ns)} more.",
            f"It cannot have lived later than {seconds(ended_at_ns)}: the dead was kept alive.",
        )
        findings.append(
            LeaseFinding(
                anomaly=DEAD,
                lease=lease,
                operations=(lease.grant.op, end, renewal.op),
                steps=steps,
                since_ns=min(ended_at_ns, renewal.asked_ns),
                by_ns=renewal.answered_ns,
            )
        )
    return findings


def _revoked(anomaly: str, lease: GrantedLease, gone: LookAtKeys, lives: Lives, since_ns: int) -> LeaseFinding:
    before = [r for r in lease.renewals if r.answered_ns <= gone.completed_ns]
    if anomaly == REVOKED:
        before = [r for r in before if lives.superseded_by(r) is None]
    renewal = max(before, key=lives.until_ns)
    until_ns = lives.until_ns(renewal)
    earlier = [look for look in lease.seen if look.invoked_ns < gone.completed_ns]
    seen = max(earlier, key=lambda look: look.invoked_ns, default=None)
    steps = [
        f"{_granted(lease)}.",
        f"Process {renewal.op.process} asked {renewal.op.node} to keep it alive at {seconds(renewal.asked_ns)}, and "
        f"was answered {duration(renewal.answered_ns - renewal.asked_ns)} later, with {duration(renewal.ttl_ns)} to "
        f"live: so it lives until {seconds(until_ns)} at least."
        if renewal is not lease.grant
        else f"Nobody kept it alive: so it lives until {seconds(until_ns)} at least.",
    ]
    if seen is not None:
        steps.append(
            f"{seen.op.node} showed its key to a look that was asked for at {seconds(seen.invoked_ns)}{_at(seen.op)}."
        )
    steps.append(
        f"{gone.op.node} answered a look without its key at {seconds(gone.completed_ns)}{_at(gone.op)}, "
        f"{duration(until_ns - gone.completed_ns)} before the lease could end, and nobody had asked to revoke it."
    )
    since_at = None if seen is None else seen.op.position
    if since_at is not None and gone.op.position is not None and since_at < gone.op.position:
        steps.append(
            f"So its end took effect between {seconds(since_ns)} and {seconds(gone.completed_ns)}, at a position after "
            f"{shown(since_at)} and not after {shown(gone.op.position)}."
        )
    if anomaly == IN_VAIN:
        steps.append(_in_vain_words(lives, renewal))
    attach = () if lease.attach is None else (lease.attach,)
    last_seen = () if seen is None else (seen.op,)
    return LeaseFinding(
        anomaly=anomaly,
        lease=lease,
        operations=(lease.grant.op, *attach, renewal.op, *last_seen, gone.op),
        steps=tuple(steps),
        since_ns=since_ns,
        by_ns=gone.completed_ns,
    )


def _in_vain_words(lives: Lives, renewal: Renewal) -> str:
    begin = lives.superseded_by(renewal)
    if begin is None:
        return "Other keep-alives of its life were answered by a leader that may have been superseded."
    return (
        f"Epoch {begin.epoch} had begun by {seconds(begin.at_ns)}: {begin.how}. Whoever answered the keep-alive did "
        "not know, and whoever leads did not hear of it."
    )


def _came_back(lease: GrantedLease) -> list[LeaseFinding]:
    """Find the first current look that shows the key although its lease was known to have ended before."""
    end = end_of(lease)
    back = next((look for look in lease.seen if asked_after(look.op, end)), None)
    if end is None or back is None:
        return []
    steps = (
        f"{_granted(lease)}.",
        _ended_words(end),
        f"{back.op.node} showed its key to a look that was asked for later, at {seconds(back.invoked_ns)}"
        f"{_at(back.op)}.",
    )
    return [
        LeaseFinding(
            anomaly=BACK,
            lease=lease,
            operations=(lease.grant.op, end, back.op),
            steps=steps,
            since_ns=end.completed_ns or end.invoked_ns,
            by_ns=back.completed_ns,
        )
    ]


def _lives_on(lease: GrantedLease, lives: Lives) -> list[LeaseFinding]:
    late = next((look for look in lease.seen if lives.certainly_over(lease, look)), None)
    over = None if late is None else lives.over_ns(lease, late.invoked_ns)
    if late is None or over is None:
        return []
    since_ns, length_ns = over
    last = max(lease.may_renew, key=lambda o: o.completed_ns or 0)
    steps = (
        f"{_granted(lease)}.",
        f"Nobody renewed it after {seconds(last.completed_ns or 0)}, and nothing disturbed the cluster after "
        f"{seconds(since_ns)}.",
        f"{late.op.node} showed its key to a look that was asked for at {seconds(late.invoked_ns)}, "
        f"{duration(late.invoked_ns - since_ns)} later: {duration(length_ns)} are the bound ({lives.bound.source}).",
    )
    return [
        LeaseFinding(
            anomaly=OUTLIVED,
            lease=lease,
            operations=(lease.grant.op, last, late.op),
            steps=steps,
            since_ns=since_ns,
            by_ns=late.completed_ns,
        )
    ]


def _ended_words(end: Operation) -> str:
    at = seconds(end.completed_ns or end.invoked_ns)
    if end.f == "revoke":
        return f"{end.node} acknowledged at {at} that it was revoked{_at(end)}."
    return f"{end.node} answered a look without its key at {at}{_at(end)}."


def _granted(lease: GrantedLease) -> str:
    op = lease.grant.op
    return (
        f"{op.node} granted lease {lease.number} ({lease.handle.partition('.')[0]}) for "
        f"{duration(lease.grant.ttl_ns)} at {seconds(lease.grant.answered_ns)}"
    )


def _at(op: Operation) -> str:
    return "" if op.position is None else f" (position {shown(op.position)})"
