"""Claims to a superseded epoch: how long each lasted at least, and when two nodes certainly led at the same time.

A claim harms nobody, so it gives a figure and no violation. A node's answer has a window in time: the node formed it
between the question and the reply. A claim counts only if a higher epoch had begun before the window. If the higher
epoch began inside the window, or the claimed epoch is not certain, the claim is "possible": shown, never counted.
docs/explanation/design.md has the definitions.

Beside them: who led at a moment, which epoch came next, and how long nobody is known to have led in between.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import Intervals, merged, outside, within
from fencepost.checkers.derived.reigns import EpochBegin, LeaderSample, Reign, Reigns, logged_elections
from fencepost.harness.history import BeliefEvent, Claim, FaultEvent, History, NodeEvent
from fencepost.harness.verdict.figures import (
    CLAIMED,
    CLAIMED_COUNT,
    CLAIMED_RUNNING,
    POSSIBLE_CLAIMS,
    Rows,
    Traced,
    most,
    tally,
)


class ClaimedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A superseded claim: `reign` was claimed from `from_ns`, when a higher epoch had begun, to `to_ns` at least.

    `running_ns` leaves out the time in which the node was proven stopped. `last` is the event that proves the end.
    Times are in nanoseconds since the run began.
    """

    reign: Reign
    from_ns: int
    to_ns: int
    running_ns: int
    last: int

    @property
    def length_ns(self) -> int:
        return self.to_ns - self.from_ns


class Landmarks:
    """The landmarks of one history: rows that begin or end something, or that name an epoch."""

    def __init__(self, history: History) -> None:
        acts = sorted([*history.of(FaultEvent), *history.of(NodeEvent)], key=lambda e: e.index)
        lines = logged_elections(history).lines
        self._history: Final = history
        self._lines: Final = {(e.node, e.incarnation, e.epoch): e.index for e in reversed(lines)}
        self._times: Final = [e.time_ns for e in acts]
        self._indexes: Final = [e.index for e in acts]

    @cached_property
    def _invoked(self) -> dict[int, int]:
        """Map operations that serve as samples to their invocations; a belief has both of its times in one row."""
        return {o.complete_index: o.invoke_index for o in self._history.operations if o.complete_index is not None}

    def named(self, sample: LeaderSample) -> Rows:
        """Return the rows that name the epoch of a claim: the answer itself, else a line of the node's own log."""
        if getattr(self._history.events[sample.index], "epoch", None) == sample.epoch:
            return (sample.index,)
        line = self._lines.get((sample.node, sample.incarnation, sample.epoch or 0))
        return (sample.index,) if line is None else (sample.index, line)

    def begun(self, begin: EpochBegin) -> Rows:
        """Return the rows that name an epoch that has begun: the proof itself, else a line of its node's own log."""
        proof = self._history.events[begin.event]
        if getattr(proof, "epoch", None) == begin.epoch or type(proof) is not BeliefEvent:
            return (begin.event,)
        line = self._lines.get((proof.node, proof.incarnation, begin.epoch))
        return (begin.event,) if line is None else (begin.event, line)

    def at(self, ns: int) -> Rows:
        """Return the row at `ns` where a cut, a pause or a server's life began or ended; empty if there is none."""
        place = bisect_left(self._times, ns)
        exact = place < len(self._times) and self._times[place] == ns
        return (self._indexes[place],) if exact else ()

    def since(self, sample: LeaderSample) -> Rows:
        """Return the row at which a sample's window begins: its question, or the end of a stop."""
        if sample.lo_ns != sample.asked_ns:
            return self.at(sample.lo_ns)
        return (self._invoked.get(sample.index, sample.index),)

    def until(self, sample: LeaderSample) -> Rows:
        """Return the row at which a sample's window ends: its answer, or the beginning of a stop."""
        return (sample.index,) if sample.hi_ns == sample.answered_ns else self.at(sample.hi_ns)

    def inside(self, intervals: Intervals, from_ns: int, to_ns: int) -> Rows:
        """Return pairs of rows: the beginning and the end of every interval that reaches into [`from_ns`, `to_ns`]."""
        touched = [(start, end) for start, end in intervals if start < to_ns and end > from_ns]
        # What was not over by the end of the history ends with its last row.
        last = (len(self._history.events) - 1,)
        return tuple(i for start, end in touched for i in (*self.at(start), *(self.at(end) or last)))


