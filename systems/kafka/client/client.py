"""The requests to one Kafka node by name: one request, one answer, one outcome.

A call returns the node's answer or raises by the table of `wire/errors.py`: `Definite` when nothing happened and
nothing will, `Indefinite` otherwise. The caller sets the deadline and cancels the call. `timeout_ms`, where a request
has one, is the node's own time limit; after it the node may answer with error 7, but need not.

The meaning of an error depends on what the node is: a controller, a broker in KRaft mode, or a broker in ZooKeeper
mode. The APIs that the node offers show which. A combined node answers as a controller on the controllers' listener.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from fencepost.systems.kafka.client.partition_logs import PartitionLogs
from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.codec import id_bytes
from fencepost.systems.kafka.wire.connection import KafkaConnection, open_connection
from fencepost.systems.kafka.wire.errors import RequestKind, only_item, raise_error
from fencepost.systems.kafka.wire.values import (
    BrokerAddress,
    ClusterMetadata,
    ConfigSource,
    ConfigValue,
    CreatedTopic,
    MetadataQuorum,
    ProducerId,
    QuorumReplica,
    Resource,
    ToldPartition,
    TopicView,
)

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import DescribeQuorumRequest, DescribeQuorumResponse
    from kafka.protocol.metadata.metadata import MetadataResponse

TIMEOUT_MS: Final = 10_000
_SET: Final = 0
_DELETE: Final = 1
#: The APIs that identify a node: controllers offer Vote, brokers in ZooKeeper mode UpdateMetadata.
_VOTE: Final = 52
_UPDATE_METADATA: Final = 6
_CONFIG_SOURCES: Final = {source.value: source for source in ConfigSource}


class ListenerRole(StrEnum):
    """What a node is on the listener of this connection."""

    CONTROLLER = "controller"
    BROKER = "broker"
    ZOOKEEPER_BROKER = "zookeeper-broker"


class KafkaNode:
    """One connection to one node; made by `open_node`, used by one process, closed, never reopened."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.connection: Final = connection
        self.logs: Final = PartitionLogs(connection)
        offered = connection.offered
        if _UPDATE_METADATA in offered:
            self.role = ListenerRole.ZOOKEEPER_BROKER
        else:
            self.role = ListenerRole.CONTROLLER if _VOTE in offered else ListenerRole.BROKER
        #: What an error of a request that changes metadata proves.
        self.change = {
            ListenerRole.CONTROLLER: RequestKind.CHANGE,
            ListenerRole.BROKER: RequestKind.FORWARDED,
            ListenerRole.ZOOKEEPER_BROKER: RequestKind.ZOOKEEPER,
        }[self.role]

    @property
    def versions(self) -> Mapping[str, int]:
        """The version in use for each API that was requested so far."""
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
        timeout_ms: int = TIMEOUT_MS,
    ) -> CreatedTopic:
        """Create a topic; with `validate_only` only ask whether it could be created."""
        new = messages.CREATE_TOPICS.request.CreatableTopic
        topic = new(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            configs=[new.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = messages.CREATE_TOPICS.request(topics=[topic], timeout_ms=timeout_ms, validate_only=validate_only)
        answer = await self.connection.request(messages.CREATE_TOPICS, request)
        result = only_item(answer.topics)
        raise_error(RequestKind.VALIDATE if validate_only else self.change, result.error_code, result.error_message)
        return CreatedTopic(id_bytes(result.topic_id), result.num_partitions, result.replication_factor)

    async def delete_topic(self, name: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        request = messages.DELETE_TOPICS.request(topic_names=[name], timeout_ms=timeout_ms)
        result = only_item((await self.connection.request(messages.DELETE_TOPICS, request)).responses)
        raise_error(self.change, result.error_code, result.error_message)

    # Configurations

    async def alter_config(
        self, resource: Resource, key: str, value: str | None, *, validate_only: bool = False
    ) -> None:
        """Set one dynamic configuration; None removes it."""
        altered = messages.INCREMENTAL_ALTER_CONFIGS.request.AlterConfigsResource
        operation = _SET if value is not None else _DELETE
        change = altered.AlterableConfig(name=key, config_operation=operation, value=value)
        request = messages.INCREMENTAL_ALTER_CONFIGS.request(
            resources=[altered(resource_type=resource.type, resource_name=resource.name, configs=[change])],
            validate_only=validate_only,
        )
        result = only_item((await self.connection.request(messages.INCREMENTAL_ALTER_CONFIGS, request)).responses)
        raise_error(RequestKind.VALIDATE if validate_only else self.change, result.error_code, result.error_message)

    async def read_config(self, resource: Resource, key: str) -> ConfigValue | None:
        """Read a configuration from this node's own copy (linearizable nowhere); None when it has no value.

        Controllers before 3.7 do not offer it.
        """
        described = messages.DESCRIBE_CONFIGS.request.DescribeConfigsResource(
            resource_type=resource.type, resource_name=resource.name, configuration_keys=[key]
        )
        request = messages.DESCRIBE_CONFIGS.request(resources=[described])
        result = only_item((await self.connection.request(messages.DESCRIBE_CONFIGS, request)).results)
        raise_error(RequestKind.READ, result.error_code, result.error_message)
        for config in result.configs:
            if config.name == key:
                return ConfigValue(config.value, _CONFIG_SOURCES.get(config.config_source, ConfigSource.UNKNOWN))
        return None

    # Producer ids

    async def allocate_producer_id(self) -> ProducerId:
        """Get an id for a producer without a transactional id, from the block that this broker has."""
        request = messages.INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self.connection.request(messages.INIT_PRODUCER_ID, request)
        raise_error(RequestKind.ALLOCATE, answer.error_code)
        return ProducerId(answer.producer_id, answer.producer_epoch)

    # Who is who

    async def describe_quorum(self) -> MetadataQuorum:
        """Describe the metadata quorum. A controller that does not lead it raises `not-leader-or-follower` (6).

        The rest of such an answer (leader 0, epoch 0) states nothing. A broker forwards the request to a controller.
        """
        answer = await self.connection.request(messages.DESCRIBE_QUORUM, _of_the_quorum())
        raise_error(RequestKind.READ, answer.error_code, answer.error_message)
        result = only_item(only_item(answer.topics).partitions)
        raise_error(RequestKind.READ, result.error_code, result.error_message)
        return MetadataQuorum(
            result.leader_id,
            result.leader_epoch,
            result.high_watermark,
            tuple(map(_replica, result.current_voters)),
            tuple(map(_replica, result.observers)),
        )

    async def metadata(self, topics: Sequence[str] | None = ()) -> ClusterMetadata:
        """Read the cluster as this broker knows it, with these topics; None: all. Controllers do not offer it.

        A topic that the broker does not know is in the answer, with error 3.
        """
        named = messages.METADATA.request.MetadataRequestTopic
        request = messages.METADATA.request(
            topics=None if topics is None else [named(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        answer = await self.connection.request(messages.METADATA, request)
        brokers = tuple(BrokerAddress(broker.node_id, broker.host, broker.port) for broker in answer.brokers)
        return ClusterMetadata(answer.cluster_id, answer.controller_id, brokers, tuple(map(_topic, answer.topics)))


async def open_node(address: str, port: int, *, connect_timeout_s: float) -> KafkaNode:
    """Open a connection to the node at this address; raises `Definite("not-connected")`."""
    return KafkaNode(await open_connection(address, port, connect_timeout_s=connect_timeout_s))


@asynccontextmanager
async def asking(address: tuple[str, int], timeout_s: float) -> AsyncIterator[KafkaNode]:
    """A connection for some questions, which all of it may take so long for, closed at the end."""
    async with asyncio.timeout(timeout_s):
        node = await open_node(*address, connect_timeout_s=timeout_s)
        try:
            yield node
        finally:
            node.close()


@cache
def _of_the_quorum() -> "DescribeQuorumRequest":
    """The same object each time: a connection encodes it once."""
    of_topic = messages.DESCRIBE_QUORUM.request.TopicData
    partition = of_topic.PartitionData(partition_index=0)
    return messages.DESCRIBE_QUORUM.request(
        topics=[of_topic(topic_name=messages.METADATA_TOPIC, partitions=[partition])]
    )


def _replica(state: "DescribeQuorumResponse.TopicData.PartitionData.ReplicaState") -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        id_bytes(state.replica_directory_id).hex(),
    )


def _topic(topic: "MetadataResponse.MetadataResponseTopic") -> TopicView:
    partitions = sorted(map(_partition, topic.partitions), key=lambda view: view.partition)
    return TopicView(topic.name or "", id_bytes(topic.topic_id), tuple(partitions), topic.error_code)


def _partition(view: "MetadataResponse.MetadataResponseTopic.MetadataResponsePartition") -> ToldPartition:
    return ToldPartition(
        view.partition_index,
        view.leader_id,
        view.leader_epoch,
        tuple(view.isr_nodes),
        tuple(view.replica_nodes),
        tuple(view.offline_replicas),
        view.error_code,
    )
