"""Topics of one partition that come and go, through one node."""

import base64
from typing import Final

from fencepost.harness.coordination import Appended, Definite, Polled, Record
from fencepost.systems.kafka.client.session import REPLICAS_MAX, KafkaSession
from fencepost.systems.kafka.wire.errors import TOPIC_ALREADY_EXISTS, ServerRefusal

#: How many replicas an append needs.
_IN_SYNC: Final = 2


class KafkaTopics(KafkaSession):
    """`systems.kafka.protocols.Topics`."""

    async def make_topic(self, name: str) -> str | None:
        """Create the topic; return its id as Kafka's logs write it, None from a node that tells none."""
        alive = len((await self.node.metadata([name])).brokers)
        replicas = max(_IN_SYNC, min(REPLICAS_MAX, alive))
        try:
            configs = {"min.insync.replicas": str(_IN_SYNC)}
            made = await self.node.create_topic(name, replication=replicas, configs=configs)
        except ServerRefusal as refusal:
            if refusal.number == TOPIC_ALREADY_EXISTS:
                raise Definite("exists", str(refusal)) from None
            raise
        return base64.urlsafe_b64encode(made.topic_id).decode().rstrip("=") if any(made.topic_id) else None

    async def drop_topic(self, name: str) -> None:
        await self.node.delete_topic(name)

    async def list_topics(self) -> tuple[str, ...]:
        return tuple(sorted(topic.name for topic in (await self.node.metadata(None)).topics))

    async def put_record(self, name: str, value: bytes) -> Appended:
        await self.led_epoch(name, 0)
        return Appended((await self.node.logs.produce(name, 0, [value])).base_offset)

    async def read_topic(self, name: str, offset: int) -> Polled:
        epoch = await self.led_epoch(name, 0)
        fetched = await self.node.logs.fetch(name, 0, offset, leader_epoch=epoch)
        records = tuple(Record(r.offset, r.value or b"") for r in fetched.records)
        return Polled(records, fetched.high_watermark, fetched.log_start_offset, epoch)
