"""The leader of each topic partition, and electing the preferred leaders, through any broker."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.client.elect_leaders import elect_preferred_leaders
from fencepost.systems.kafka.contract.partition_leaders import PartitionReign

T = TypeVar("T")


async def partition_reigns(brokers: Sequence[Place], port: int, timeout_s: float) -> dict[str, PartitionReign]:
    """The reigns by "topic-number", from the first broker that answers; raises `Definite` when none does."""
    names = {place.number: place.name for place in brokers}

    async def ask(node: KafkaNode) -> dict[str, PartitionReign]:
        return {
            f"{topic.name}-{view.partition}": PartitionReign(
                leader=names.get(view.leader),
                epoch=view.leader_epoch,
                preferred=names.get(view.replicas[0]),
                in_sync=view.replicas[0] in view.isr,
            )
            for topic in (await node.metadata(None)).topics
            for view in topic.partitions
        }

    return await _first(brokers, port, timeout_s, ask)


async def elect_preferred(brokers: Sequence[Place], port: int, timeout_s: float) -> None:
    """Ask for the election; in ZooKeeper mode only the controller accepts it. The metadata shows the results."""
    await _first(
        brokers, port, timeout_s, lambda node: elect_preferred_leaders(node, timeout_ms=round(timeout_s * 1e3))
    )


async def _first(brokers: Sequence[Place], port: int, timeout_s: float, ask: Callable[[KafkaNode], Awaitable[T]]) -> T:
    """The answer of the first broker that gives one; `timeout_s` is the limit for all of them together.

    Raises:
        Indefinite: a broker may have acted without an answer.
        Definite: no broker acted.
    """
    refused = []
    doubtful = False
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    for place in brokers:
        node = None
        try:
            async with asyncio.timeout_at(deadline_s):
                node = await open_node(*place.dial(port), connect_timeout_s=timeout_s / 2)
                return await ask(node)
        except Definite as error:
            refused.append(f"{place.name}: {error}")
        except (Indefinite, TimeoutError) as error:
            doubtful |= node is not None
            refused.append(f"{place.name}: {str(error) or 'no answer'}")
        finally:
            if node is not None:
                node.close()
    raise (Indefinite if doubtful else Definite)("no-broker", "; ".join(refused))