def claimed_spans(reigns: Reigns) -> list[ClaimedSpan]:
    """Return one span for each reign that was certainly claimed after it was superseded, in order of time."""
    spans = [_span(reigns, reign) for reign in reigns.reigns if _outlived(reign)]
    return sorted(spans, key=lambda s: s.from_ns)


def _outlived(reign: Reign) -> bool:
    """Whether its node claimed it, or had not yet resigned by its own log, when a later epoch had begun."""
    begin = reign.superseded
    return begin is not None and (bool(reign.claimed) or reign.until_ns > begin.at_ns)


def _span(reigns: Reigns, reign: Reign) -> ClaimedSpan:
    begin, claimed = reign.superseded, reign.claimed
    assert begin is not None
    to_ns = reign.until_ns
    resigned = reign.resigned
    last = max(claimed, key=lambda s: s.lo_ns).index if claimed else begin.event
    if resigned is not None and resigned.asked_ns == to_ns:
        last = resigned.index
    stopped = within(reigns.stopped[reign.node], begin.at_ns, to_ns)
    return ClaimedSpan(
        reign=reign, from_ns=begin.at_ns, to_ns=to_ns, running_ns=to_ns - begin.at_ns - stopped, last=last
    )


def possible_claims(reigns: Reigns) -> list[LeaderSample]:
    """List the samples that may or may not have claimed a superseded epoch."""
    return [s for s in reigns.samples if s.claims is Claim.YES and _possible(s, reigns)]


def _possible(sample: LeaderSample, reigns: Reigns) -> bool:
    if sample.epoch is not None:
        begin = reigns.superseded(sample.epoch)
        return begin is not None and sample.lo_ns <= begin.at_ns <= sample.hi_ns
    if sample.epoch_low is None:
        return False
    begin = reigns.superseded(sample.epoch_low)
    return begin is not None and begin.at_ns <= sample.hi_ns


def overlap_ns(reigns: Reigns, *, running: bool) -> int:
    """Return for how many nanoseconds, at least, two or more nodes led at the same time.

    With `running`, time in which one of them was proven stopped does not count.
    """
    return sum(end_ns - start_ns for start_ns, end_ns in overlaps(reigns, running=running))


def overlaps(reigns: Reigns, *, running: bool) -> Intervals:
    """Return the disjoint intervals, in order, in which two or more nodes certainly led at the same time."""
    edges: list[tuple[int, int, str]] = []
    for reign in reigns.reigns:
        stopped = reigns.stopped[reign.node] if running else []
        for start_ns, end_ns in outside(stopped, reign.first_ns, reign.last_ns):
            edges += [(start_ns, 1, reign.node), (end_ns, -1, reign.node)]
    shared: Intervals = []
    previous_ns = 0
    leading: dict[str, int] = {}
    for at_ns, change, node in sorted(edges):
        if sum(count > 0 for count in leading.values()) > 1 and previous_ns < at_ns:
            shared.append((previous_ns, at_ns))
        leading[node] = leading.get(node, 0) + change
        previous_ns = at_ns
    return merged(shared)


def claim_figures(reigns: Reigns, marks: Landmarks, *, shown_max: int = 50) -> dict[str, Any]:
    """Return what the report shows: the spans (the longest `shown_max`, in order of time), counts and overlaps."""
    spans = claimed_spans(reigns)
    rows = [_span_row(reigns, span, marks) for span in spans]
    longest = sorted(rows, key=lambda row: -row["length_ns"].value)[:shown_max]
    return {
        CLAIMED: tuple(sorted(longest, key=lambda row: row["from_ns"].value)),
        CLAIMED_COUNT: tally(span.last for span in spans),
        "claimed_ns_max": most(row["length_ns"] for row in rows),
        CLAIMED_RUNNING: most(row["running_ns"] for row in rows),
        POSSIBLE_CLAIMS: tally(s.index for s in possible_claims(reigns)),
        "two_leaders_ns": _overlapped(reigns, marks, running=False),
        "two_leaders_running_ns": _overlapped(reigns, marks, running=True),
        "epochs": tally(b.event for b in reigns.begins),
        "samples_unattributed": tally(s.index for s in reigns.samples if s.claims is Claim.YES and s.epoch is None),
        "samples_impossible": tally(s.index for s in reigns.impossible),
    }


