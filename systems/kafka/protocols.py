"""What only Kafka offers to workloads: its control plane, topics, partition states, groups and transactions of a log.

`Log` is shared (`harness.coordination`).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from fencepost.harness.coordination import Appended, ClientSession, Keys, Needs, Polled, Reply
from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.broker_view import BrokerView


class KafkaInterface(StrEnum):
    """A protocol of this module, as `harness.coordination.Interface` names the shared ones."""

    METADATA = "metadata"
    METADATA_LOG = "metadata-log"
    PRODUCER_IDS = "producer-ids"
    PARTITION_STATES = "partition-states"
    TOPICS = "topics"
    GROUPS = "consumer-groups"
    TRANSACTIONS = "log-transactions"


class MetadataKind(StrEnum):
    """The kinds of metadata that have a value: settings of topics, and those of `client.metadata_kinds`."""

    SETTING = "setting"
    BROKER = "broker"
    QUOTA = "quota"
    SCRAM = "scram"
    PARTITIONS = "partitions"
    TOPIC = "topic"
    ACL = "acl"


class MetadataNeeds(Keys, frozen=True):
    """Topics, and so many partitions of further topics, with two replicas each, that nothing is done to."""

    bystanders: int = 0

    @property
    def within_s(self) -> float:
        return 20.0 + self.bystanders * 0.03


class Metadata(ClientSession, Protocol):
    """Names that are taken (topics), and values by kind and name (dynamic configurations and others).

    `MetadataNeeds` has the topics whose settings and partitions are changed. `describe` reads the node's own copy,
    which may lag on every system that offers this protocol. `name_taken` goes through the leader's queue of changes and
    changes nothing.
    """

    async def alter(self, kind: MetadataKind, name: str, value: bytes | None) -> Reply:
        """Set the value unconditionally; None removes it."""
        ...

    async def describe(self, kind: MetadataKind, name: str) -> Reply:
        """Read the value as this node knows it; `Reply.value` is None when it is not set."""
        ...

    async def create_name(self, name: str, partitions: int = 1) -> Reply:
        """Take the name for something in so many parts; raises `Definite("exists")` when it is taken."""
        ...

    async def name_taken(self, name: str) -> Reply:
        """Ask whether the name is taken: `Reply.value` is b"1" when it is, else None."""
        ...


class LogSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state that stands for all entries below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int
    entries: tuple[LogEntry, ...] = ()


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader of `epoch` answered a listener.

    Entries from `high_watermark` on are not committed and may be withdrawn (-1: the leader does not know it yet).
    `parts_at` is an epoch and an offset, and comes without entries: in the leader's log that epoch ends there, and none
    between it and the listener's own follows. The listener drops what it has behind it.
    """

    epoch: int
    high_watermark: int
    entries: tuple[LogEntry, ...] = ()
    parts_at: tuple[int, int] | None = None
    snapshot: LogSnapshot | None = None


class LogListener(ClientSession, Protocol):
    """A session with a node that may lead the metadata log, and then serves it to listeners."""

    async def listen(self, offset: int, last_epoch: int, wait_s: float) -> LogPiece:
        """Get the entries from `offset` on; `last_epoch` is that of the entry before it (0 at the beginning).

        Waits at most `wait_s` for the first one. Raises `Definite` when the node does not lead.
        """
        ...


class GrantsProducerIds(ClientSession, Protocol):
    """Ids that are given out once: with the same id, two producers could be mistaken for each other."""

    async def allocate(self) -> int:
        """Get a new producer id."""
        ...


class PartitionStates(ClientSession, Protocol):
    """The leader, epoch and in-sync replicas of each partition, and which brokers are alive.

    It needs `Partitions`.
    """

    async def view(self) -> BrokerView:
        """Ask this node alone what it knows."""
        ...

    async def move(self, partition: int, replicas: Sequence[int]) -> None:
        """Put the partition's replicas into this order, by their ids, and let the first of them lead.

        Raises `Definite` only when neither was done.
        """
        ...


class Topics(ClientSession, Protocol):
    """Topics of one partition each, which is written and read through the node that leads it."""

    async def make_topic(self, name: str) -> str | None:
        """Create the topic, with a replica on every node and at least two in sync for each append.

        Returns its id, by which it differs from an earlier topic of that name; None where nobody tells it.
        Raises `Definite("exists")` when the name is taken.
        """
        ...

    async def drop_topic(self, name: str) -> None:
        """Delete the topic; raises `Definite("unknown-topic-or-partition")` when there is none of this name."""
        ...

    async def list_topics(self) -> tuple[str, ...]:
        """The names of all topics that this node knows, sorted."""
        ...

    async def put_record(self, name: str, value: bytes) -> Appended:
        """Append one record, acknowledged by all replicas in sync."""
        ...

    async def read_topic(self, name: str, offset: int) -> Polled:
        """Read the records from `offset` on, as many as one reply holds."""
        ...


