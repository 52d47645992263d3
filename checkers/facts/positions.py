"""Which operations read, which write, and where in the store's order each one stands.

One place for the names that workloads give their operations, so that every checker means the same by "a write".
"""

from collections.abc import Iterable
from typing import Final

from fencepost.checkers.facts.once import once
from fencepost.harness.history import History, Operation, Outcome, PhaseName, Value

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
#: Reads of metadata: a node's copy of a setting, and whether a name is taken.
LOOKS: Final = frozenset({"describe", "exists"})
#: Listening for changes, and reading everything that was changed.
LISTENS: Final = frozenset({"watch", "next", "entries"})
#: Reads of all keys that are bound to leases.
BOUND_LOOKS: Final = frozenset({"look"})
#: Reads of a group's members, and what its listeners were called with.
MEMBER_READS: Final = frozenset({"list", "listen"})
#: Operations that are made as often as something ends or is due, and not at a rate of their own.
OCCASIONAL: Final = frozenset({"watch", "compact", "join", "leave", "late-commit", "begin", "late-record", "resign"})
#: What nodes say of the cluster.
CLUSTER_VIEWS: Final = frozenset({"view"})
#: What a member of a group asks of its coordinator.
GROUP_READS: Final = frozenset({"offset-fetch", "beat"})
#: Reads of partitions that hold transactions, and of how far those have read.
TRANSACTION_READS: Final = frozenset({"read-committed", "read-uncommitted", "consumed"})
#: What callers of KIP-30's storage read.
FETCHES: Final = frozenset({"fetch"})
#: What nodes know of named logs, and what those hold.
LOG_LISTS: Final = frozenset({"list-topics", "read-topic"})
#: Operations that change nothing.
EFFECT_FREE: Final = (
    READS
    | MEMBERS
    | LOG_READS
    | LOOKS
    | LISTENS
    | BOUND_LOOKS
    | MEMBER_READS
    | CLUSTER_VIEWS
    | GROUP_READS
    | TRANSACTION_READS
    | LOG_LISTS
    | FETCHES
)
#: What counts as having looked again after healing; an id given out then meets those given before, and transactions
#: only read then.
_FINAL: Final = EFFECT_FREE | {"allocate", "txn"}
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
    answered = (o for o in history.operations if o.type is Outcome.OK and o.f in _FINAL)
    return [o for o in answered if in_final(history, o)]


def by_key(operations: Iterable[Operation]) -> dict[str | None, list[Operation]]:
    """Group the operations by key, in the given order."""
    grouped: dict[str | None, list[Operation]] = {}
    for operation in operations:
        grouped.setdefault(operation.key, []).append(operation)
    return grouped


def events_of(*operations: Operation) -> tuple[int, ...]:
    """Return the indexes of all events of these operations, ascending, as a witness names them."""
    indexes = {o.invoke_index for o in operations}
    indexes |= {o.complete_index for o in operations if o.complete_index is not None}
    return tuple(sorted(indexes))
