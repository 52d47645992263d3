"""Which superseded leader may have revoked a live lease, by its claims, its stops and its own log.

The successor may commit a superseded leader's revoke, so nothing in the store says who asked for it. Two observations
point to a node: it claimed a superseded epoch until shortly before, or it was stopped while it led such an epoch and
had just woken. Its own log adds to that if it names leases that the node asked to end without success. A revoke that
is carried out leaves no line.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.claims import Landmarks
from fencepost.checkers.derived.reigns import EpochBegin, Reign, Reigns
from fencepost.checkers.leases.findings import LeaseFinding
from fencepost.checkers.violations.finding import duration, seconds
from fencepost.harness.history import AttemptEvent, History
from fencepost.harness.verdict.figures import Rows

#: What a leader had queued may still go out this long after it led: etcd has 16 revokes under way at a time, each waits
#: for 5 s and two election time-outs, and a node that has become a follower hands the next ones on.
_SHORTLY_NS: Final = 10_000_000_000
#: A member may log this late that its revoke was not answered, although the revoke was carried out.
_SAID_LATER_NS: Final = 15_000_000_000
#: Leases that the node tried to end within this time of each other were in the same queue.
_BESIDE_NS: Final = 2_000_000_000
#: The node asked whether it leads, and learned that it does not.
_FENCED: Final = "not-leader"
#: This does not say that the node acted: answers and effects with an epoch decide that, and a revoke carries none.
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
    """Return the superseded leader that may have caused a finding; None if there was none.

    Of several, a leader whose own log names the lease comes first, then the one that led last.
    """
    candidates = [one for reign in reigns.reigns if (one := _involvement(reign, finding, history, reigns)) is not None]
    return max(candidates, key=lambda s: (bool(s.attempts), s.reign.last_ns), default=None)


def _involvement(reign: Reign, finding: LeaseFinding, history: History, reigns: Reigns) -> Superseded | None:
    begin = reign.superseded
    if begin is None or begin.at_ns > finding.by_ns:
        return None
    lines = [e for e in history.of(AttemptEvent) if e.node == reign.node and e.error != _FENCED and e.key]
    own = tuple(e for e in lines if e.key == finding.lease.handle and _in_its_time(e, finding))
    beside = [e for e in lines if e.key != finding.lease.handle and abs(e.time_ns - finding.by_ns) <= _BESIDE_NS]
    how = _claimed(reign, begin, finding, named=bool(own)) or _woke(reign, begin, finding, history, reigns)
    if how is None:
        return None
    sentence, events = how
    steps = (
        f"{reign.node} led epoch {reign.epoch}. Epoch {begin.epoch} had begun by {seconds(begin.at_ns)}: {sentence}",
    )
    return Superseded(
        reign=reign,
        attempts=own,
        steps=(*steps, *_log_words(reign.node, own, beside)),
        events=(begin.event, *events, *(e.index for e in (own or beside)[:1])),
    )


def _in_its_time(event: AttemptEvent, finding: LeaseFinding) -> bool:
    return finding.lease.grant.asked_ns <= event.time_ns <= finding.by_ns + _SAID_LATER_NS


def _claimed(reign: Reign, begin: EpochBegin, finding: LeaseFinding, *, named: bool) -> tuple[str, Rows] | None:
    """Say how it claimed to lead after it was superseded, during the life of the lease; None if it did not.

    If its log does not name the lease, its last claim must come shortly before the key can have vanished.
    """
    since_ns = finding.lease.grant.asked_ns if named else finding.since_ns - _SHORTLY_NS
    if not reign.claimed or reign.last_ns < since_ns:
        return None
    last = max((s for s in reign.claimed if s.lo_ns <= finding.by_ns), key=lambda s: s.lo_ns, default=reign.claimed[0])
    sentence = f"{begin.how}; {reign.node} still claimed to lead {duration(last.lo_ns - begin.at_ns)} later."
    return sentence, (last.index,)


def _woke(
    reign: Reign, begin: EpochBegin, finding: LeaseFinding, history: History, reigns: Reigns
) -> tuple[str, Rows] | None:
    """Say how it was stopped while it led, superseded meanwhile, and woke shortly before; None if it was not."""
    for start_ns, end_ns in reigns.stopped.get(reign.node, []):
        led = reign.first_ns <= start_ns and start_ns < begin.at_ns <= end_ns
        over = reign.over_ns is not None and reign.over_ns <= start_ns
        if led and not over and finding.since_ns - _SHORTLY_NS <= end_ns <= finding.by_ns:
            sentence = (
                f"{begin.how}. {reign.node} had been stopped at {seconds(start_ns)}, as its leader, and ran again from "
                f"{seconds(end_ns)} on: {duration(finding.by_ns - end_ns)} later the key was seen to be gone."
            )
            marks = Landmarks(history)
            return sentence, (reign.samples[-1].index, *marks.at(start_ns), *marks.at(end_ns))
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
