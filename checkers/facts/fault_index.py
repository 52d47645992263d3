"""Finds rows by moment: faults, starts and deaths of servers, and the log lines that name epochs."""

from bisect import bisect_left
from functools import cached_property
from typing import Final

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.facts.intervals import Intervals
from fencepost.checkers.facts.logged_elections import logged_elections
from fencepost.checkers.facts.reigns import Begin, Sample
from fencepost.harness.history import BeliefEvent, FaultEvent, History, NodeEvent


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

    def named(self, sample: Sample) -> Rows:
        """Return the rows that name the epoch of a claim: the answer itself, else a line of the node's own log."""
        if getattr(self._history.events[sample.index], "epoch", None) == sample.epoch:
            return (sample.index,)
        line = self._lines.get((sample.node, sample.incarnation, sample.epoch or 0))
        return (sample.index,) if line is None else (sample.index, line)

    def begun(self, begin: Begin) -> Rows:
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

    def since(self, sample: Sample) -> Rows:
        """Return the row at which a sample's window begins: its question, or the end of a stop."""
        if sample.lo_ns != sample.asked_ns:
            return self.at(sample.lo_ns)
        return (self._invoked.get(sample.index, sample.index),)

    def until(self, sample: Sample) -> Rows:
        """Return the row at which a sample's window ends: its answer, or the beginning of a stop."""
        return (sample.index,) if sample.hi_ns == sample.answered_ns else self.at(sample.hi_ns)

    def inside(self, intervals: Intervals, from_ns: int, to_ns: int) -> Rows:
        """Return pairs of rows: the beginning and the end of every interval that reaches into [`from_ns`, `to_ns`]."""
        touched = [(start, end) for start, end in intervals if start < to_ns and end > from_ns]
        # What was not over by the end of the history ends with its last row.
        last = (len(self._history.events) - 1,)
        return tuple(i for start, end in touched for i in (*self.at(start), *(self.at(end) or last)))
