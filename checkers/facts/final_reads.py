"""What the reads of the final phase prove of an effect: that it is gone, or nothing.

A read that may lag proves nothing by lacking an element, so only those count whose mode the system promises to be
current. An element that such a read had shown before was in the store: what lost it came later, and is not the act of
whoever acknowledged it.
"""

from functools import cached_property
from typing import Final

from fencepost.checkers.facts.positions import CURRENT_MODES, MEMBERS, READS, by_key, final_reads, written
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts

REMOVES: Final = frozenset({"remove", "delete"})
#: Reads that a system promises to be current; "fresh-after-sync" and "fresh-from-leader" are relied upon, and
#: disclaimed by their makers.
_CURRENT: Final = frozenset({"linearizable", "fresh-after-write"})


def weak_reads(facts: Facts) -> str:
    """Why the run's reads of the set prove nothing when they lack an element; empty when they are strong."""
    mode = facts.options.get("members", "strong")
    return "" if mode in CURRENT_MODES else f"the set was read in mode {mode!r}, which may lag: nothing is proven"


class FinalReads:
    """The last final read of each key, unless it may lag."""

    def __init__(self, history: History, facts: Facts) -> None:
        lagging: set[str] = set()
        if weak_reads(facts):
            lagging |= MEMBERS
        if facts.read_guarantee not in _CURRENT:
            lagging |= READS
        current = [o for o in final_reads(history) if o.f not in lagging]
        self.last: Final = {key: reads[-1] for key, reads in by_key(current).items()}
        self._removed: Final = {o.key for o in history.operations if o.f in REMOVES}
        self._history: Final = history
        self._telling: Final = (MEMBERS | READS) - lagging

    @cached_property
    def _strong(self) -> dict[str | None, list[Operation]]:
        """Map keys to their answered reads that do not lag."""
        return by_key(o for o in self._history.operations if o.f in self._telling and o.type is Outcome.OK)

    def tells_of(self, operation: Operation) -> bool:
        """Whether a later final read of its key was made, and nothing removed what it may show."""
        read = self.last.get(operation.key)
        if read is None or operation.key in self._removed or operation.ended_ns is None:
            return False
        return operation.ended_ns < read.invoked_ns

    def lacks(self, operation: Operation) -> bool:
        """Whether a final read tells of the operation, and does not show its effect."""
        return self.tells_of(operation) and not _shows(self.last[operation.key], operation)

    def proves_lost(self, operation: Operation) -> bool:
        """Whether its effect is gone and no strong read ever showed it: its acknowledgement was never true."""
        return self.lacks(operation) and not any(_shows(o, operation) for o in self._strong.get(operation.key, ()))


def _shows(read: Operation, write: Operation) -> bool:
    return written(write) in (read.result if isinstance(read.result, list) else [read.result])
