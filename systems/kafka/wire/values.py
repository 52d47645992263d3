"""The results of Kafka's requests, as plain values.

An *epoch* is a leader epoch: of a topic partition, or of the metadata quorum where the value is about the quorum. An
*offset* is a position in one partition's log. Node ids are Kafka's (`node.id`, `broker.id`). Times are the node's.
"""

from enum import IntEnum
from typing import Final

import msgspec

from fencepost.systems.kafka.wire.records import BatchRecord


class ResourceType(IntEnum):
    """The kind of object that a dynamic configuration belongs to."""

    TOPIC = 2
    BROKER = 4


class Resource(msgspec.Struct, frozen=True):
    """The object that a configuration belongs to; a broker's name is its id, "" means all brokers."""

    type: ResourceType
    name: str


ALL_BROKERS: Final = Resource(ResourceType.BROKER, "")


class CreatedTopic(msgspec.Struct, frozen=True):
    """A topic that was created or could be created. `topic_id` is 16 zero bytes without an id (or before 2.8).

    The counts are -1 when the node does not report them.
    """

    topic_id: bytes
    partitions: int
    replication: int


class ConfigSource(IntEnum):
    """The source of a value, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigValue(msgspec.Struct, frozen=True):
    """A configuration as one node knows it; `value` is None when the node keeps it secret or has none."""

    value: str | None
    source: ConfigSource


class GroupMember(msgspec.Struct, frozen=True):
    """A member of one generation of a consumer group."""

    id: str
    generation: int


class ProducerId(msgspec.Struct, frozen=True):
    """The identity of a producer: an id, and an epoch that grows with every producer of its transactional id."""

    id: int
    epoch: int


class AppendedBatch(msgspec.Struct, frozen=True):
    """An acknowledged batch: the offset of its first record, and the start offset of the partition's log."""

    base_offset: int
    log_start_offset: int


class Fetched(msgspec.Struct, frozen=True):
    """A piece of a partition's log, and its leader's figures for the whole log.

    `next_offset` is where to continue: after the last batch (which may end with control records), or the requested
    offset if there was no batch. Consumers may read up to `high_watermark`.
    """

    records: tuple[BatchRecord, ...]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class LogPosition(msgspec.Struct, frozen=True):
    """An offset and the epoch of its record; the epoch is -1 when the node does not know it."""

    offset: int
    epoch: int


class QuorumReplica(msgspec.Struct, frozen=True):
    """A member of the metadata quorum as its leader sees it; times are wall-clock milliseconds there, -1 unknown.

    `directory` is the id of its data directory in hexadecimal digits, all 0 when the release reports none.
    """

    node: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory: str = ""


class MetadataQuorum(msgspec.Struct, frozen=True):
    """The metadata quorum, as described by a node that believes it leads it (perhaps forwarded by a broker).

    `observers` are brokers and other controllers that follow without a vote.
    """

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class BrokerAddress(msgspec.Struct, frozen=True):
    """A node as another one knows it."""

    node: int
    host: str
    port: int


class ToldPartition(msgspec.Struct, frozen=True):
    """A topic partition as one node knows it; `leader` is -1 when there is none. `error` is Kafka's number, 0 none."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: int = 0

    @property
    def is_in_sync(self) -> bool:
        """Say whether the partition has a leader and every replica is in sync."""
        return self.leader >= 0 and len(self.isr) == len(self.replicas)


class TopicView(msgspec.Struct, frozen=True):
    """A topic as one node knows it: partitions in order. `error` is Kafka's number (3: unknown topic), 0 none."""

    name: str
    topic_id: bytes
    partitions: tuple[ToldPartition, ...]
    error: int = 0


class ClusterMetadata(msgspec.Struct, frozen=True):
    """The cluster as one broker knows it.

    `controller` is the node that the broker names as the controller. In ZooKeeper mode it is the last one that the
    broker learned of (-1: none); in KRaft mode it is a random broker and means nothing.
    """

    cluster_id: str | None
    controller: int
    brokers: tuple[BrokerAddress, ...]
    topics: tuple[TopicView, ...]
