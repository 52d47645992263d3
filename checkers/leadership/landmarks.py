"""The rows that samples of a node are held against: faults, starts and deaths of servers, and what their logs said."""

from bisect import bisect_left
from typing import Final

from checkers.evidence import Rows
from checkers.leadership.samples import Intervals, Sample
from harness.history import History
from harness.operation import EpochEvent, FaultEvent, NodeEvent


class Landmarks:
    """Finds a history's rows by what they are known for."""

    def __init__(self, history: History) -> None:
        acts = [e for e in history.events if type(e) is FaultEvent or type(e) is NodeEvent]
        lines = [e for e in history.events if type(e) is EpochEvent]
        self._events: Final = history.events
        self._lines: Final = {(e.node, e.incarnation, e.epoch): e.index for e in reversed(lines)}
        self._times: Final = [e.time_ns for e in acts]
        self._indexes: Final = [e.index for e in acts]

    def named(self, sample: Sample) -> Rows:
        """Where the epoch of a claim is named: in the answer itself, else in the line of the node's own log."""
        if getattr(self._events[sample.index], "epoch", None) == sample.epoch:
            return (sample.index,)
        line = self._lines.get((sample.node, sample.incarnation, sample.epoch or 0))
        return (sample.index,) if line is None else (sample.index, line)

    def at(self, ns: int) -> Rows:
        """The row at `ns` of a fault or a server: where a cut, a pause or a death began or ended; none elsewhere."""
        place = bisect_left(self._times, ns)
        found = place < len(self._times) and self._times[place] == ns
        return (self._indexes[place],) if found else ()

    def since(self, sample: Sample) -> Rows:
        """Where a sample's window begins: at its question, or at the end of a stop."""
        return self.at(sample.lo_ns) or (sample.index,) if sample.lo_ns != sample.asked_ns else (sample.index,)

    def until(self, sample: Sample) -> Rows:
        """Where a sample's window ends: at its answer, or at the beginning of a stop."""
        return self.at(sample.hi_ns) or (sample.index,) if sample.hi_ns != sample.answered_ns else (sample.index,)

    def inside(self, intervals: Intervals, from_ns: int, to_ns: int) -> Rows:
        """Pairs of rows, the beginning and the end of every interval that reaches into [`from_ns`, `to_ns`]."""
        touched = [(start, end) for start, end in intervals if start < to_ns and end > from_ns]
        return tuple(i for start, end in touched for i in (*self.at(start), *self.at(end)))
