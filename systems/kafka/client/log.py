"""The log, which is the topic "log", and the states of its partitions.

It is written and read through this node while this node believes that it leads the partition. Otherwise nothing is sent
(`not-leader`), since the refusal of a node that never led looks like that of one that led before. A fetch names the
leader epoch that the node believes in, and a node in another epoch refuses it, so the epoch of a reply is exact. The
acknowledgement of an append names no epoch.

A partition's leader is moved by giving it its replicas in another order (KIP-455) and electing the first of them
(KIP-460).
"""

import time
from collections.abc import Sequence
from typing import Final

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.coordination import Appended, Definite, Indefinite, Partitions, Polled, Record
from fencepost.systems.kafka.broker_view import NO_LEADER, BrokerView, PartitionState
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.elect_leaders import elect_preferred_leaders
from fencepost.systems.kafka.client.partition_logs import ACKS_ALL
from fencepost.systems.kafka.client.reassignments import reassign
from fencepost.systems.kafka.client.session import KafkaSession, NotLeader
from fencepost.systems.kafka.names import LOG_TOPIC
from fencepost.systems.kafka.wire.records import Producer

NO_PRODUCER_ID: Final = "no-producer-id"
#: For this long a node's answer that another node leads a partition is not asked for again.
_NOT_LEADER_S: Final = 0.2
#: The node's own time limit for moving a leader.
_MOVE_MS: Final = 10_000
_ACKS: Final = {"all": ACKS_ALL, "1": 1, "0": 0}


class _OnTheLog(KafkaSession):
    async def prepare(self, needs: Partitions) -> None:
        """Make the log."""
        least = needs.min_in_sync
        configs = {} if least is None else {"min.insync.replicas": str(least)}
        await self.make_topics({LOG_TOPIC: needs.count}, configs=lambda replicas: configs)


class KafkaLog(_OnTheLog):
    """`harness.coordination.Log`."""

    _acks = ACKS_ALL
    _idempotent = False
    _producer: Producer | None = None

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        super().__init__(node, number, connect_timeout_s=connect_timeout_s)
        self._sequences: dict[int, int] = {}
        self._elsewhere: dict[int, tuple[float, str]] = {}
        #: The partitions that this node led when it was last asked, with their epochs.
        self._led: dict[int, int] = {}

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        if acks not in _ACKS:
            raise unknown_choice("acks", acks, list(_ACKS))
        self._acks, self._idempotent = _ACKS[acks], idempotent

    async def append(self, partition: int, value: bytes) -> Appended:
        await self._epoch_of(partition)
        producer = await self._as_producer(partition)
        try:
            done = await self.node.logs.produce(LOG_TOPIC, partition, [value], acks=self._acks, producer=producer)
        except BaseException:
            # Nobody knows whether the sequence number was used, so the next append is by another producer.
            self._producer = None
            self._led.pop(partition, None)
            raise
        if producer is not None:
            self._sequences[partition] = producer.sequence + 1
        return Appended(done.base_offset)

    async def poll(self, partition: int, offset: int) -> Polled:
        epoch = await self._epoch_of(partition)
        try:
            fetched = await self.node.logs.fetch(LOG_TOPIC, partition, offset, leader_epoch=epoch)
        except BaseException:
            self._led.pop(partition, None)
            raise
        records = tuple(Record(r.offset, r.value or b"", r.epoch if r.epoch >= 0 else None) for r in fetched.records)
        return Polled(records, fetched.high_watermark, fetched.log_start_offset, epoch)

    async def _epoch_of(self, partition: int) -> int:
        """`led_epoch`, asked once while requests succeed, and not again at once where another node leads."""
        if partition in self._led:
            return self._led[partition]
        known = self._elsewhere.get(partition)
        if known is not None and time.monotonic() - known[0] <= _NOT_LEADER_S:
            raise NotLeader(known[1])
        try:
            epoch = self._led[partition] = await self.led_epoch(LOG_TOPIC, partition)
        except NotLeader as refusal:
            self._elsewhere[partition] = time.monotonic(), refusal.why
            raise
        self._elsewhere.pop(partition, None)
        return epoch

    async def _as_producer(self, partition: int) -> Producer | None:
        """The producer of the next record, with idempotence: the same one while no request fails."""
        if not self._idempotent:
            return None
        if self._producer is None:
            try:
                given = await self.node.allocate_producer_id()
            except Indefinite as error:
                # An id may be lost; nothing of the record was sent.
                raise Definite(NO_PRODUCER_ID, str(error)) from None
            self._producer = Producer(given.id, given.epoch, 0)
            self._sequences.clear()
        return self._producer._replace(sequence=self._sequences.get(partition, 0))


class KafkaPartitionStates(_OnTheLog):
    """`systems.kafka.protocols.PartitionStates`: those in the metadata of the broker that is asked."""

    async def view(self) -> BrokerView:
        known = await self.node.metadata([LOG_TOPIC])
        return BrokerView(
            self.number,
            tuple(sorted(broker.node for broker in known.brokers)),
            tuple(
                PartitionState(
                    state.partition,
                    # With an error the broker does not name the leader that it knows.
                    NO_LEADER if state.error else state.leader,
                    state.leader_epoch,
                    tuple(sorted(state.isr)),
                )
                for topic in known.topics
                for state in topic.partitions
            ),
        )

    async def move(self, partition: int, replicas: Sequence[int]) -> None:
        await reassign(self.node, LOG_TOPIC, partition, replicas, timeout_ms=_MOVE_MS)
        try:
            await elect_preferred_leaders(self.node, partitions={LOG_TOPIC: [partition]}, timeout_ms=_MOVE_MS)
        except Definite as refusal:
            # The order is changed, and whoever balances leaders may act on it later.
            raise Indefinite(refusal.code, str(refusal)) from None
