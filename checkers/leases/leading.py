"""Who took itself for the leader when a live lease was revoked, and what servers' logs say of who revoked it.

A superseded leader's revoke may be committed by its successor, so nothing in the store tells whose it was. What does:
that a node claimed a superseded epoch until shortly before, and its own log, where it names the lease that it asked to
revoke and got no answer.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from checkers.leadership.circumstances import duration
from checkers.leadership.samples import Reign, Reigns
from checkers.leases.findings import Finding
from checkers.register_anomalies import seconds
from harness.history import History
from harness.operation import AttemptEvent

#: A claim this long before the key vanished still tells who may have asked for it: a queue drains after a stall.
_SHORTLY_NS: Final = 5_000_000_000
#: For this long a member may wait until it says that its revoke was not answered, after it was carried out.
_SAID_LATER_NS: Final = 15_000_000_000


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """A leader of a superseded epoch at the time; `attempts` are its log's lines about this lease."""

    reign: Reign
    attempts: tuple[AttemptEvent, ...]
    steps: tuple[str, ...]
    events: tuple[int, ...]


def superseded_leader(finding: Finding, history: History, reigns: Reigns) -> Superseded | None:
    """The one that a finding may be the work of, the one that its log names first; None where nobody claimed."""
    named = [
        e
        for e in history.events
        if type(e) is AttemptEvent
        and e.key == finding.lease.handle
        and finding.lease.grant.asked_ns <= e.time_ns <= finding.to_ns + _SAID_LATER_NS
    ]
    found = [
        Superseded(reign=reign, attempts=own, steps=_steps(reign, own, finding), events=_events(reign, own))
        for reign in reigns.reigns
        for own in [tuple(e for e in named if e.node == reign.node)]
        if _may_have(reign, finding, own)
    ]
    return max(found, key=lambda s: (bool(s.attempts), s.reign.last_ns), default=None)


def _may_have(reign: Reign, finding: Finding, attempts: Sequence[AttemptEvent]) -> bool:
    """Whether it certainly claimed after it was superseded, in the lease's life, and said or may have said to end it.

    Without a word of its log only where it claimed until shortly before the key vanished at the earliest.
    """
    begin = reign.superseded
    if begin is None or not reign.claimed or begin.at_ns > finding.to_ns:
        return False
    since_ns = finding.lease.grant.asked_ns if attempts else finding.from_ns - _SHORTLY_NS
    return reign.last_ns >= since_ns


def _steps(reign: Reign, attempts: Sequence[AttemptEvent], finding: Finding) -> tuple[str, ...]:
    begin = reign.superseded
    assert begin is not None
    last = max((s for s in reign.claimed if s.lo_ns <= finding.to_ns), key=lambda s: s.lo_ns, default=reign.claimed[0])
    steps = [
        f"{reign.node} led epoch {reign.epoch}. Epoch {begin.epoch} had begun by {seconds(begin.at_ns)}: {begin.how}; "
        f"{reign.node} still said {duration(last.lo_ns - begin.at_ns)} after that that it leads."
    ]
    if not attempts:
        steps.append(f"Who asked for the end of the lease is not known; {reign.node} may have.")
        return tuple(steps)
    first = attempts[0]
    steps += [
        f"{reign.node}'s own log says that it asked for the end of this lease as its leader, and got no answer "
        f"({first.error}; read at {seconds(first.time_ns)}).",
        "A leader that had been superseded acted: the live lease was revoked.",
    ]
    return tuple(steps)


def _events(reign: Reign, attempts: Sequence[AttemptEvent]) -> tuple[int, ...]:
    begin = reign.superseded
    assert begin is not None
    return (begin.event, reign.claimed[-1].index, *(e.index for e in attempts[:1]))