class Joined(msgspec.Struct, frozen=True):
    """A place in a group: its `generation` grows with every change of members, and `share` is this member's work."""

    generation: int
    share: int


class CommittedAs(msgspec.Struct, frozen=True):
    """The generation in which an offset was committed."""

    generation: int


class Groups(ClientSession, Protocol):
    """One session is at most one member of a group; `Keys` are the names of the groups.

    What a member of an earlier generation may not do is refused with `Definite`: "illegal-generation" or
    "unknown-member-id"; "not-a-member" is said here, before anything is sent.
    """

    async def join(self, group: str) -> Joined:
        """Join the group, or take part in its next generation; returns once its leader has shared out the work."""
        ...

    async def leave(self, group: str) -> None:
        """Leave the group."""
        ...

    async def beat(self, group: str) -> None:
        """Say that this member lives; raises `Definite("rebalance-in-progress")` when it has to join again."""
        ...

    async def commit_offset(self, group: str, offset: int, *, late: bool = False) -> CommittedAs:
        """Commit an offset as a member of the generation that this session joined last.

        Args:
            late: as a member of the generation before that one, as a request that was under way for long would.
        """
        ...

    async def fetch_offset(self, group: str) -> int | None:
        """Read the group's committed offset from its coordinator; None when there is none."""
        ...


class Begun(msgspec.Struct, frozen=True):
    """A producer that has begun: its `token` is greater than that of every producer of the same name before it.

    `version` is that of the transactions that it plays (Kafka's `transaction.version`; 1 for every one before 2).
    """

    token: int
    version: int


class Put(msgspec.Struct, frozen=True):
    """Where the records of a transaction stand: for each its partition and offset."""

    records: tuple[tuple[int, int], ...]


class Transformed(msgspec.Struct, frozen=True):
    """A transaction that read `count` records from the offset `at` on, and put one record for each of them."""

    records: tuple[tuple[int, int], ...]
    at: int
    count: int


class TransactionRecord(msgspec.Struct, frozen=True):
    """A record as a reader gets it: the number of its transaction and, where one was read for it, that offset."""

    offset: int
    number: int
    read: int | None = None


class Piece(msgspec.Struct, frozen=True):
    """The answer to one read: `following` is where to go on, and all below `stable` belongs to ended transactions."""

    records: tuple[TransactionRecord, ...]
    following: int
    stable: int
    high_watermark: int


class NamedProducer(msgspec.Struct, frozen=True):
    """A producer that may be played by several sessions, of which each fences the one before.

    It reads the partition `input` of what is prepared for reading (None: it reads nothing). A `grouped` one is a member
    of a group of its name, and a later generation of the group fences it.
    """

    name: str
    input: int | None = None
    grouped: bool = False


class Producers(Needs, frozen=True):
    """For `TransactionsOnLogs`: how many partitions records go to, and everybody who plays."""

    partitions: int
    producers: tuple[NamedProducer, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(producer.input for producer in self.producers if producer.input is not None)


class TransactionsOnLogs(ClientSession, Protocol):
    """One session plays any number of producers, each with one transaction at a time.

    A producer whose transaction did not end as asked plays no other one
    until it has begun again: whatever fails is refused from then on ("no-producer"). `Definite` means that the
    transaction was not committed and never will be; "fenced" that a later producer of the same name has begun.
    """

    def use_version(self, version: int | None) -> None:
        """Choose the version of transactions, None for the highest. Called once before the first request."""
        ...

    async def begin(self, producer: NamedProducer) -> Begun:
        """Begin as the next producer of this name, which fences the one before and ends its transaction."""
        ...

    async def transact(
        self, producer: NamedProducer, number: int, partitions: Sequence[int], *, commit: bool, wait_s: float
    ) -> Put:
        """Put one record into each partition in one transaction; wait; commit or abort."""
        ...

    async def put_late(self, producer: NamedProducer, number: int, partition: int) -> Put:
        """Put a record into the transaction that this producer aborted last, as a delayed request would.

        The producer is left after that, whatever came of it.
        """
        ...

    async def transform(
        self, producer: NamedProducer, number: int, most: int, *, commit: bool, wait_s: float
    ) -> Transformed:
        """As `transact`: read up to `most` records, put one for each, and send the new offset in the transaction.

        Raises `Definite("no-input")` where nothing is left to read; the producer may go on then.
        """
        ...

    async def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        """Read from `offset` on: what is committed and stable, or everything that is in the log."""
        ...

    async def consumed(self, producer: NamedProducer) -> int:
        """Read how far the producers of this name have read, by transactions that are committed."""
        ...
