"""Claims to a superseded epoch: how long each lasted at least, and when two nodes certainly led at once.

A claim harms nobody; it is a figure. A sample counts only when a higher epoch had begun before its window; one whose
window straddles that moment, or whose epoch is not certain, is "possible": shown, never counted.
"""

from typing import Any

import msgspec

from checkers.leadership.samples import Intervals, Reign, Reigns, Sample, within
from harness.operation import Claim


class ClaimedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """`node` claimed `epoch` at least from `from_ns`, when a higher epoch had begun, to `to_ns`.

    `running_ns` leaves out the time in which the node was proven stopped. `indexes` are the events that
    prove both ends.
    """

    node: str
    incarnation: int
    epoch: int
    superseded_by: int
    from_ns: int
    to_ns: int
    length_ns: int
    running_ns: int
    samples: int
    indexes: tuple[int, int]


def claimed_spans(reigns: Reigns) -> list[ClaimedSpan]:
    """One span for each reign that was certainly claimed after it was superseded, in order of time."""
    spans = [_span(reigns, reign) for reign in reigns.reigns if reign.claimed]
    return sorted(spans, key=lambda s: s.from_ns)


def _span(reigns: Reigns, reign: Reign) -> ClaimedSpan:
    begin, claimed = reign.superseded, reign.claimed
    assert begin is not None
    last = max(claimed, key=lambda s: s.lo_ns)
    to_ns = last.lo_ns
    stopped = within(reigns.stopped[reign.node], begin.at_ns, to_ns)
    return ClaimedSpan(
        node=reign.node,
        incarnation=reign.incarnation,
        epoch=reign.epoch,
        superseded_by=begin.epoch,
        from_ns=begin.at_ns,
        to_ns=to_ns,
        length_ns=to_ns - begin.at_ns,
        running_ns=to_ns - begin.at_ns - stopped,
        samples=len(claimed),
        indexes=(begin.event, last.index),
    )


def possible_claims(reigns: Reigns) -> list[Sample]:
    """Samples that may or may not have claimed a superseded epoch."""
    return [s for s in reigns.samples if s.claims is Claim.YES and _possible(s, reigns)]


def _possible(sample: Sample, reigns: Reigns) -> bool:
    if sample.epoch is not None:
        begin = reigns.superseded(sample.epoch)
        return begin is not None and sample.lo_ns <= begin.at_ns <= sample.hi_ns
    if sample.epoch_low is None:
        return False
    begin = reigns.superseded(sample.epoch_low)
    return begin is not None and begin.at_ns <= sample.hi_ns


def overlap_ns(reigns: Reigns, *, running: bool) -> int:
    """For how long, at least, two or more nodes led at once; with `running`, while neither was proven stopped."""
    edges: list[tuple[int, int, str]] = []
    for reign in reigns.reigns:
        stopped = reigns.stopped[reign.node] if running else []
        for start_ns, end_ns in _outside(stopped, reign.first_ns, reign.last_ns):
            edges += [(start_ns, 1, reign.node), (end_ns, -1, reign.node)]
    total, previous_ns = 0, 0
    leading: dict[str, int] = {}
    for at_ns, change, node in sorted(edges):
        if sum(count > 0 for count in leading.values()) > 1:
            total += at_ns - previous_ns
        leading[node] = leading.get(node, 0) + change
        previous_ns = at_ns
    return total


def _outside(intervals: Intervals, from_ns: int, to_ns: int) -> Intervals:
    """What the disjoint `intervals`, in order, leave of [`from_ns`, `to_ns`]."""
    left: Intervals = []
    for start, end in intervals:
        if from_ns < min(start, to_ns):
            left.append((from_ns, min(start, to_ns)))
        from_ns = max(from_ns, end)
    return [*left, (from_ns, to_ns)] if from_ns < to_ns else left


def claim_figures(reigns: Reigns, *, shown_max: int = 50) -> dict[str, Any]:
    """What the report draws: spans (the longest first when there are too many), counts and the overlap."""
    spans = claimed_spans(reigns)
    shown = sorted(sorted(spans, key=lambda s: -s.length_ns)[:shown_max], key=lambda s: s.from_ns)
    return {
        "claimed": [msgspec.to_builtins(span) for span in shown],
        "claimed_count": len(spans),
        "claimed_ns_max": max((s.length_ns for s in spans), default=0),
        "claimed_running_ns_max": max((s.running_ns for s in spans), default=0),
        "possible_claims": len(possible_claims(reigns)),
        "two_leaders_ns": overlap_ns(reigns, running=False),
        "two_leaders_running_ns": overlap_ns(reigns, running=True),
        "epochs": len(reigns.begins),
        "samples_unattributed": sum(s.claims is Claim.YES and s.epoch is None for s in reigns.samples),
        "samples_impossible": reigns.impossible,
    }
