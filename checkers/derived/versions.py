"""What an answer cannot contain, and which answered reads lack a write that was acknowledged before they were invoked.

Whether a read may be stale is its guarantee's matter. The store's own positions tell which write came first, or time
does where servers number writes differently. Some stores, as Cassandra, number no writes at all: there too only time
tells.

A store has one order of writes, and every server numbers a write alike. Then an answer whose value stands at position
v, or whose reply stands at position p when nothing is known of v, cannot contain a write of a later position.

Servers may break that, as those of etcd 3.5.1 do after a kill (etcd#13766): then positions of two servers say nothing
about which write came first, and only time does. An answer with the value of a write that had ended before another one
was invoked cannot contain the other; writes that overlap may stand in either order.

The numbers contradict each other where a value that one write alone wrote is read at another position than that write
was acknowledged at, where two writes were acknowledged at one position, or where a write stands behind one that was
invoked only after it had ended.

Operations stand as columns, so that measures over many of them need no loop.
"""

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fencepost.checkers.derived.evidence import grouped, once
from fencepost.checkers.derived.positions import WRITES, ok_reads, ok_writes, view_position, write_position, written
from fencepost.checkers.derived.reigns import Reign, Reigns, leader_of
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict.fact_tables import OPERATIONS, TEXT, masked

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class OperationColumns:
    """The operations of one history, in the order of invocation, so that `invoked_ns` never decreases.

    `ended_ns` and `completed_ns` are `NEVER_NS` where an operation has none.
    """

    def __init__(self, history: History) -> None:
        self.history: Final = history
        self.operations: Final[list[Operation]] = history.operations
        self.invoked_ns: Final = longs([o.invoked_ns for o in self.operations])
        self.ended_ns: Final = _times([o.ended_ns for o in self.operations])
        self.completed_ns: Final = _times([o.completed_ns for o in self.operations])
        self.ok: Final = np.array([o.type is Outcome.OK for o in self.operations], np.bool_)
        self.fail: Final = np.array([o.type is Outcome.FAIL for o in self.operations], np.bool_)
        self.nodes: Final = np.array([o.node for o in self.operations], object)

    @cached_property
    def latency_ns(self) -> Longs:
        """Return how long each caller waited, in ns; negative if it was never answered."""
        return np.where(self.ended_ns == NEVER_NS, -1, self.ended_ns - self.invoked_ns)

    def of_node(self, node: str) -> Flags:
        """Return a mask of the operations that were sent to `node`."""
        mask: Flags = self.nodes == node
        return mask

    def table(self) -> Any:
        """Lay out every operation (-> OPERATIONS)."""
        never = self.ended_ns == NEVER_NS
        return OPERATIONS.of_columns(
            {
                **{name: list(map(attrgetter(name), self.operations)) for name in _PLAIN},
                "latency_ns": masked(self.latency_ns, never),
                "phase": self._phases(),
                "fault_id": self._faults(),
            }
        )

    def _phases(self) -> Any:
        """Return the phase of each invocation; phases follow each other without gaps."""
        phases = self.history.phases
        starts = longs([start for start, _ in phases.values()])
        number = np.searchsorted(starts, self.invoked_ns, side="right") - 1
        return masked([phase.value for phase in phases], kind=TEXT).take(masked(number, number < 0))

    def _faults(self) -> Any:
        """Return, for each invocation, the last fault that had begun and was not healed; null if there was none."""
        ids = np.full(len(self.operations), -1, np.int64)
        for fault in sorted(self.history.faults, key=lambda f: f.began_ns):
            ended_ns = NEVER_NS if fault.ended_ns is None else fault.ended_ns
            first, last = np.searchsorted(self.invoked_ns, [fault.began_ns, ended_ns])
            ids[first:last] = fault.fault_id
        return masked(ids, ids < 0)


#: Columns that are fields of an operation as they stand.
_PLAIN: Final = tuple(c.name for c in OPERATIONS.columns if c.name in Operation.__struct_fields__)


def longs(numbers: Sequence[int]) -> Longs:
    return np.fromiter(numbers, np.int64, len(numbers))


def _times(times: list[int | None]) -> Longs:
    return longs([NEVER_NS if t is None else t for t in times])


#: Stands for a position or an epoch that an answer does not name; below all others.
UNKNOWN: Final = int(np.iinfo(np.int64).min)


class Acknowledged:
    """One row for each write, in the order of invocation."""

    def __init__(self, history: History) -> None:
        self.writes: Final[list[Operation]] = ok_writes(history)
        self.position: Final = longs([_known(w.position, w.value_position) for w in self.writes])
        self.epoch: Final = longs([UNKNOWN if w.epoch is None else w.epoch for w in self.writes])
        self.invoked_ns: Final = longs([w.invoked_ns for w in self.writes])
        self.completed_ns: Final = longs([w.completed_ns or 0 for w in self.writes])

    @cached_property
    def by_completion(self) -> Longs:
        """List all rows in the order of completion."""
        return np.argsort(self.completed_ns, kind="stable")

    @cached_property
    def of_key(self) -> dict[str | None, Longs]:
        """Map each key to the rows of its writes, in the order of completion."""
        rows = grouped(self.by_completion.tolist(), lambda row: self.writes[row].key)
        return {key: longs(own) for key, own in rows.items()}


@once
def acknowledged_writes(history: History) -> Acknowledged:
    """Read the columns once for each history."""
    return Acknowledged(history)


