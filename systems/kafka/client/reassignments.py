"""Giving a topic partition other replicas, or the same in another order (KIP-455)."""

from collections.abc import Sequence

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire.errors import only_item, raise_error
from fencepost.systems.kafka.wire.messages import ALTER_PARTITION_REASSIGNMENTS


async def reassign(node: KafkaNode, topic: str, partition: int, replicas: Sequence[int], *, timeout_ms: int) -> None:
    """Ask for these replicas in this order; raises by the table of `wire/errors.py`."""
    of_topic = ALTER_PARTITION_REASSIGNMENTS.request.ReassignableTopic
    order = of_topic.ReassignablePartition(partition_index=partition, replicas=list(replicas))
    request = ALTER_PARTITION_REASSIGNMENTS.request(
        timeout_ms=timeout_ms, topics=[of_topic(name=topic, partitions=[order])]
    )
    answer = await node.connection.request(ALTER_PARTITION_REASSIGNMENTS, request)
    raise_error(node.change, answer.error_code, answer.error_message)
    result = only_item(only_item(answer.responses).partitions)
    raise_error(node.change, result.error_code, result.error_message)
