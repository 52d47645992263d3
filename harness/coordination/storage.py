"""Storage: keys and values (KIP-30), transactions on lists of numbers, append-only logs of partitions.

Keys have reads of several strengths, writes, compare-and-sets, and sets of numbers. A transaction on several lists
reads some and appends to some, all at one moment. Logs are Kafka's data plane.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from fencepost.harness.coordination.session import ClientSession, Needs


class Keys(Needs, frozen=True):
    """Keys without a value, or what else the interface reaches by a name: sets, locks, groups, an election's trail."""

    names: tuple[str, ...]


class Partitions(Needs, frozen=True):
    """The partitions of a log; an append with acks=all needs so many replicas in sync (None: as the store has it)."""

    count: int
    min_in_sync: int | None = None


class ReadMode(StrEnum):
    """The ways to read; each system declares which it has and what each promises.

    `STRONG` is the system's own current read (etcd: linearizable). `PLAIN` reads the node's own copy. `SYNC` is `sync`
    and a read, sent together. `BARRIER` is a write and a read, sent together by the same session. `LEADER` is answered
    by whichever node believes that it leads, without asking the others (Consul's default, NATS' get of a message).
    `QUORUM` takes the newest of the answers of a majority, by the timestamps of the writes (Cassandra's). `LOCAL` is a
    current read that asks the nodes of one data centre (Cassandra's LOCAL_SERIAL).
    """

    STRONG = "strong"
    LOCAL = "local"
    QUORUM = "quorum"
    LEADER = "leader"
    PLAIN = "plain"
    SYNC = "sync"
    BARRIER = "barrier"


class Reply(msgspec.Struct, frozen=True):
    """A node's answer about one key; `value` is None for an absent key.

    `position` is where the node's store stood and `value_position` is the write that made the value, both in the
    store's own order of changes. `epoch` is the leader's term, `version` the key's own count of writes. None stands for
    what the answer does not say.
    """

    value: bytes | None = None
    position: int | None = None
    value_position: int | None = None
    epoch: int | None = None
    version: int | None = None


class Members(msgspec.Struct, frozen=True):
    """The elements of a set in ascending order, with the position and epoch of the reply (see `Reply`)."""

    elements: tuple[int, ...]
    position: int | None = None
    epoch: int | None = None


class KeyValue(ClientSession, Protocol):
    """Key-value storage. Keys are short ASCII words ("r12"), values are bytes; one request a call, sent in order."""

    async def read(self, key: str, mode: ReadMode) -> Reply:
        """Read one key; `Reply.value` is None when it is absent."""
        ...

    async def write(self, key: str, value: bytes) -> Reply:
        """Write unconditionally. Creates an absent key, except where a session `Prepares` keys first."""
        ...

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Write `new` if the value is `old`; otherwise raises `Definite("cas-mismatch")`."""
        ...

    async def create(self, key: str, value: bytes) -> Reply:
        """Create the key; raises `Definite("exists")` when it exists."""
        ...

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Write if the key is unchanged since the read whose reply had these two; else `Definite("cas-mismatch")`."""
        ...

    async def add(self, name: str, element: int) -> Reply:
        """Add an element to a set, as a key (etcd) or child node (ZooKeeper); `Definite("exists")` for a second add."""
        ...

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read a whole set with one request of this mode."""
        ...


@runtime_checkable
class UpdatesKeys(Protocol):
    """A session that writes only where there is a key, in one request."""

    async def update(self, key: str, value: bytes) -> Reply:
        """Write to a key that is present; raises `Definite("absent")` when it is not."""
        ...


class Lists(msgspec.Struct, frozen=True):
    """The lists that a transaction read, in the order in which it named them; position and epoch as in `Reply`."""

    lists: tuple[tuple[int, ...], ...]
    position: int | None = None
    epoch: int | None = None


class ListTransactions(ClientSession, Protocol):
    """A list that nobody appended to is empty, and is made by the first append."""

    async def transact(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        """Read these lists, then append one number each, in one transaction.

        Raises `Definite` when the transaction was aborted: nothing of it ever takes effect.
        """
        ...


class Appended(msgspec.Struct, frozen=True):
    """The offset of an acknowledged record, and the epoch of the partition's leader where the answer has it."""

    offset: int
    epoch: int | None = None


class Record(msgspec.Struct, frozen=True):
    """One record as a reader received it; `epoch` is the one in which it was appended."""

    offset: int
    value: bytes
    epoch: int | None = None


class Polled(msgspec.Struct, frozen=True):
    """The answer to one read of a partition.

    `records` are in the order of the reply, and all offsets below `high_watermark` are committed. `log_start` is the
    first offset that is kept. `epoch` is the one in which the node led when it answered.
    """

    records: tuple[Record, ...]
    high_watermark: int
    log_start: int
    epoch: int | None = None


class Log(ClientSession, Protocol):
    """A log of several partitions; each is written and read through the node that leads it.

    It needs `Partitions`. An `epoch` in a reply is exact or None.
    """

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        """Choose how this session appends (acks "all" or "1"). Called once before its first request; sends nothing."""
        ...

    async def append(self, partition: int, value: bytes) -> Appended:
        """Append one record with one request."""
        ...

    async def poll(self, partition: int, offset: int) -> Polled:
        """Read the records from `offset` on, as many as one reply holds; none at the end of the log."""
        ...
