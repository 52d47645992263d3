"""What is wrong with brokers, from each broker's own view of the cluster; the same with and without ZooKeeper."""

import asyncio
from collections.abc import Sequence
from typing import Final

from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.wire.values import Metadata

#: The time limit of one question to one node, connection included.
ASK_S: Final = 1.0


def brokers_wrong(brokers: Sequence[Place], views: Sequence[Metadata]) -> str | None:
    """What is wrong, in words; None when each broker knows all brokers and sees every partition led and in sync."""
    numbers = {place.number for place in brokers}
    for place, view in zip(brokers, views, strict=True):
        absent = numbers - {broker.node for broker in view.brokers}
        if absent:
            return f"{place.name} does not know of {', '.join(p.name for p in brokers if p.number in absent)}"
        for topic in view.topics:
            for partition in topic.partitions:
                if not partition.is_in_sync:
                    return f"{topic.name}-{partition.partition} has leader {partition.leader}, in sync {partition.isr}"
    return None


def lists_itself(place: Place, view: Metadata) -> bool:
    """Whether a broker lists itself among the brokers; a fenced broker does not."""
    return any(broker.node == place.number for broker in view.brokers)


async def view_of(place: Place) -> Metadata:
    """The cluster as this broker knows it, with every topic."""
    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return await node.metadata(None)
        finally:
            node.close()
