"""A session with one Kafka node: what the sessions of every interface have; `sessions` has one class for each.

Errors are those of `systems.kafka.wire.errors`; a class says where it has other ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.systems.kafka.client.client import TIMEOUT_MS, KafkaNode, ListenerRole
from fencepost.systems.kafka.client.peers import Peers
from fencepost.systems.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    TOPIC_ALREADY_EXISTS,
    ServerDoubt,
    ServerRefusal,
)

NO_SUCH_TOPIC: Final = "unknown-topic-or-partition"
#: Replicas of a topic, where there are as many brokers.
REPLICAS_MAX: Final = 3
_PREPARE_POLL_S: Final = 0.05


class NotLeader(Definite):
    """This node does not lead the partition, as it says itself; nothing else was sent."""

    def __init__(self, why: str) -> None:
        super().__init__("not-leader", why)
        self.why = why


class KafkaSession:
    """The connection to the own node, whose id is `number`, and those to the nodes that it names (`peers`)."""

    session_id: Final = None
    #: How long one request to another node waits for its answer; None: as long as the operation does.
    patience_s: float | None = None

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self.node: Final = node
        self.number: Final = number
        self.peers: Final = Peers(node, number, connect_timeout_s=connect_timeout_s, patience_s=self.patience_s)

    async def close(self) -> None:
        self.peers.close()
        self.node.close()

    async def led_epoch(self, topic: str, partition: int) -> int:
        """The epoch in which this node believes that it leads the partition; raises `NotLeader`."""
        views = [view for known in (await self.node.metadata([topic])).topics for view in known.partitions]
        view = next((view for view in views if view.partition == partition), None)
        if view is None:
            raise Definite(NO_SUCH_TOPIC, f"{topic}-{partition}")
        if view.leader != self.number:
            whose = "nobody leads it" if view.leader < 0 else f"node {view.leader} leads it"
            raise NotLeader(f"{topic}-{partition}: {whose} in epoch {view.leader_epoch}")
        return view.leader_epoch

    async def make_topics(
        self,
        topics: Mapping[str, int],
        *,
        configs: Callable[[int], Mapping[str, str]] = lambda replicas: {},
        served: Callable[[], Awaitable[object]] | None = None,
        replicas_max: int = REPLICAS_MAX,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Make topics with so many partitions, with as many replicas as there are brokers but at most `replicas_max`.

        Waits until this node, if it is a broker, sees them all, every replica is in sync, and `served` ends well. A
        topic that is there may have more partitions. `configs` gives the configuration for a number of replicas.
        """
        for name, count in topics.items():
            await self._make_topic(name, count, configs, replicas_max, timeout_ms)
        while self.node.role is not ListenerRole.CONTROLLER and not await self._are_served(topics, served):
            await asyncio.sleep(_PREPARE_POLL_S)

    async def _make_topic(
        self,
        name: str,
        partitions: int,
        configs: Callable[[int], Mapping[str, str]],
        replicas_max: int,
        timeout_ms: int,
    ) -> None:
        for replicas in range(replicas_max, 0, -1):
            try:
                await self.node.create_topic(
                    name,
                    partitions=partitions,
                    replication=replicas,
                    configs=configs(replicas),
                    timeout_ms=timeout_ms,
                )
            except (ServerRefusal, ServerDoubt) as error:
                if error.number == INVALID_REPLICATION_FACTOR and replicas > 1:
                    continue
                if error.number != TOPIC_ALREADY_EXISTS:
                    raise
            return

    async def _are_served(self, topics: Mapping[str, int], served: Callable[[], Awaitable[object]] | None) -> bool:
        try:
            if served is not None:
                await served()
        except NotSent:
            raise
        except (Definite, Indefinite):
            return False
        known = {topic.name: topic.partitions for topic in (await self.node.metadata(None)).topics}
        return all(len(known.get(name, ())) >= count for name, count in topics.items()) and all(
            view.is_in_sync for views in known.values() for view in views
        )


def all_but_one(replicas: int) -> dict[str, str]:
    """The configuration of a topic whose acknowledged records are on all replicas but one."""
    return {"min.insync.replicas": str(max(1, replicas - 1))}
