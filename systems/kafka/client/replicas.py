"""What one broker holds of each partition: the records up to its high watermark, as it alone serves them.

Followers serve a consumer's fetch too, from version 11 of the request on (KIP-392). A broker that refuses, because it
has no such replica any more or is too old, says nothing of that partition.
"""

from typing import Final

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.names import BROKER, CLIENT_PORT

_DIAL_S: Final = 2.0
#: Of a cluster with more partitions these are compared, the same on each broker.
_PARTITIONS_MAX: Final = 200
#: Internal topics are compacted by each replica for itself.
_INTERNAL: Final = "__"


async def replica_states(place: Place) -> list[ReplicaState]:
    """Read this broker's logs from their beginning; raises Definite or Indefinite. The caller bounds the wait."""
    if BROKER not in place.roles:
        return []
    node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=_DIAL_S)
    try:
        topics = sorted((await node.metadata(None)).topics, key=lambda topic: topic.name)
        partitions = [(t.name, p) for t in topics if not t.name.startswith(_INTERNAL) for p in t.partitions]
        own = [(name, p.partition) for name, p in partitions[:_PARTITIONS_MAX] if place.number in p.replicas]
        read = [await _state(node, *one) for one in own]
    finally:
        node.close()
    return [state for state in read if state is not None]


async def _state(node: KafkaNode, topic: str, partition: int) -> ReplicaState | None:
    entries: dict[str, str] = {}
    offset, end = 0, 1
    while offset < end:
        try:
            fetched = await node.logs.fetch(topic, partition, offset)
        except Definite:
            return None
        for record in fetched.records:
            by = f", by producer {record.producer_id}" if record.producer_id >= 0 else ""
            entries[f"offset {record.offset}"] = f"{record.value!r} of epoch {record.epoch}{by}"
        if fetched.next_offset == offset:
            break
        offset, end = fetched.next_offset, fetched.high_watermark
    return ReplicaState(entries=entries, position=offset, subject=f"{topic}-{partition}")