def last_of_highest(values: Longs) -> Longs:
    """Return, for each place, the last place up to it that holds the highest value up to it."""
    highest = np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(values == highest, np.arange(len(values)), 0))


def first_of_highest(values: Longs) -> Longs:
    """Return, for each place, the first place that holds the highest value up to it."""
    highest = np.maximum.accumulate(values)
    rises = np.concatenate(([True], highest[1:] > highest[:-1]))[: len(values)]
    return np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))


def _known(position: int | None, value_position: int | None) -> int:
    """Return the position as `facts.positions.write_position` defines it."""
    if value_position is not None:
        return value_position
    return UNKNOWN if position is None else position


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
    return grouped((w for w in writes if w.key not in unsaid), lambda w: _value(w.key, written(w)))


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


class StaleRead(msgspec.Struct, frozen=True, kw_only=True):
    """A stale answer: `read` lacks `missing` acknowledged writes, the newest of them `write`.

    `first` is the missing write that was acknowledged first, at `since_ns`. `view` is the position up to which the read
    may contain writes (`checkers.derived.versions`). `maker` made the value that was read; it is given where only time
    shows that the value is old. `reign` is given if the node was a superseded leader that may not have stepped down.
    """

    read: Operation
    write: Operation
    view: int
    missing: int
    first: Operation
    since_ns: int
    maker: Operation | None = None
    reign: Reign | None = None

    @property
    def late_ns(self) -> int:
        """How long before the read's invocation the first missing write had been acknowledged, in nanoseconds."""
        return self.read.invoked_ns - self.since_ns


class JudgedReads(msgspec.Struct, frozen=True, kw_only=True):
    """The answered reads, those of them that could be stale, and those that are, by invocation.

    Reads without a position are left out where the store numbers its writes. For a read of `unplaced` it is
    not known which writes the answer may contain.
    """

    views: Views
    reads: list[Operation]
    unplaced: list[Operation]
    exposed: list[Operation]
    stale: list[StaleRead]


@once
def find_stale(history: History) -> JudgedReads:
    """Compare every answered read that has a position with the writes that were acknowledged before it was invoked."""
    views = views_of(history)
    reads = [read for read in ok_reads(history) if views.unnumbered or view_position(read) is not None]
    seen = [views.view(read) for read in reads]
    placed: dict[str | None, list[int]] = {}
    for number, (read, view) in enumerate(zip(reads, seen, strict=True)):
        if view is not None:
            placed.setdefault(read.key, []).append(number)
    exposed: list[int] = []
    stale: dict[int, StaleRead] = {}
    acknowledged = acknowledged_writes(history)
    ranks = views.ranks(acknowledged)
    for key, rows in acknowledged.of_key.items():
        numbers = placed.get(key, [])
        own = _OfKey(acknowledged, rows[ranks[rows] != UNKNOWN], ranks, views)
        before = np.searchsorted(own.times, longs([reads[n].invoked_ns for n in numbers]))
        newest, highest = own.newest_of(before)
        exposed += [n for n, node in zip(numbers, newest, strict=True) if node is not None and node != reads[n].node]
        for place in np.flatnonzero(longs([seen[n] or 0 for n in numbers]) < highest).tolist():
            number = numbers[place]
            stale[number] = own.stale(reads[number], int(before[place]), seen[number] or 0)
    return JudgedReads(
        views=views,
        reads=reads,
        unplaced=[read for read, view in zip(reads, seen, strict=True) if view is None],
        exposed=[reads[n] for n in sorted(exposed)],
        stale=[stale[n] for n in sorted(stale)],
    )


class _OfKey:
    """One key's acknowledged writes by completion; `newest` is the place of the highest rank up to each of them."""

    def __init__(self, acknowledged: Acknowledged, rows: Longs, ranks: Longs, views: Views) -> None:
        self._views: Final = views
        self.writes: Final = [acknowledged.writes[row] for row in rows.tolist()]
        self.times: Final = acknowledged.completed_ns[rows]
        self.ranks: Final = ranks[rows]
        self.newest: Final = last_of_highest(self.ranks)

    def newest_of(self, before: Longs) -> tuple[list[str | None], Longs]:
        """Return, for the first so many writes, the node of the newest among them, and its rank; None and the least."""
        nodes = [None, *(self.writes[place].node for place in self.newest.tolist())]
        highest = np.concatenate(([UNKNOWN], self.ranks[self.newest]))
        return [nodes[number] for number in before.tolist()], highest[before]

    def stale(self, read: Operation, before: int, view: int) -> StaleRead:
        """Describe a read that lacks some of the first `before` writes, since it contains none above `view`."""
        missing = np.flatnonzero(self.ranks[:before] > view)
        first = int(missing[0])
        return StaleRead(
            read=read,
            write=self.writes[self.newest[before - 1]],
            view=view,
            missing=len(missing),
            first=self.writes[first],
            since_ns=int(self.times[first]),
            maker=self._views.last_maker(read) if self._views.by_time else None,
        )


def superseded_reign(reigns: Reigns, read: Operation) -> Reign | None:
    """Return the reign of the superseded leader that answered `read`; None if it was no superseded leader."""
    reign = leader_of(reigns, read)
    if reign is None or reign.superseded is None or read.completed_ns is None:
        return None
    led_on = reign.over_ns is None or read.invoked_ns <= reign.over_ns
    return reign if led_on and reign.superseded.at_ns <= read.completed_ns else None
