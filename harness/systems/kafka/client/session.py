"""The protocols of `harness.coordination` that Kafka offers, over one connection to one node.

What the words mean here:

- A setting is `retention.bytes` of a topic of its name, which stays empty: any whole number from 1 will do as a value.
- A name is a topic's. Asking whether it is taken is CreateTopics with `validate_only`, which passes through the
  controller's queue and changes nothing. Where a controller knows too few brokers it says so (error 38) only after it
  looked for the name, so that is "not taken".
- A producer id is what InitProducerId of a broker gives.
- The log is the topic "log". It is written and read through this node while this node believes to lead the partition;
  elsewhere nothing is sent (`not-leader`), since the refusal of a node that never led cannot be told from that of one
  that ceased to. Fetches name the leader epoch that the node believed in, and a node at another one refuses them: so
  the epoch of a reply is exact. The acknowledgement of an append names none.
- Elections are those of transactional producers: see `elections`.

Errors are those of `harness.systems.kafka.wire.errors`, but for "exists": a controller's own refusal of a name.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.coordination import (
    TRAIL,
    Appended,
    Deeds,
    Definite,
    Held,
    Indefinite,
    Leading,
    Polled,
    ReadMode,
    Record,
    Reply,
)
from fencepost.harness.systems.kafka.client.client import ACKS_ALL, KafkaNode, Role, open_node
from fencepost.harness.systems.kafka.client.elections import KafkaElections
from fencepost.harness.systems.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    TOPIC_ALREADY_EXISTS,
    ServerDoubt,
    ServerRefusal,
)
from fencepost.harness.systems.kafka.wire.records import Producer
from fencepost.harness.systems.kafka.wire.values import ConfigSource, PartitionView, Resource, ResourceType

LOG_TOPIC: Final = "log"
NOT_LEADER: Final = "not-leader"
NO_PRODUCER_ID: Final = "no-producer-id"
NO_SUCH_TOPIC: Final = "unknown-topic-or-partition"
_SETTING: Final = "retention.bytes"
#: How long a node's word on who leads a partition is taken as current when it says: not this node.
_NOT_LEADER_S: Final = 0.2
_LED_POLL_S: Final = 0.05
_ACKS: Final = {"all": ACKS_ALL, "1": 1, "0": 0}
#: Keys of a log: its partitions, and how many in-sync replicas an append needs.
_PARTITION: Final = re.compile(r"p\d+")
_MIN_ISR: Final = "min_isr="
_REPLICAS_MAX: Final = 3


class KafkaSession:
    """`Metadata`, `ProducerIds`, `Log` and `Elections` of one node; `number` is its node id."""

    session_id: Final = None

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self.node: Final = node
        self._elections: Final = KafkaElections(node, number, connect_timeout_s=connect_timeout_s)
        self._number = number
        self._acks = ACKS_ALL
        self._idempotent = False
        self._producer: Producer | None = None
        self._sequences: dict[int, int] = {}
        self._elsewhere: dict[int, tuple[float, str]] = {}
        #: Partitions that this node led when last asked, with their epochs.
        self._led: dict[int, int] = {}

    async def close(self) -> None:
        self._elections.close()
        self.node.close()

    # Metadata

    async def alter(self, key: str, value: bytes) -> Reply:
        await self.node.alter_config(_topic(key), _SETTING, value.decode())
        return Reply(value=value)

    async def describe(self, key: str) -> Reply:
        found = await self.node.read_config(_topic(key), _SETTING)
        if found is None or found.source is not ConfigSource.TOPIC or found.value is None:
            return Reply()
        return Reply(value=found.value.encode())

    async def create_name(self, name: str) -> Reply:
        try:
            await self.node.create_topic(name)
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

    # Producer ids

    async def allocate(self) -> int:
        return (await self.node.allocate_producer_id()).id

    # The log

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        if acks not in _ACKS:
            raise unknown_choice("acks", acks, list(_ACKS))
        self._acks, self._idempotent = _ACKS[acks], idempotent

    async def append(self, partition: int, value: bytes) -> Appended:
        await self._led_epoch(partition)
        producer = await self._as_producer(partition)
        try:
            done = await self.node.produce(LOG_TOPIC, partition, [value], acks=self._acks, producer=producer)
        except BaseException:
            # Whether the sequence was used is not known in general: the next append is another producer's.
            self._producer = None
            self._led.pop(partition, None)
            raise
        if producer is not None:
            self._sequences[partition] = producer.sequence + 1
        return Appended(done.base_offset)

    async def poll(self, partition: int, offset: int) -> Polled:
        epoch = await self._led_epoch(partition)
        try:
            found = await self.node.fetch(LOG_TOPIC, partition, offset, leader_epoch=epoch)
        except BaseException:
            self._led.pop(partition, None)
            raise
        records = tuple(Record(r.offset, r.value or b"", r.epoch if r.epoch >= 0 else None) for r in found.records)
        return Polled(records, found.high_watermark, found.log_start_offset, epoch)

    async def _led_epoch(self, partition: int) -> int:
        """The epoch in which this node believes to lead the partition, asked once while that goes well.

        Raises `Definite` when it does not.
        """
        if partition in self._led:
            return self._led[partition]
        known = self._elsewhere.get(partition)
        if known is None or time.monotonic() - known[0] > _NOT_LEADER_S:
            view = await self._view(partition)
            if view.leader == self._number:
                self._elsewhere.pop(partition, None)
                self._led[partition] = view.leader_epoch
                return view.leader_epoch
            whose = "nobody leads it" if view.leader < 0 else f"node {view.leader} leads it"
            known = self._elsewhere[partition] = (time.monotonic(), f"{whose} in epoch {view.leader_epoch}")
        raise Definite(NOT_LEADER, f"{LOG_TOPIC}-{partition}: {known[1]}")

    async def _view(self, partition: int) -> PartitionView:
        topics = (await self.node.metadata([LOG_TOPIC])).topics
        for topic in topics:
            for view in topic.partitions:
                if view.partition == partition:
                    return view
        raise Definite(NO_SUCH_TOPIC, f"{LOG_TOPIC}-{partition}")

    async def _as_producer(self, partition: int) -> Producer | None:
        """Whom the next record is from, with idempotence: one producer for as long as nothing goes wrong."""
        if not self._idempotent:
            return None
        if self._producer is None:
            try:
                given = await self.node.allocate_producer_id()
            except Indefinite as error:
                # An id may be lost; of the record nothing was sent.
                raise Definite(NO_PRODUCER_ID, str(error)) from None
            self._producer = Producer(given.id, given.epoch, 0)
            self._sequences.clear()
        return self._producer._replace(sequence=self._sequences.get(partition, 0))

    # Elections

    async def acquire(self, name: str) -> Held:
        return await self._elections.acquire(name)

    async def renew(self) -> Reply:
        return await self._elections.renew()

    async def release(self, name: str, held: Held) -> Reply:
        return await self._elections.release(name, held)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        return await self._elections.leader(name, mode)

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        return await self._elections.act(trail, deed, name, held, guarded=guarded)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        return await self._elections.deeds(trail, mode)

    # Before a run

    async def prepare(self, keys: Sequence[str]) -> None:
        """The trail of an election, or the log when the keys are its partitions, else a topic for each. Idempotent.

        A broker returns once it knows leaders of all of them and every replica is in sync.
        """
        if TRAIL in keys:
            await self._elections.prepare()
            return
        partitions = sum(1 for key in keys if _PARTITION.fullmatch(key))
        least = next((key.removeprefix(_MIN_ISR) for key in keys if key.startswith(_MIN_ISR)), None)
        asked = {LOG_TOPIC: partitions} if partitions else dict.fromkeys(keys, 1)
        for name, count in asked.items():
            await self._make(name, count, {"min.insync.replicas": least} if partitions and least else {})
        while self.node.role is not Role.CONTROLLER and not await self._all_led(asked):
            await asyncio.sleep(_LED_POLL_S)

    async def _make(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """With as many replicas as there are brokers, but at most three."""
        for replicas in range(_REPLICAS_MAX, 0, -1):
            try:
                await self.node.create_topic(name, partitions=partitions, replication=replicas, configs=configs)
            except (ServerRefusal, ServerDoubt) as error:
                if error.number == INVALID_REPLICATION_FACTOR and replicas > 1:
                    continue
                if error.number != TOPIC_ALREADY_EXISTS:
                    raise
            return

    async def _all_led(self, asked: Mapping[str, int]) -> bool:
        found = {topic.name: topic for topic in (await self.node.metadata(list(asked))).topics}
        return all(
            name in found
            and len(found[name].partitions) == partitions
            and all(view.leader >= 0 and len(view.isr) == len(view.replicas) for view in found[name].partitions)
            for name, partitions in asked.items()
        )


async def open_session(address: tuple[str, int], number: int, *, connect_timeout_s: float) -> KafkaSession:
    """A fresh connection to the node that listens there; raises `Definite("not-connected")`."""
    node = await open_node(*address, connect_timeout_s=connect_timeout_s)
    return KafkaSession(node, number, connect_timeout_s=connect_timeout_s)


def _topic(key: str) -> Resource:
    return Resource(ResourceType.TOPIC, key)
