"""The requests that fencepost makes of one Kafka node, by name: one request, one answer, one outcome.

A call returns what the node answered, or raises by the table of `errors`: `Definite` when nothing happened and nothing
will, `Indefinite` otherwise. Its deadline belongs to the caller, who cancels. `timeout_ms`, where a request has one, is
the node's own patience: once it is over the node may answer with error 7, but is not bound to.

What a node is (controller, broker in KRaft mode, broker in ZooKeeper mode) is read off what it offers, since the
meaning of an error depends on it. A combined node answers by listener: as a controller on the controllers' listener.
"""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeVar

from fencepost.harness.systems.kafka.wire import log_messages as log
from fencepost.harness.systems.kafka.wire import messages
from fencepost.harness.systems.kafka.wire.connection import Connection, open_connection
from fencepost.harness.systems.kafka.wire.errors import (
    INCOMPLETE_ANSWER,
    NO_ACKNOWLEDGEMENT,
    UNREADABLE_RECORDS,
    Kind,
    answered,
    refused,
)
from fencepost.harness.systems.kafka.wire.fields import Malformed
from fencepost.harness.systems.kafka.wire.records import Producer, Record, read_batches, write_batch
from fencepost.harness.systems.kafka.wire.values import (
    Appended,
    BrokerAddress,
    Cluster,
    ConfigSource,
    ConfigValue,
    CreatedTopic,
    EpochEnd,
    Fetched,
    LogPosition,
    Metadata,
    PartitionView,
    ProducerId,
    ProducerIdBlock,
    Quorum,
    Replica,
    Resource,
    TopicView,
)

T = TypeVar("T")

ACKS_ALL: Final = -1
#: For `position`: the end of the log as a consumer sees it, and its beginning.
LATEST: Final = -1
EARLIEST: Final = -2
#: No epoch is asserted.
ANY_EPOCH: Final = -1

_METADATA_TOPIC: Final = "__cluster_metadata"
_TIMEOUT_MS: Final = 10_000
_SET: Final = 0
_DELETE: Final = 1
_CONTROLLERS: Final = 2
_BROKERS: Final = 1
#: APIs that tell one kind of node from another: Vote is for controllers, UpdateMetadata for brokers in ZooKeeper mode.
_VOTE: Final = 52
_UPDATE_METADATA: Final = 6
#: The kind of a control record, behind two bytes of version in its key.
_ABORT_MARKER: Final = b"\0\0"
_CONFIG_SOURCES: Final = {source.value: source for source in ConfigSource}

_QUORUM: Final = messages.DescribeQuorumRequest(
    topics=(
        messages.QuorumRequestTopic(
            topic_name=_METADATA_TOPIC, partitions=(messages.QuorumRequestPartition(partition_index=0),)
        ),
    )
)


class Role(StrEnum):
    """What a node is, on the listener that was dialled."""

    CONTROLLER = "controller"
    BROKER = "broker"
    ZOOKEEPER_BROKER = "zookeeper-broker"


