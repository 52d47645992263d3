"""Making topics before a run: with as many replicas as there are brokers, led and in sync."""

from collections.abc import Callable, Mapping
from typing import Final

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    TOPIC_ALREADY_EXISTS,
    ServerDoubt,
    ServerRefusal,
)

_REPLICAS_MAX: Final = 3


async def make_topic(
    node: KafkaNode, name: str, *, partitions: int = 1, configs: Callable[[int], Mapping[str, str]]
) -> None:
    """Create the topic if it is absent, with as many replicas as there are brokers but at most three. Idempotent.

    `configs` gives the topic's configuration for a number of replicas. Raises by the table of `wire/errors.py`.
    """
    for replicas in range(_REPLICAS_MAX, 0, -1):
        try:
            await node.create_topic(name, partitions=partitions, replication=replicas, configs=configs(replicas))
        except (ServerRefusal, ServerDoubt) as error:
            if error.number == INVALID_REPLICATION_FACTOR and replicas > 1:
                continue
            if error.number != TOPIC_ALREADY_EXISTS:
                raise
        return
