"""Metadata by way of one node: settings, names, and the metadata log.

A name is a topic's name. CreateTopics with `validate_only` asks whether it is taken; that goes through the queue of the
controller and changes nothing. A controller that knows too few brokers says so (error 38) only after it looked for the
name, so that answer means "not taken". A taken name is refused with "exists".
"""

from fencepost.harness.coordination import Definite, Reply
from fencepost.systems.kafka.client import metadata_kinds
from fencepost.systems.kafka.client.log_listener import KafkaLogListener
from fencepost.systems.kafka.protocols import MetadataKind, MetadataNeeds
from fencepost.systems.kafka.wire.errors import INVALID_REPLICATION_FACTOR, TOPIC_ALREADY_EXISTS, ServerRefusal

#: With more in one request, ZooKeeper mode is busy with one topic for many seconds.
_PARTITIONS_PER_TOPIC = 500
_BYSTANDERS_MS = 60_000


class KafkaMetadata(KafkaLogListener):
    """`systems.kafka.protocols.Metadata`, with the log where the node is a controller."""

    async def alter(self, kind: MetadataKind, name: str, value: bytes | None) -> Reply:
        await metadata_kinds.change(self.node, kind, name, value)
        return Reply(value=value)

    async def describe(self, kind: MetadataKind, name: str) -> Reply:
        return Reply(value=await metadata_kinds.read(self.node, kind, name))

    async def create_name(self, name: str, partitions: int = 1) -> Reply:
        try:
            await self.node.create_topic(name, partitions=partitions)
        except ServerRefusal as refusal:
            if refusal.number == TOPIC_ALREADY_EXISTS:
                raise Definite("exists", str(refusal)) from None
            raise
        return Reply(value=b"1")

    async def name_taken(self, name: str) -> Reply:
        try:
            await self.node.create_topic(name, validate_only=True)
        except ServerRefusal as refusal:
            if refusal.number == TOPIC_ALREADY_EXISTS:
                return Reply(value=b"1")
            if refusal.number != INVALID_REPLICATION_FACTOR:
                raise
        return Reply()

    async def prepare(self, needs: MetadataNeeds) -> None:
        """Make the topics with these names, and the bystanders."""
        await self.make_topics(dict.fromkeys(needs.names, 1))
        left = range(0, needs.bystanders, _PARTITIONS_PER_TOPIC)
        sizes = {f"bystander-{at}": min(needs.bystanders - at, _PARTITIONS_PER_TOPIC) for at in left}
        await self.make_topics(sizes, replicas_max=2, timeout_ms=_BYSTANDERS_MS)
