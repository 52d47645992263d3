"""Topics of one partition that come and go, through one node."""

import base64
from typing import Final

from fencepost.harness.coordination import Appended, Definite, Polled, Record
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire.errors import TOPIC_ALREADY_EXISTS, ServerRefusal

#: Replicas of a topic, where there are as many brokers, and how many of them an append needs.
_REPLICAS_MAX: Final = 3
_IN_SYNC: Final = 2


class KafkaTopics:
    """`systems.kafka.protocols.Topics`; `number` is the node's id."""

    def __init__(self, node: KafkaNode, number: int) -> None:
        self._node, self._number = node, number

    async def make(self, name: str) -> str | None:
        """Create the topic; return its id as Kafka's logs write it, None from a node that tells none."""
        alive = len((await self._node.metadata([name])).brokers)
        replicas = max(_IN_SYNC, min(_REPLICAS_MAX, alive))
        try:
            configs = {"min.insync.replicas": str(_IN_SYNC)}
            made = await self._node.create_topic(name, replication=replicas, configs=configs)
        except ServerRefusal as refusal:
            if refusal.number == TOPIC_ALREADY_EXISTS:
                raise Definite("exists", str(refusal)) from None
            raise
        return base64.urlsafe_b64encode(made.topic_id).decode().rstrip("=") if any(made.topic_id) else None

    async def listed(self) -> tuple[str, ...]:
        return tuple(sorted(topic.name for topic in (await self._node.metadata(None)).topics))

    async def put(self, name: str, value: bytes) -> Appended:
        await self._led_epoch(name)
        return Appended((await self._node.logs.produce(name, 0, [value])).base_offset)

    async def read(self, name: str, offset: int) -> Polled:
        epoch = await self._led_epoch(name)
        fetched = await self._node.logs.fetch(name, 0, offset, leader_epoch=epoch)
        records = tuple(Record(r.offset, r.value or b"") for r in fetched.records)
        return Polled(records, fetched.high_watermark, fetched.log_start_offset, epoch)

    async def _led_epoch(self, name: str) -> int:
        """The epoch in which this node believes that it leads the partition; raises `Definite` if it does not."""
        for topic in (await self._node.metadata([name])).topics:
            for view in topic.partitions:
                if view.leader == self._number:
                    return view.leader_epoch
                raise Definite("not-leader", f"{name}: node {view.leader} leads it in epoch {view.leader_epoch}")
        raise Definite("unknown-topic-or-partition", name)
