"""Giving a topic partition other replicas, or the same in another order (KIP-455)."""

from collections.abc import Sequence
from typing import Final

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire.errors import only_item, raise_error
from fencepost.systems.kafka.wire.fields import Body, Int16, Int32, Text
from fencepost.systems.kafka.wire.messages import Api


class ReassignPartition(Body, frozen=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class ReassignTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[ReassignPartition, ...] = ()


class AlterPartitionReassignmentsRequest(Body, frozen=True):
    timeout_ms: Int32 = 60000
    topics: tuple[ReassignTopic, ...] = ()


class ReassignPartitionResult(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None


class ReassignTopicResult(Body, frozen=True):
    name: Text = ""
    partitions: tuple[ReassignPartitionResult, ...] = ()


class AlterPartitionReassignmentsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    responses: tuple[ReassignTopicResult, ...] = ()


ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    "AlterPartitionReassignments",
    45,
    (0, 0),
    0,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def reassign(node: KafkaNode, topic: str, partition: int, replicas: Sequence[int], *, timeout_ms: int) -> None:
    """Ask for these replicas in this order; raises by the table of `wire/errors.py`."""
    order = ReassignTopic(topic, (ReassignPartition(partition, tuple(replicas)),))
    request = AlterPartitionReassignmentsRequest(timeout_ms, (order,))
    answer = await node.connection.request(ALTER_PARTITION_REASSIGNMENTS, request)
    raise_error(node.change, answer.error_code, answer.error_message)
    result = only_item(only_item(answer.responses).partitions)
    raise_error(node.change, result.error_code, result.error_message)
