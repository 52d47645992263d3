"""Who led at a moment, which epoch came next, and how long nobody is known to have led in between."""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.facts.fault_index import Landmarks
from fencepost.checkers.facts.reigns import Begin, Reign, Reigns, Sample
from fencepost.harness.history import Claim

#: A leader that claimed so shortly before a moment led then: it is asked 10 times a second at least.
FRESH_NS: Final = 1_000_000_000


def begin_at(begins: Sequence[Begin], at_ns: int) -> Begin | None:
    """Return the proof of the highest epoch that had certainly begun by `at_ns`."""
    return max((b for b in begins if b.at_ns <= at_ns), key=lambda b: b.epoch, default=None)


def next_begin(begins: Sequence[Begin], epoch: int | None, after_ns: int) -> Begin | None:
    """Return the first proof after `after_ns` of an epoch above `epoch`; None stands below all epochs."""
    later = (b for b in begins if b.at_ns > after_ns and (epoch is None or b.epoch > epoch))
    return min(later, key=lambda b: b.at_ns, default=None)


def leader_at(reigns: Reigns, at_ns: int, but: Sequence[str] = ()) -> Reign | None:
    """Return the leader of the newest epoch known at `at_ns`, if it claimed that shortly before and is not in `but`."""
    begin = begin_at(reigns.begins, at_ns)
    for reign in reigns.reigns:
        if begin is None or reign.epoch != begin.epoch or reign.node in but:
            continue
        if any(at_ns - FRESH_NS <= sample.hi_ns <= at_ns for sample in reign.samples):
            return reign
    return None


def last_claim(reign: Reign, by_ns: int) -> Sample:
    """Return the last claim of `reign` that had been answered by then."""
    return max((s for s in reign.samples if s.hi_ns <= by_ns), key=lambda s: s.hi_ns)


def last_certain(reign: Reign, begin: Begin) -> Sample:
    """Return the claim of `reign` from which on nobody is known to have led until `begin`."""
    return max((s for s in reign.samples if s.hi_ns <= begin.at_ns), key=lambda s: s.lo_ns)


def leaderless_ns(reign: Reign, begin: Begin) -> int:
    """Return the time from the last moment at which `reign` certainly held to the proof of the next epoch."""
    return max(0, begin.at_ns - last_certain(reign, begin).lo_ns)


def over_ns(reign: Reign, begin: Begin, since_ns: int) -> int:
    """Return when `reign` was over: by its own node's word after `since_ns`, or by `begin` if that is earlier."""
    own_ns = reign.over_ns
    return begin.at_ns if own_ns is None or own_ns <= since_ns else min(own_ns, begin.at_ns)


def end_rows(reigns: Reigns, reign: Reign, marks: Landmarks) -> Rows:
    """Return the row by which `reign` was over: a line of its log, the end of its server, or its node's denial."""
    over_ns, resigned = reign.over_ns, reign.resigned
    if over_ns is None:
        return ()
    if resigned is not None and resigned.time_ns == over_ns:
        return (resigned.index,)
    own = (s for s in reigns.samples if s.node == reign.node and s.claims is Claim.NO)
    return marks.at(over_ns) or tuple(s.index for s in own if s.hi_ns == over_ns)[:1]
