"""Who took itself for the leader when a live lease was revoked, and what servers' logs say of who revoked it.

A superseded leader's revoke may be committed by its successor, so nothing in the store tells whose it was. What does:
that a node claimed a superseded epoch until shortly before, or was stopped as the leader of one and had just woken; and
its own log, where it names leases that it asked to end and could not. A revoke that is carried out leaves no line.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.facts.fault_index import Landmarks
from fencepost.checkers.facts.reigns import Begin, Reign, Reigns
from fencepost.checkers.findings.words import duration, seconds
from fencepost.checkers.leases.findings import LeaseFinding
from fencepost.harness.history import AttemptEvent, History

#: So long after it led, what a leader had queued may still go out: etcd has 16 revokes under way at a time, which wait
#: for 5 s and two election time-outs each, and whoever has become a follower meanwhile hands the next ones on.
_SHORTLY_NS: Final = 10_000_000_000
#: For this long a member may wait until it says that its revoke was not answered, after it was carried out.
_SAID_LATER_NS: Final = 15_000_000_000
#: Other leases that it tried to end so near to this one are of the same queue.
_BESIDE_NS: Final = 2_000_000_000
#: It asked whether it leads, and learned that it does not.
_FENCED: Final = "not-leader"
#: Not that it acted: that is judged by answers and by effects that carry an epoch, and a revoke carries none.
ASKED: Final = (
    "A leader that had been superseded asked for it, and the live lease was revoked; whose request was carried out is "
    "recorded nowhere."
)


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """A leader of a superseded epoch at the time; `attempts` are its log's lines about this lease."""

    reign: Reign
    attempts: tuple[AttemptEvent, ...]
    steps: tuple[str, ...]
    events: tuple[int, ...]


def superseded_leader(finding: LeaseFinding, history: History, reigns: Reigns) -> Superseded | None:
    """The one that a finding may be the work of, the one that its log names first; None where there was none."""
    found = [one for reign in reigns.reigns if (one := _told(reign, finding, history, reigns)) is not None]
    return max(found, key=lambda s: (bool(s.attempts), s.reign.last_ns), default=None)


def _told(reign: Reign, finding: LeaseFinding, history: History, reigns: Reigns) -> Superseded | None:
    begin = reign.superseded
    if begin is None or begin.at_ns > finding.by_ns:
        return None
    lines = [
        e for e in history.events if type(e) is AttemptEvent and e.node == reign.node and e.error != _FENCED and e.key
    ]
    own = tuple(e for e in lines if e.key == finding.lease.handle and _in_its_time(e, finding))
    beside = [e for e in lines if e.key != finding.lease.handle and abs(e.time_ns - finding.by_ns) <= _BESIDE_NS]
    how = _claimed(reign, begin, finding, named=bool(own)) or _woke(reign, begin, finding, history, reigns)
    if how is None:
        return None
    said, events = how
    steps = (f"{reign.node} led epoch {reign.epoch}. Epoch {begin.epoch} had begun by {seconds(begin.at_ns)}: {said}",)
    return Superseded(
        reign=reign,
        attempts=own,
        steps=(*steps, *_log_words(reign.node, own, beside)),
        events=(begin.event, *events, *(e.index for e in (own or beside)[:1])),
    )


def _in_its_time(event: AttemptEvent, finding: LeaseFinding) -> bool:
    return finding.lease.grant.asked_ns <= event.time_ns <= finding.by_ns + _SAID_LATER_NS


def _claimed(reign: Reign, begin: Begin, finding: LeaseFinding, *, named: bool) -> tuple[str, Rows] | None:
    """It certainly claimed after it was superseded, in the lease's life.

    Where its log does not name the lease, only if it claimed until shortly before the key vanished at the earliest.
    """
    since_ns = finding.lease.grant.asked_ns if named else finding.since_ns - _SHORTLY_NS
    if not reign.claimed or reign.last_ns < since_ns:
        return None
    last = max((s for s in reign.claimed if s.lo_ns <= finding.by_ns), key=lambda s: s.lo_ns, default=reign.claimed[0])
    said = f"{begin.how}; {reign.node} still said {duration(last.lo_ns - begin.at_ns)} after that that it leads."
    return said, (last.index,)


def _woke(
    reign: Reign, begin: Begin, finding: LeaseFinding, history: History, reigns: Reigns
) -> tuple[str, Rows] | None:
    """It was stopped while it led, superseded meanwhile, and woke shortly before."""
    for start_ns, end_ns in reigns.stopped.get(reign.node, []):
        led = reign.first_ns <= start_ns and start_ns < begin.at_ns <= end_ns
        over = reign.over_ns is not None and reign.over_ns <= start_ns
        if led and not over and finding.since_ns - _SHORTLY_NS <= end_ns <= finding.by_ns:
            said = (
                f"{begin.how}. {reign.node} had been stopped at {seconds(start_ns)}, as its leader, and ran again from "
                f"{seconds(end_ns)} on: {duration(finding.by_ns - end_ns)} later the key was seen to be gone."
            )
            marks = Landmarks(history)
            return said, (reign.samples[-1].index, *marks.at(start_ns), *marks.at(end_ns))
    return None


def _log_words(node: str, own: Sequence[AttemptEvent], beside: Sequence[AttemptEvent]) -> tuple[str, ...]:
    if own:
        first = own[0]
        return (
            f"{node}'s own log says that it asked for the end of this lease as its leader, and got no answer "
            f"({first.error}; read at {seconds(first.time_ns)}).",
            ASKED,
        )
    if beside:
        return (
            f"{node}'s own log says that it asked for the end of {len({e.key for e in beside})} other leases as their "
            f"leader, at the same time ({beside[0].error}; read at {seconds(beside[0].time_ns)}). A revoke that is "
            "carried out leaves no line.",
            ASKED,
        )
    return (f"Who asked for the end of the lease is not known; {node} may have.",)