def _span_row(reigns: Reigns, span: ClaimedSpan, marks: Landmarks) -> dict[str, Any]:
    reign = span.reign
    begin, resigned = reign.superseded, reign.resigned
    assert begin is not None
    latest = max(reign.samples, key=lambda s: s.lo_ns)
    end = (span.last,) if span.to_ns > latest.lo_ns else marks.since(latest)
    stops = marks.inside(reigns.stopped[reign.node], span.from_ns, span.to_ns)
    return {
        "node": reign.node,
        "incarnation": reign.incarnation,
        "epoch": Traced(reign.epoch, marks.named(latest)),
        "superseded_by": Traced(begin.epoch, marks.begun(begin)),
        "from_ns": Traced(span.from_ns, (begin.event,)),
        "to_ns": Traced(span.to_ns, end),
        "length_ns": Traced(span.length_ns, (begin.event, *end)),
        "running_ns": Traced(span.running_ns, (begin.event, *end, *stops)),
        "samples": tally(s.index for s in reign.claimed),
        "resigned_ns": None if resigned is None else Traced(resigned.time_ns, (resigned.index,)),
        "reverted_to": None
        if resigned is None or resigned.position is None
        else Traced(resigned.position, (resigned.index,)),
    }


def _overlapped(reigns: Reigns, marks: Landmarks, *, running: bool) -> Traced[int]:
    return Traced(overlap_ns(reigns, running=running), _overlap_rows(reigns, marks, running=running))


def _overlap_rows(reigns: Reigns, marks: Landmarks, *, running: bool) -> Rows:
    """A pair of rows for every interval in which two nodes led at once."""
    edges: dict[int, Rows] = {}
    for reign in reigns.reigns:
        edges[reign.first_ns] = marks.until(min(reign.samples, key=lambda s: s.hi_ns))
        edges[reign.last_ns] = marks.since(max(reign.samples, key=lambda s: s.lo_ns))
    pairs = (edge for interval in overlaps(reigns, running=running) for edge in interval)
    return tuple(i for ns in pairs for i in (marks.at(ns) or edges[ns]))


#: A leader that claimed so shortly before a moment led then: it is asked 10 times a second at least.
FRESH_NS: Final = 1_000_000_000


def begin_at(begins: Sequence[EpochBegin], at_ns: int) -> EpochBegin | None:
    """Return the proof of the highest epoch that had certainly begun by `at_ns`."""
    return max((b for b in begins if b.at_ns <= at_ns), key=lambda b: b.epoch, default=None)


def next_begin(begins: Sequence[EpochBegin], epoch: int | None, after_ns: int) -> EpochBegin | None:
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


def last_claim(reign: Reign, by_ns: int) -> LeaderSample:
    """Return the last claim of `reign` that had been answered by then."""
    return max((s for s in reign.samples if s.hi_ns <= by_ns), key=lambda s: s.hi_ns)


def last_certain(reign: Reign, begin: EpochBegin) -> LeaderSample:
    """Return the claim of `reign` from which on nobody is known to have led until `begin`."""
    return max((s for s in reign.samples if s.hi_ns <= begin.at_ns), key=lambda s: s.lo_ns)


def leaderless_ns(reign: Reign, begin: EpochBegin) -> int:
    """Return the time from the last moment at which `reign` certainly held to the proof of the next epoch."""
    return max(0, begin.at_ns - last_certain(reign, begin).lo_ns)


def over_ns(reign: Reign, begin: EpochBegin, since_ns: int) -> int:
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