class KafkaNode:
    """One connection to one node; made by `open_node`, used by one process, closed, never reopened."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Final = connection
        offered = connection.offered
        if _UPDATE_METADATA in offered:
            self.role = Role.ZOOKEEPER_BROKER
        else:
            self.role = Role.CONTROLLER if _VOTE in offered else Role.BROKER
        self._change = {
            Role.CONTROLLER: Kind.CHANGE,
            Role.BROKER: Kind.FORWARDED,
            Role.ZOOKEEPER_BROKER: Kind.ZOOKEEPER,
        }[self.role]

    @property
    def versions(self) -> Mapping[str, int]:
        """The version settled for each API asked so far."""
        return self.connection.versions

    def close(self) -> None:
        """Close at once. Idempotent; never raises."""
        self.connection.close()

    # Topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout_ms: int = _TIMEOUT_MS,
    ) -> CreatedTopic:
        """Create a topic; with `validate_only` ask whether it could be created, and change nothing."""
        topic = messages.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            configs=tuple(messages.TopicConfig(key, value) for key, value in (configs or {}).items()),
        )
        asked = messages.CreateTopicsRequest(topics=(topic,), timeout_ms=timeout_ms, validate_only=validate_only)
        answer = await self.connection.request(messages.CREATE_TOPICS, asked)
        result = _only(answer.topics)
        _check(Kind.VALIDATE if validate_only else self._change, result.error_code, result.error_message)
        return CreatedTopic(result.topic_id, result.num_partitions, result.replication_factor)

    async def delete_topic(self, name: str, *, timeout_ms: int = _TIMEOUT_MS) -> None:
        asked = messages.DeleteTopicsRequest(topic_names=(name,), timeout_ms=timeout_ms)
        result = _only((await self.connection.request(messages.DELETE_TOPICS, asked)).responses)
        _check(self._change, result.error_code, result.error_message)

    # Configurations

    async def alter_config(
        self, resource: Resource, key: str, value: str | None, *, validate_only: bool = False
    ) -> None:
        """Set one dynamic configuration; None takes it back."""
        change = messages.AlterableConfig(key, _SET if value is not None else _DELETE, value)
        asked = messages.IncrementalAlterConfigsRequest(
            resources=(messages.AlterConfigsResource(resource.type, resource.name, (change,)),),
            validate_only=validate_only,
        )
        result = _only((await self.connection.request(messages.INCREMENTAL_ALTER_CONFIGS, asked)).responses)
        _check(Kind.VALIDATE if validate_only else self._change, result.error_code, result.error_message)

    async def read_config(self, resource: Resource, key: str) -> ConfigValue | None:
        """What this node knows, which is its own copy: not linearizable anywhere. None when it names no value.

        Controllers before 3.7 do not offer it.
        """
        asked = messages.DescribeConfigsRequest(
            resources=(messages.DescribeConfigsResource(resource.type, resource.name, (key,)),)
        )
        result = _only((await self.connection.request(messages.DESCRIBE_CONFIGS, asked)).results)
        _check(Kind.READ, result.error_code, result.error_message)
        for config in result.configs:
            if config.name == key:
                return ConfigValue(config.value, _CONFIG_SOURCES.get(config.config_source, ConfigSource.UNKNOWN))
        return None

    # Producer ids

    async def allocate_producer_id(self) -> ProducerId:
        """An id for a producer without a transactional id, out of the block that this broker was given."""
        asked = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self.connection.request(messages.INIT_PRODUCER_ID, asked)
        _check(Kind.ALLOCATE, answer.error_code)
        return ProducerId(answer.producer_id, answer.producer_epoch)

    async def allocate_producer_ids(self, broker: int, broker_epoch: int) -> ProducerIdBlock:
        """A block of ids from the controller, in the name of a broker, which must be registered with this epoch."""
        asked = messages.AllocateProducerIdsRequest(broker, broker_epoch)
        answer = await self.connection.request(messages.ALLOCATE_PRODUCER_IDS, asked)
        _check(Kind.ALLOCATE, answer.error_code)
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)

    # The log

    async def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        acks: int = ACKS_ALL,
        producer: Producer | None = None,
        timeout_ms: int = _TIMEOUT_MS,
        timestamp_ms: int | None = None,
    ) -> Appended:
        """Append one batch. With `acks=0` nothing is answered: raises `Indefinite("no-acknowledgement")` once sent.

        `producer` makes it idempotent: a batch whose id, epoch and sequence are in the log already is not appended
        again, and the answer is that of the first. Needs `acks` of all. One with a transactional id appends to its
        transaction, which must have the partition already (`transactions.add_partition`).
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000  # for retention only
        batch = write_batch(values, timestamp_ms=timestamp_ms, producer=producer)
        transactional_id = None if producer is None else producer.transactional_id
        asked = log.ProduceRequest(
            transactional_id, acks, timeout_ms, (log.ProduceTopic(topic, (log.ProducePartition(partition, batch),)),)
        )
        if acks == 0:
            self.connection.post(log.PRODUCE, asked)
            raise refused(NO_ACKNOWLEDGEMENT)
        answer = await self.connection.request(log.PRODUCE, asked)
        result = _only(_only(answer.responses).partition_responses)
        _check(Kind.PRODUCE, result.error_code, result.error_message)
        return Appended(result.base_offset, result.log_start_offset)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        leader_epoch: int = ANY_EPOCH,
        last_epoch: int = ANY_EPOCH,
        committed: bool = False,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
    ) -> Fetched:
        """Read from `offset` on, as a consumer: up to the high watermark.

        `leader_epoch` is the epoch that the caller knows the leader by; a node at another one refuses (74, 75).
        `last_epoch` is that of the record before `offset`; a leader whose log differs there answers `diverged_at`.
        `committed` leaves out what open and aborted transactions appended, and ends before the first open one. With
        `max_wait_ms` the node waits for the first record.
        """
        asked = log.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            topics=(
                log.FetchTopic(
                    topic, (log.FetchPartition(partition, leader_epoch, offset, last_epoch, -1, max_bytes),)
                ),
            ),
        )
        answer = await self.connection.request(log.FETCH, asked)
        _check(Kind.READ, answer.error_code)
        result = _only(_only(answer.responses).partitions)
        _check(Kind.READ, result.error_code)
        try:
            batches = read_batches(result.records or b"", offset, control=committed)
        except Malformed as error:
            raise refused(UNREADABLE_RECORDS, str(error)) from None
        diverged = result.diverging_epoch
        return Fetched(
            _committed(batches.records, result.aborted_transactions or ()) if committed else batches.records,
            batches.next_offset,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            (diverged.epoch, diverged.end_offset) if diverged.epoch >= 0 else None,
        )

    async def position(
        self, topic: str, partition: int, at: int = LATEST, *, leader_epoch: int = ANY_EPOCH, committed: bool = False
    ) -> LogPosition:
        """Where the partition's log ends (`LATEST`: the high watermark), begins (`EARLIEST`) or was at a time in ms."""
        asked = log.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=(log.ListOffsetsTopic(topic, (log.ListOffsetsPartition(partition, leader_epoch, at),)),),
        )
        answer = await self.connection.request(log.LIST_OFFSETS, asked)
        result = _only(_only(answer.topics).partitions)
        _check(Kind.READ, result.error_code)
        return LogPosition(result.offset, result.leader_epoch)

    async def end_of_epoch(self, topic: str, partition: int, epoch: int, *, leader_epoch: int = ANY_EPOCH) -> EpochEnd:
        """Where `epoch` ended in the log of the partition's leader."""
        asked = log.OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(log.EpochTopic(topic, (log.EpochPartition(partition, leader_epoch, epoch),)),)
        )
        answer = await self.connection.request(log.OFFSET_FOR_LEADER_EPOCH, asked)
        result = _only(_only(answer.topics).partitions)
        _check(Kind.READ, result.error_code)
        return EpochEnd(result.leader_epoch, result.end_offset)

    # Who is who

    async def describe_quorum(self) -> Quorum:
        """The metadata quorum. A controller that does not believe to lead raises `not-leader-or-follower` (6).

        Whatever else such an answer carries (leader 0, epoch 0) is no statement. A broker forwards the question.
        """
        answer = await self.connection.request(messages.DESCRIBE_QUORUM, _QUORUM)
        _check(Kind.READ, answer.error_code, answer.error_message)
        result = _only(_only(answer.topics).partitions)
        _check(Kind.READ, result.error_code, result.error_message)
        return Quorum(
            result.leader_id,
            result.leader_epoch,
            result.high_watermark,
            tuple(map(_replica, result.current_voters)),
            tuple(map(_replica, result.observers)),
        )

    async def metadata(self, topics: Sequence[str] | None = ()) -> Metadata:
        """The cluster as this broker knows it, with these topics; None: all of them. Controllers do not offer it.

        A topic that the broker does not know is in the answer, with error 3.
        """
        asked = messages.MetadataRequest(
            topics=None if topics is None else tuple(messages.MetadataRequestTopic(name=name) for name in topics),
            allow_auto_topic_creation=False,
        )
        answer = await self.connection.request(messages.METADATA, asked)
        brokers = tuple(BrokerAddress(broker.node_id, broker.host, broker.port) for broker in answer.brokers)
        return Metadata(answer.cluster_id, answer.controller_id, brokers, tuple(map(_topic, answer.topics)))

    async def describe_cluster(self) -> Cluster:
        """A broker names the brokers (fenced ones too, where it can), a controller the controllers.

        Controllers before 3.7 do not offer it.
        """
        asked = messages.DescribeClusterRequest(
            endpoint_type=_CONTROLLERS if self.role is Role.CONTROLLER else _BROKERS,
            include_fenced_brokers=self.role is not Role.CONTROLLER,
        )
        answer = await self.connection.request(messages.DESCRIBE_CLUSTER, asked)
        _check(Kind.READ, answer.error_code, answer.error_message)
        nodes = tuple(BrokerAddress(node.broker_id, node.host, node.port, node.is_fenced) for node in answer.brokers)
        return Cluster(answer.cluster_id, answer.controller_id, nodes)


