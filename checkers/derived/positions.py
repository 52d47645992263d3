"""Which operations read, which write, and where in the store's order each one stands.

One place for the names that workloads give their operations, so that every checker means the same by "a write".

Which operations were answered, and which answers could have been proven wrong.

What the reads of the final phase prove of an effect: that it is gone, or nothing. A read that may lag proves nothing by
lacking an element, so only those count whose mode the system promises to be current. An element that such a read had
shown before was in the store: what lost it came later, and is not the act of whoever acknowledged it.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.derived.evidence import grouped, once
from fencepost.harness.base.quantities import NEVER_NS, parse_duration_ns
from fencepost.harness.history import History, Operation, Outcome, PhaseName, Value
from fencepost.harness.verdict import Facts

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]
#: In place of the event at which an operation returned, where nobody knows.
UNANSWERED: Final = -1
_NEVER: Final = np.iinfo(np.int64).max
#: To look up a member of an enum takes longer than all else that `is_ok` does.
_OK: Final = Outcome.OK
_FAIL: Final = Outcome.FAIL


def is_ok(op: Operation) -> bool:
    return op.type is _OK and op.complete_index is not None


def answered(op: Operation) -> int:
    """The event at which an `ok` operation returned."""
    assert op.complete_index is not None
    return op.complete_index


def completed_ns(operation: Operation) -> int:
    """Return when an operation was answered; 0 for one that was not."""
    return operation.completed_ns or 0


def return_of(op: Operation) -> int:
    """The event at which an `ok` operation returned; `UNANSWERED` for others."""
    return op.complete_index if op.type is _OK and op.complete_index is not None else UNANSWERED


def not_failed(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if op.type is not _FAIL]


def exposed(
    objects: Iterable[Sequence[Operation]], changes: Collection[str] | None = None, tells: Collection[str] | None = None
) -> list[Operation]:
    """List the ok operations whose answer could have been proven wrong by others on their object (`exposed_places`).

    `changes` and `tells` are functions; None: all of them.
    """
    objects = list(map(not_failed, objects))
    kept = [op for operations in objects for op in operations]

    def of(functions: Collection[str] | None) -> _Flags:
        every = np.ones(len(kept), np.bool_)
        return every if functions is None else np.array([op.f in functions for op in kept], np.bool_)

    places = exposed_places(
        key=np.repeat(np.arange(len(objects)), [len(operations) for operations in objects]),
        changes=of(changes),
        tells=of(tells),
        invoked=np.array([op.invoke_index for op in kept], np.int64),
        returned=np.array(list(map(return_of, kept)), np.int64),
    )
    return [kept[place] for place in np.flatnonzero(places).tolist()]


def exposed_places(
    *, key: _Column, changes: _Flags, tells: _Flags, invoked: _Column, returned: _Column
) -> NDArray[np.bool_]:
    """Choose the rows whose answer another row would contradict if it were wrong; failed operations have no row.

    An answer can be caught out by what is ordered with it in real time: a change that was acknowledged before it, one
    that was invoked after it, or, where anything may have changed at all, another answer before or after. Operations
    that are all open at one moment can be put in any order there: each could have returned what any of them made.
    `returned` is `UNANSWERED` where the outcome is unknown. Keys are numbered from 0.
    """
    keys = int(key.max(initial=-1)) + 1
    ok = returned >= 0
    answers = ok & tells

    def first(where: _Flags) -> _Column:
        """Return, for the key of each row, when the first of these was answered."""
        least = np.full(keys, _NEVER)
        np.minimum.at(least, key[where], returned[where])
        return least[key]

    def last(where: _Flags) -> _Column:
        """Return, for the key of each row, when the last of these was invoked."""
        most = np.full(keys, UNANSWERED)
        np.maximum.at(most, key[where], invoked[where])
        return most[key]

    last_change = last(changes)
    changed = (first(changes & ok) < invoked) | (last_change > returned)
    others = (first(answers) < invoked) | (last(answers) > returned)
    catchable: NDArray[np.bool_] = answers & (changed | ((last_change > UNANSWERED) & others))
    return catchable


#: Reads of one register, held to the run's read guarantee.
READS: Final = frozenset({"read"})
#: Reads of a whole set, each as strong as its workload asks; they carry the reply's position only.
MEMBERS: Final = frozenset({"members"})
#: Each acknowledged one of these has a position of its own in the store's order.
WRITES: Final = frozenset({"write", "cas", "create", "add"})
#: Reads of a topic partition: a piece of it, from an offset on.
LOG_READS: Final = frozenset({"poll", "scan"})
#: Operations whose stamp is the epoch of a topic partition's leader, not of the cluster's.
PARTITION_STAMPED: Final = LOG_READS | {"append"}
#: Operations that are made as often as something ends or is due, and not at a rate of their own.
OCCASIONAL: Final = frozenset({"watch", "compact", "join", "leave", "late-commit", "begin", "late-record", "resign"})
#: Operations that change nothing.
EFFECT_FREE: Final = frozenset(
    {
        *READS,
        *MEMBERS,
        *LOG_READS,
        # A node's copy of a setting, and whether a name is taken; what nodes say of the cluster.
        *("describe", "exists", "view"),
        # Listening for changes, and reading everything that was changed; all keys that are bound to leases.
        *("watch", "next", "entries", "look"),
        # A group's members, and what its listeners were called with; what a member asks of its coordinator.
        *("list", "listen", "offset-fetch", "beat"),
        # Partitions that hold transactions, and how far those have read.
        *("read-committed", "read-uncommitted", "consumed"),
        # What nodes know of named logs, and what those hold; what callers of KIP-30's storage read.
        *("list-topics", "read-topic", "fetch"),
    }
)
#: What counts as having looked again after healing; an id given out then meets those given before, and transactions
#: only read then.
_FINAL: Final = EFFECT_FREE | {"txn"}
#: Read guarantees whose contract is "current": every write acknowledged before the read was invoked shows in it.
CURRENT: Final = frozenset(
    {
        "linearizable",
        "fresh-after-sync",
        "fresh-after-write",
        "fresh-from-leader",
        "fresh-from-any-node",
        "fresh-by-quorum",
    }
)


#: Modes in which a read of a whole set is current; ZooKeeper's manual disclaims that reads after a `sync` are.
CURRENT_MODES: Final = frozenset({"strong", "barrier"})


@once
def ok_reads(history: History) -> list[Operation]:
    """List the answered reads, in the order of invocation."""
    return [o for o in history.operations if o.type is Outcome.OK and o.f in READS]


@once
def ok_writes(history: History) -> list[Operation]:
    """List the acknowledged writes, in the order of invocation."""
    return [o for o in history.operations if o.type is Outcome.OK and o.f in WRITES]


def written(write: Operation) -> Value:
    """Return the value that `write` leaves behind; None for a compare-and-set that does not carry [old, new]."""
    return write.value[1] if write.f == "cas" and write.value is not None else write.value


def write_position(write: Operation) -> int | None:
    """Return the position at which the store put an acknowledged write; None if the answer does not name it."""
    return write.position if write.value_position is None else write.value_position


def view_position(read: Operation) -> int | None:
    """Return the position of the newest write of its key that an answer can contain: exact, else the reply's own."""
    return read.position if read.value_position is None else read.value_position


