"""The protocols of `harness.coordination` that Kafka offers, over one connection to one node.

What the protocols mean on Kafka:

- A setting is `retention.bytes` of the topic with its name. The topic stays empty, so any whole number from 1 is a
  value. Keys of the form "kind/name" are in `metadata_kinds`.
- A name is a topic's name. CreateTopics with `validate_only` asks whether it is taken; that goes through the queue of
  the controller and changes nothing. A controller that knows too few brokers says so (error 38) only after it looked
  for the name, so that answer means "not taken".
- A producer id comes from InitProducerId of a broker.
- The log is the topic "log". It is written and read through this node while this node believes that it leads the
  partition. Otherwise nothing is sent (`not-leader`), since the refusal of a node that never led looks like that of one
  that led before. A fetch names the leader epoch that the node believes in, and a node in another epoch refuses it, so
  the epoch of a reply is exact. The acknowledgement of an append names no epoch.
- The state of partitions is that of the same topic, in the metadata of the broker that is asked. A partition's leader
  is moved by giving it its replicas in another order (KIP-455) and electing the first of them (KIP-460).
- Elections are those of transactional producers: see `elections`. Groups are consumer groups: see `groups`. Topics that
  come and go are in `topics`. For transactions over several partitions see `log_transactions`.

Errors are those of `systems.kafka.wire.errors`, except for "exists": a controller's refusal of a taken name.
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
    Interface,
    Leading,
    Polled,
    ReadMode,
    Record,
    Reply,
)
from fencepost.systems.kafka.broker_view import NO_LEADER, BrokerView, PartitionState
from fencepost.systems.kafka.client import metadata_kinds
from fencepost.systems.kafka.client.client import KafkaNode, Role, open_node
from fencepost.systems.kafka.client.elect_leaders import elect_preferred_leaders
from fencepost.systems.kafka.client.elections import KafkaElections
from fencepost.systems.kafka.client.groups import KafkaGroups
from fencepost.systems.kafka.client.log_listener import LogListener
from fencepost.systems.kafka.client.log_transactions import KafkaTransactions
from fencepost.systems.kafka.client.partition_logs import ACKS_ALL
from fencepost.systems.kafka.client.reassignments import reassign
from fencepost.systems.kafka.client.replicated_topics import make_topic
from fencepost.systems.kafka.client.topics import KafkaTopics
from fencepost.systems.kafka.names import LOG_TOPIC
from fencepost.systems.kafka.protocols import (
    Begun,
    CommittedAs,
    Joined,
    KafkaInterface,
    LogPiece,
    Piece,
    Put,
    Transformed,
)
from fencepost.systems.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    TOPIC_ALREADY_EXISTS,
    ServerRefusal,
)
from fencepost.systems.kafka.wire.records import Producer
from fencepost.systems.kafka.wire.values import ConfigSource, PartitionView, Resource, ResourceType

#: What a session offers, in either mode of Kafka.
INTERFACES: Final = frozenset(
    {
        Interface.ELECTION,
        KafkaInterface.METADATA,
        KafkaInterface.PRODUCER_IDS,
        Interface.LOG,
        KafkaInterface.TOPICS,
        KafkaInterface.PARTITION_STATES,
        KafkaInterface.GROUPS,
        KafkaInterface.TRANSACTIONS,
    }
)
#: With three brokers a record can be on two nodes while one is away. The short times let a broker that is cut off be
#: superseded, and one that has fallen behind leave the in-sync replicas (`replica.lag.time.max.ms`, 30 s by default),
#: while the fault lasts.
_SHORT: Final = {"brokers": 3, "broker_session": "3s", "broker_heartbeat": "500ms"}
WANTS: Final[Mapping[str, Mapping[str, object]]] = {
    Interface.ELECTION: _SHORT,
    Interface.LOG: {**_SHORT, "replica_lag": "3s"},
}
#: What operators call the node that leads; in KRaft also a role, of which the active node is meant.
LEADER_WORD: Final = "controller"
NOT_LEADER: Final = "not-leader"
NO_PRODUCER_ID: Final = "no-producer-id"
NO_SUCH_TOPIC: Final = "unknown-topic-or-partition"
_SETTING: Final = "retention.bytes"
#: For this long a node's answer that another node leads a partition is not asked for again.
_NOT_LEADER_S: Final = 0.2
_LED_POLL_S: Final = 0.05
#: The node's own time limit for moving a leader.
_MOVE_MS: Final = 10_000
_ACKS: Final = {"all": ACKS_ALL, "1": 1, "0": 0}
#: Keys of a log: its partitions, and how many in-sync replicas an append needs.
_PARTITION: Final = re.compile(r"p\d+")
_MIN_ISR: Final = "min_isr="
_GROUP: Final = re.compile(r"g\d+")
#: Producers of transactions: those that read, and those that do not.
_PRODUCER: Final = re.compile(r"[xcm]\d+")


class KafkaSession:
    """The interfaces of `INTERFACES` by way of one node; `number` is its id.

    Size: a short method for each request of each interface.
    """

    session_id: Final = None

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self.node: Final = node
        self._elections: Final = KafkaElections(node, number, connect_timeout_s=connect_timeout_s)
        self._listener: Final = LogListener(node)
        self._groups: Final = KafkaGroups(node, number, connect_timeout_s=connect_timeout_s)
        self._topics: Final = KafkaTopics(node, number)
        self._transactions: Final = KafkaTransactions(node, number, connect_timeout_s=connect_timeout_s)
        self._number = number
        self._acks = ACKS_ALL
        self._idempotent = False
        self._producer: Producer | None = None
        self._sequences: dict[int, int] = {}
        self._elsewhere: dict[int, tuple[float, str]] = {}
        #: The partitions that this node led when it was last asked, with their epochs.
        self._led: dict[int, int] = {}

    async def close(self) -> None:
        self._elections.close()
        self._groups.close()
        self._transactions.close()
        self.node.close()

    # Metadata

    async def alter(self, key: str, value: bytes | None) -> Reply:
        if metadata_kinds.is_of_a_kind(key):
            await metadata_kinds.change(self.node, key, value)
        else:
            await self.node.alter_config(_topic(key), _SETTING, None if value is None else value.decode())
        return Reply(value=value)

    async def describe(self, key: str) -> Reply:
        if metadata_kinds.is_of_a_kind(key):
            return Reply(value=await metadata_kinds.read(self.node, key))
        config = await self.node.read_config(_topic(key), _SETTING)
        if config is None or config.source is not ConfigSource.TOPIC or config.value is None:
            return Reply()
        return Reply(value=config.value.encode())

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

    async def listen(self, offset: int, last_epoch: int, wait_s: float) -> LogPiece:
        return await self._listener.listen(offset, last_epoch, wait_s)

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
        epoch = await self._led_epoch(partition)
        try:
            fetched = await self.node.logs.fetch(LOG_TOPIC, partition, offset, leader_epoch=epoch)
        except BaseException:
            self._led.pop(partition, None)
            raise
        records = tuple(Record(r.offset, r.value or b"", r.epoch if r.epoch >= 0 else None) for r in fetched.records)
        return Polled(records, fetched.high_watermark, fetched.log_start_offset, epoch)

    async def _led_epoch(self, partition: int) -> int:
        """The epoch in which this node believes that it leads the partition, asked once while requests succeed.

        Raises `Definite` when it does not lead it.
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

    # Topics

    async def make_topic(self, name: str) -> str | None:
        return await self._topics.make(name)

    async def drop_topic(self, name: str) -> None:
        await self.node.delete_topic(name)

    async def list_topics(self) -> tuple[str, ...]:
        return await self._topics.listed()

    async def put_record(self, name: str, value: bytes) -> Appended:
        return await self._topics.put(name, value)

    async def read_topic(self, name: str, offset: int) -> Polled:
        return await self._topics.read(name, offset)

    # Partition states

    async def view(self) -> BrokerView:
        known = await self.node.metadata([LOG_TOPIC])
        return BrokerView(
            self._number,
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

    # Groups

    async def join(self, group: str) -> Joined:
        return await self._groups.join(group)

    async def leave(self, group: str) -> None:
        await self._groups.leave(group)

    async def beat(self, group: str) -> None:
        await self._groups.beat(group)

    async def commit_offset(self, group: str, offset: int, *, late: bool = False) -> CommittedAs:
        return await self._groups.commit_offset(group, offset, late=late)

    async def fetch_offset(self, group: str) -> int | None:
        return await self._groups.fetch_offset(group)

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

    # Transactions

    def use_version(self, version: int | None) -> None:
        self._transactions.use_version(version)

    async def begin(self, producer: str) -> Begun:
        return await self._transactions.begin(producer)

    async def transact(
        self, producer: str, number: int, partitions: Sequence[int], *, commit: bool, wait_s: float
    ) -> Put:
        return await self._transactions.transact(producer, number, partitions, commit=commit, wait_s=wait_s)

    async def put_late(self, producer: str, number: int, partition: int) -> Put:
        return await self._transactions.put_late(producer, number, partition)

    async def transform(self, producer: str, number: int, most: int, *, commit: bool, wait_s: float) -> Transformed:
        return await self._transactions.transform(producer, number, most, commit=commit, wait_s=wait_s)

    async def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        return await self._transactions.read(partition, offset, committed=committed)

    async def consumed(self, producer: str) -> int:
        return await self._transactions.consumed(producer)

    # Before a run

    async def prepare(self, keys: Sequence[str]) -> None:
        """Create the trail of an election, what groups or transactions need, the log when the keys are its partitions,
        or else a topic for each key.

        Waits until the broker sees a leader for each partition and all replicas in sync. Idempotent.
        """
        if TRAIL in keys:
            await self._elections.prepare()
            return
        if any(_PRODUCER.fullmatch(key) for key in keys):
            await self._transactions.prepare(keys)
            return
        groups = tuple(key for key in keys if _GROUP.fullmatch(key))
        if groups:
            await self._groups.prepare(groups)
            return
        partitions = sum(1 for key in keys if _PARTITION.fullmatch(key))
        least = next((key.removeprefix(_MIN_ISR) for key in keys if key.startswith(_MIN_ISR)), None)
        named = [name for key in keys if (name := metadata_kinds.topic_to_make(key)) is not None]
        topics = {LOG_TOPIC: partitions} if partitions else dict.fromkeys(named, 1)
        configs = {"min.insync.replicas": least} if partitions and least else {}
        for name, count in topics.items():
            await make_topic(self.node, name, partitions=count, configs=lambda replicas: configs)
        while self.node.role is not Role.CONTROLLER and not await self._all_led(topics):
            await asyncio.sleep(_LED_POLL_S)

    async def _all_led(self, topics: Mapping[str, int]) -> bool:
        views = {topic.name: topic for topic in (await self.node.metadata(list(topics))).topics}
        return all(
            name in views
            and len(views[name].partitions) == partitions
            and all(view.is_in_sync for view in views[name].partitions)
            for name, partitions in topics.items()
        )


async def open_session(address: tuple[str, int], number: int, *, connect_timeout_s: float) -> KafkaSession:
    """Open a session with the node at this address; raises `Definite("not-connected")`."""
    node = await open_node(*address, connect_timeout_s=connect_timeout_s)
    return KafkaSession(node, number, connect_timeout_s=connect_timeout_s)


def _topic(key: str) -> Resource:
    return Resource(ResourceType.TOPIC, key)