async def open_node(address: str, port: int, *, connect_timeout_s: float) -> KafkaNode:
    """A fresh connection to the node that listens there; raises `Definite("not-connected")`."""
    return KafkaNode(await open_connection(address, port, connect_timeout_s=connect_timeout_s))


def _only(items: Sequence[T]) -> T:
    """What was asked for: one item. An answer that lacks it proves nothing."""
    if len(items) != 1:
        raise refused(INCOMPLETE_ANSWER, f"{len(items)} items where one was asked for")
    return items[0]


def _check(kind: Kind, number: int, message: str | None = None) -> None:
    if number != 0:
        raise answered(kind, number, message)


def _committed(records: Sequence[Record], aborted: Sequence[log.AbortedTransaction]) -> tuple[Record, ...]:
    """Without the records of aborted transactions, as consumers leave them out (KIP-98, "Reading committed messages").

    An aborted transaction reaches from its first offset to the next abort marker of its producer.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    kept = []
    for record in records:
        while waiting and waiting[-1].first_offset <= record.offset:
            aborting.add(waiting.pop().producer_id)
        if record.control:
            if record.key is not None and record.key[2:4] == _ABORT_MARKER:
                aborting.discard(record.producer_id)
        elif record.producer_id not in aborting:
            kept.append(record)
    return tuple(kept)


def _replica(state: messages.ReplicaState) -> Replica:
    return Replica(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.replica_directory_id.hex(),
    )


def _topic(topic: messages.MetadataTopic) -> TopicView:
    partitions = sorted(map(_partition, topic.partitions), key=lambda view: view.partition)
    return TopicView(topic.name or "", topic.topic_id, tuple(partitions), topic.error_code)


def _partition(view: messages.MetadataPartition) -> PartitionView:
    return PartitionView(
        view.partition_index,
        view.leader_id,
        view.leader_epoch,
        view.isr_nodes,
        view.replica_nodes,
        view.offline_replicas,
        view.error_code,
    )