def in_final(history: History, operation: Operation) -> bool:
    """Whether an operation was invoked in the final phase; False where there was none."""
    phase = history.phases.get(PhaseName.FINAL)
    return phase is not None and phase[0] <= operation.invoked_ns < phase[1]


@once
def final_reads(history: History) -> list[Operation]:
    """List the answered reads (and the like) that were invoked in the final phase, in the order of invocation."""
    return [o for o in _final_operations(history) if o.type is Outcome.OK and o.f in _FINAL]


def final_answers(history: History) -> list[Operation]:
    """List what was answered in the final phase: the reads, or everything where nobody read."""
    operations = _final_operations(history)
    reads = [o for o in operations if o.f in _FINAL]
    return [o for o in reads or operations if o.type is Outcome.OK]


@once
def _final_operations(history: History) -> list[Operation]:
    return [o for o in history.operations if in_final(history, o)]


def by_key(operations: Iterable[Operation]) -> dict[str | None, list[Operation]]:
    """Group the operations by key, in the given order."""
    return grouped(operations, lambda o: o.key)


def by_name(history: History, functions: Collection[str]) -> dict[str, list[Operation]]:
    """Group the operations of these functions by key; one without a key is left out."""
    return {
        key: own for key, own in by_key(o for o in history.operations if o.f in functions).items() if key is not None
    }


def ended_ns(operation: Operation) -> int:
    """Return when the caller stopped waiting; a time after every run where it never did."""
    return NEVER_NS if operation.ended_ns is None else operation.ended_ns


def events_of(*operations: Operation) -> tuple[int, ...]:
    """Return the indexes of all events of these operations, ascending, as a witness names them."""
    indexes = {o.invoke_index for o in operations}
    indexes |= {o.complete_index for o in operations if o.complete_index is not None}
    return tuple(sorted(indexes))


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


def option_ns(facts: Facts, name: str, default: str) -> int:
    """The duration that this option names, in nanoseconds."""
    return parse_duration_ns(str(facts.options.get(name, default)), what=name)
