"""What an answer cannot contain: by the store's own positions, or by time where servers number writes differently.

Some stores, as Cassandra, number no writes at all. There too only time tells.

A store has one order of writes, and every server numbers a write alike. Then an answer whose value stands at position
v, or whose reply stands at position p when nothing is known of v, cannot contain a write of a later position.

Servers may break that, as those of etcd 3.5.1 do after a kill (etcd#13766): then positions of two servers say nothing
about which write came first, and only time does. An answer with the value of a write that had ended before another one
was invoked cannot contain the other; writes that overlap may stand in either order.

The numbers contradict each other where a value that one write alone wrote is read at another position than that write
was acknowledged at, where two writes were acknowledged at one position, or where a write stands behind one that was
invoked only after it had ended.
"""

from typing import Final

import numpy as np

from fencepost.checkers.facts.acknowledged import UNKNOWN, Acknowledged, acknowledged_writes, first_of_highest
from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.operation_columns import Longs
from fencepost.checkers.facts.positions import WRITES, ok_reads, ok_writes, view_position, write_position, written
from fencepost.harness.history import History, Operation, Outcome

_Value = tuple[str | None, object]


@once
def views_of(history: History) -> "Views":
    """How this history's answers and writes are compared."""
    return Views(history)


class Views:
    """By `rank`, writes stand in an order; an answer contains no write whose rank is above its `view`."""

    def __init__(self, history: History) -> None:
        self._makers: Final = _makers(history)
        #: The write that alone can have made the value of an answered read, by the read's invocation.
        self._placed: Final[dict[int, Operation]] = {}
        #: Reads that show a write at another position than its acknowledgement, each with that write.
        self.renumbered: Final[list[tuple[Operation, Operation]]] = []
        #: All reads that tell the position of such a write.
        self.placed_reads: Final[list[Operation]] = []
        for read in ok_reads(history):
            makers = self._makers.get(_value(read.key, read.result), ())
            if len(makers) != 1 or makers[0].type is not Outcome.OK:
                continue
            position = write_position(makers[0])
            if position is None:
                continue
            self._placed[read.invoke_index] = makers[0]
            if read.value_position is not None:
                self.placed_reads.append(read)
                if read.value_position != position:
                    self.renumbered.append((read, makers[0]))
        writes = ok_writes(history)
        #: Whether the store does not number its writes.
        self.unnumbered: Final = bool(writes) and all(write_position(write) is None for write in writes)
        #: Whether positions of different servers cannot be compared.
        self.by_time: Final = self.unnumbered or bool(self.renumbered) or bool(order_contradictions(history))

    def ranks(self, acknowledged: Acknowledged) -> Longs:
        """Return `rank` of each row; `UNKNOWN` where it is not known."""
        return acknowledged.invoked_ns if self.by_time else acknowledged.position

    def rank(self, write: Operation) -> int | None:
        """Return where an acknowledged write stands; None: unknown."""
        return write.invoked_ns if self.by_time else write_position(write)

    def view(self, read: Operation) -> int | None:
        """Up to which rank the answer may contain writes of its key; None where that is not known."""
        if self.by_time:
            maker = self.last_maker(read)
            return None if maker is None else maker.completed_ns
        view = view_position(read)
        write = self._placed.get(read.invoke_index)
        return view if view is None or write is None else max(view, write_position(write) or 0)

    def last_maker(self, read: Operation) -> Operation | None:
        """Return the last to end of the writes that may have made the value of a read; None: one never ended."""
        makers = self._makers.get(_value(read.key, read.result), [])
        if not makers or any(o.type is not Outcome.OK or o.completed_ns is None for o in makers):
            return None
        return max(makers, key=lambda o: o.completed_ns or 0)


def _value(key: str | None, value: object) -> _Value:
    """Return the same only for values that are written alike: 1, True and "1" are three."""
    return key, value if type(value) is int or type(value) is str else (repr(value),)


def _makers(history: History) -> dict[_Value, list[Operation]]:
    """Every write that may have taken effect, by its key and value; of keys whose writes all say what they write."""
    writes = [o for o in history.operations if o.f in WRITES]
    unsaid = {o.key for o in writes if o.f == "cas" and o.value is None}
    makers: dict[_Value, list[Operation]] = {}
    for write in writes:
        if write.key not in unsaid:
            makers.setdefault(_value(write.key, written(write)), []).append(write)
    return makers


@once
def order_contradictions(history: History) -> list[tuple[Operation, Operation, str]]:
    """List pairs of acknowledged writes whose positions contradict real time, or are shared; with the reason."""
    acknowledged = acknowledged_writes(history)
    placed = acknowledged.position != UNKNOWN
    writes = [w for w, named in zip(acknowledged.writes, placed.tolist(), strict=True) if named]
    position, completed_ns = acknowledged.position[placed], acknowledged.completed_ns[placed]
    invoked_ns = acknowledged.invoked_ns[placed]
    ended = np.argsort(completed_ns, kind="stable")
    holders = ended[first_of_highest(position[ended])]
    # How many had completed before each of them was invoked, and which of these stands highest.
    done = np.searchsorted(completed_ns[ended], invoked_ns)
    holder = holders[np.maximum(done - 1, 0)]
    too_early = (done > 0) & (position[holder] >= position)
    _, firsts, which = np.unique(position, return_index=True, return_inverse=True)
    first = firsts[which]
    shared = (first != np.arange(len(writes))) & (completed_ns[first] >= invoked_ns)
    return [
        *((writes[holder[n]], writes[n], _TOO_EARLY) for n in np.flatnonzero(too_early).tolist()),
        *((writes[first[n]], writes[n], _SHARED) for n in np.flatnonzero(shared).tolist()),
    ]


_TOO_EARLY: Final = "had completed before the other was invoked, but stands at or after it"
_SHARED: Final = "has a position of its own, but both were given the same"
