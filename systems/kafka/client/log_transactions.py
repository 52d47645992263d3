"""Transactions over several partitions on Kafka, and over the offsets that a consumer group has reached.

What the words of `systems.kafka.protocols.TransactionsOnLogs` mean here:

- A producer's name is its transactional id. To begin is InitProducerId; the token is producer id and epoch as one
  number, as in `elections`.
- Grouped ones are members of a group of their name (KIP-447). Each node has a transactional id of its own, so
  that no producer fences another. To begin is also to join the group as a new member; whoever else is in it does not
  join again, and is left out. The token is the generation.
- Records go into the topic "out". A transaction is AddPartitionsToTxn, one Produce for each partition, and EndTxn. In
  transactions of version 2 (KIP-890) Produce 12 adds its partition, and EndTxn 5 answers with the next epoch.
- What is read stands in the topic "in", one partition for each producer that reads. How far it has come is the offset
  of a consumer group with the producer's name: AddOffsetsToTxn (version 1 only) and TxnOffsetCommit. The producer's
  epoch fences it, or that of a member its generation.
- Where a producer begins to read is asked of the group's coordinator after InitProducerId, when the transaction before
  has ended; `require_stable` makes sure of that (KIP-447).

**Outcomes.** As long as EndTxn (commit) was not sent, nothing is committed: every failure until then is `Definite`. A
producer that failed never sends another request of its epoch, so no later commit can take the records with it. Beyond
that the answer to EndTxn decides, by the table of `wire.errors`. A late Produce may still arrive after the transaction
was aborted: that is what KIP-890 is about.

Source: KIP-98, KIP-447, KIP-890; TransactionManager of Kafka's own client.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.groups import committed_offset, enter
from fencepost.systems.kafka.client.peers import SUPERSEDED
from fencepost.systems.kafka.client.session import KafkaSession, all_but_one
from fencepost.systems.kafka.client.transactions import (
    FEATURE,
    FIRST,
    GROUP,
    NO_MEMBER,
    SECOND,
    TRANSACTIONAL_ID,
    TopicOffset,
    add_offsets,
    add_partitions,
    commit_offset,
    end_transaction,
    init_producer,
)
from fencepost.systems.kafka.protocols import (
    Begun,
    NamedProducer,
    Piece,
    Producers,
    Put,
    TransactionRecord,
    Transformed,
)
from fencepost.systems.kafka.wire.errors import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    ServerDoubt,
    ServerRefusal,
)
from fencepost.systems.kafka.wire.records import BatchRecord, Producer
from fencepost.systems.kafka.wire.values import GroupMember, ProducerId

FENCED: Final = "fenced"
NO_PRODUCER: Final = "no-producer"
NO_INPUT: Final = "no-input"
NO_SHARE: Final = "no-share"
UNSUPPORTED: Final = "unsupported-transaction-version"
OUT: Final = "out"
IN: Final = "in"
#: A transaction that is left alone is aborted after this.
TRANSACTION_TIMEOUT_MS: Final = 6000
_EPOCH_BITS: Final = 16
#: How long a node waits for records that are not there yet, or not stable.
_FETCH_WAIT_MS: Final = 50
#: Records that each producer that reads finds in its partition, and how many go into one batch.
INPUT_RECORDS: Final = 20_000
_INPUT_BATCH: Final = 2000
#: A member is left out when the next generation begins, not because it was silent.
_SESSION_MS: Final = 60_000
#: How long a new generation waits for the members of the one before, which never join again.
_REBALANCE_MS: Final = 500
_FENCED_MEMBERS: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS})


class _ActiveProducer:
    """A producer of this session: its identity, the version of its transactions, its place in each sequence."""

    def __init__(self, name: str, id: ProducerId, version: int, member: GroupMember) -> None:
        #: Its transactional id.
        self.name: Final = name
        self.id = id
        self.version: Final = version
        self.member: Final = member
        self.sequences: dict[int, int] = {}
        #: The next record to read; None before the group's coordinator was asked.
        self.position: int | None = None
        #: The identity and the sequences of the transaction that was aborted last.
        self.aborted: tuple[ProducerId, dict[int, int]] | None = None

    def ended(self, following: ProducerId, *, commit: bool) -> None:
        self.aborted = None if commit else (self.id, dict(self.sequences))
        if following != self.id:
            self.id, self.sequences = following, {}


class KafkaTransactions(KafkaSession):
    """`systems.kafka.protocols.TransactionsOnLogs` by way of one node."""

    #: Of each request: a transaction has several.
    patience_s = 1.5
    _version: int | None = None
    #: How many partitions the records go to; 0 before the own node was asked.
    _partitions = 0

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        super().__init__(node, number, connect_timeout_s=connect_timeout_s)
        self._producers: dict[str, _ActiveProducer] = {}

    def use_version(self, version: int | None) -> None:
        self._version = version

    async def begin(self, producer: NamedProducer) -> Begun:
        self._producers.pop(producer.name, None)
        offered = SECOND if self.node.connection.features.get(FEATURE, 0) >= SECOND else FIRST
        version = self._version or offered
        if version > offered:
            raise Definite(UNSUPPORTED, f"{FEATURE} of the cluster is below {version}")
        name = self._transactional_id(producer)
        begun = await self._init(name)
        member, token = NO_MEMBER, begun.id << _EPOCH_BITS | begun.epoch
        if producer.grouped:
            member = await self._join(producer.name)
            token = member.generation
        self._producers[producer.name] = _ActiveProducer(name, begun, version, member)
        return Begun(token, version)

    def _transactional_id(self, producer: NamedProducer) -> str:
        return f"{producer.name}-{self.number}" if producer.grouped else producer.name

    async def _init(self, name: str) -> ProducerId:
        return await self.peers.at_coordinator(
            TRANSACTIONAL_ID, name, lambda node: init_producer(node, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
        )

    async def _join(self, group: str) -> GroupMember:
        """Become the one member of a new generation that has the input."""
        member, share = await enter(
            lambda request, _: self.peers.at_coordinator(GROUP, group, request),
            group,
            "",
            session_ms=_SESSION_MS,
            rebalance_ms=_REBALANCE_MS,
        )
        if share != 0:
            raise Definite(NO_SHARE, f"another member of generation {member.generation} of {group} has the input")
        return member

    async def transact(
        self, producer: NamedProducer, number: int, partitions: Sequence[int], *, commit: bool, wait_s: float
    ) -> Put:
        async with self._playing(producer) as active:
            records = await self._put(active, {p: [b"%d" % number] for p in partitions})
            await asyncio.sleep(wait_s)
        await self._end(producer, active, commit=commit)
        return Put(records)

    async def put_late(self, producer: NamedProducer, number: int, partition: int) -> Put:
        async with self._playing(producer) as active:
            self._producers.pop(producer.name, None)
            if active.aborted is None:
                raise Definite(NO_PRODUCER, f"{producer.name} has aborted no transaction")
            old, sequences = active.aborted
            by = Producer(old.id, old.epoch, sequences.get(partition, 0), active.name, active.version == SECOND)
            return Put(((partition, await self._append(partition, [b"%d" % number], by)),))

    async def transform(
        self, producer: NamedProducer, number: int, most: int, *, commit: bool, wait_s: float
    ) -> Transformed:
        async with self._playing(producer) as active:
            at, count = await self._input(producer, active, most)
            partitions = await self._partition_count()
            values: dict[int, list[bytes]] = {}
            for offset in range(at, at + count):
                values.setdefault(offset % partitions, []).append(b"%d %d" % (number, offset))
            records = await self._put(active, values)
            await asyncio.sleep(wait_s)
            await self._send_offset(producer, active, at + count)
        await self._end(producer, active, commit=commit)
        if commit:
            active.position = at + count
        return Transformed(records, at, count)

    async def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        fetched = await self.peers.at_leader(
            OUT,
            partition,
            lambda node: node.logs.fetch(OUT, partition, offset, committed=committed, max_wait_ms=_FETCH_WAIT_MS),
        )
        records = tuple(map(_record, fetched.records))
        return Piece(records, fetched.next_offset, fetched.last_stable_offset, fetched.high_watermark)

    async def consumed(self, producer: NamedProducer) -> int:
        name, partition = producer.name, _input_of(producer)
        return max(
            0,
            await self.peers.at_coordinator(
                GROUP, name, lambda node: committed_offset(node, name, IN, partition, require_stable=True)
            ),
        )

    # Inside a transaction

    @asynccontextmanager
    async def _playing(self, producer: NamedProducer) -> AsyncIterator[_ActiveProducer]:
        """All of a transaction but its end: whatever fails is `Definite`, and the producer is left."""
        active = self._producers.get(producer.name)
        if active is None:
            raise Definite(NO_PRODUCER, f"{producer.name} has not begun in this session, or has failed")
        try:
            yield active
        except BaseException as error:
            if not (isinstance(error, Definite) and error.code == NO_INPUT):
                self._producers.pop(producer.name, None)
            if isinstance(error, ServerRefusal) and error.number in SUPERSEDED:
                raise Definite(FENCED, str(error)) from None
            if isinstance(error, ServerRefusal | ServerDoubt) and error.number in _FENCED_MEMBERS:
                raise Definite(FENCED, str(error)) from None
            if isinstance(error, Indefinite):
                raise Definite(error.code, str(error)) from None
            raise

    async def _put(self, active: _ActiveProducer, values: Mapping[int, Sequence[bytes]]) -> tuple[tuple[int, int], ...]:
        if active.version == FIRST:
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID,
                active.name,
                lambda node: add_partitions(node, active.name, active.id, OUT, tuple(values)),
            )
        records: list[tuple[int, int]] = []
        for partition, own in values.items():
            sequence = active.sequences.get(partition, 0)
            by = Producer(active.id.id, active.id.epoch, sequence, active.name, active.version == SECOND)
            offset = await self._append(partition, own, by)
            active.sequences[partition] = sequence + len(own)
            records += [(partition, offset + i) for i in range(len(own))]
        return tuple(records)

    async def _append(self, partition: int, values: Sequence[bytes], producer: Producer) -> int:
        done = await self.peers.at_leader(
            OUT, partition, lambda node: node.logs.produce(OUT, partition, values, producer=producer)
        )
        return done.base_offset

    async def _input(self, producer: NamedProducer, active: _ActiveProducer, most: int) -> tuple[int, int]:
        """The offset of the next record to read, and how many are read, at least one."""
        if active.position is None:
            active.position = await self.consumed(producer)
        at, partition = active.position, _input_of(producer)
        fetched = await self.peers.at_leader(
            IN, partition, lambda node: node.logs.fetch(IN, partition, at, max_wait_ms=_FETCH_WAIT_MS)
        )
        count = min(most, len(fetched.records))
        if count == 0:
            raise Definite(NO_INPUT, f"{IN}-{partition} ends at {at}")
        return at, count

    async def _send_offset(self, producer: NamedProducer, active: _ActiveProducer, offset: int) -> None:
        if active.version == FIRST:
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID, active.name, lambda node: add_offsets(node, active.name, active.id, producer.name)
            )
        at = TopicOffset(IN, _input_of(producer), offset)
        await self.peers.at_coordinator(
            GROUP,
            producer.name,
            lambda node: commit_offset(
                node, active.name, active.id, producer.name, at, version=active.version, member=active.member
            ),
        )

    async def _end(self, producer: NamedProducer, active: _ActiveProducer, *, commit: bool) -> None:
        """End the transaction; an abort of unknown outcome is `Definite`, since nothing is ever committed then."""
        try:
            following = await self.peers.at_coordinator(
                TRANSACTIONAL_ID,
                active.name,
                lambda node: end_transaction(node, active.name, active.id, commit=commit, version=active.version),
            )
        except BaseException as error:
            self._producers.pop(producer.name, None)
            if isinstance(error, ServerRefusal) and error.number in SUPERSEDED:
                raise Definite(FENCED, str(error)) from None
            if isinstance(error, Indefinite) and not commit:
                raise Definite(error.code, str(error)) from None
            raise
        active.ended(following, commit=commit)

    async def _partition_count(self) -> int:
        if not self._partitions:
            self._partitions = sum(len(topic.partitions) for topic in (await self.node.metadata([OUT])).topics)
        return self._partitions

    # Before a run

    async def prepare(self, needs: Producers) -> None:
        """Make both topics, wait until every producer is served, and fill the topic that is read. Idempotent."""
        inputs = needs.inputs

        async def served() -> None:
            for producer in needs.producers:
                await self._init(self._transactional_id(producer))
                if producer.input is not None:
                    await self.consumed(producer)

        topics = {OUT: needs.partitions, IN: len(inputs)}
        made = {topic: count for topic, count in topics.items() if count}
        await self.make_topics(made, configs=all_but_one, served=served)
        for number in inputs:
            await self._fill(number)

    async def _fill(self, partition: int) -> None:
        values = [b"%d" % i for i in range(_INPUT_BATCH)]
        while (
            await self.peers.at_leader(IN, partition, lambda node: node.logs.position(IN, partition))
        ).offset < INPUT_RECORDS:
            await self.peers.at_leader(IN, partition, lambda node: node.logs.produce(IN, partition, values))


def _input_of(producer: NamedProducer) -> int:
    assert producer.input is not None, f"{producer.name} reads nothing"
    return producer.input


def _record(record: BatchRecord) -> TransactionRecord:
    number, _, read = (record.value or b"").partition(b" ")
    return TransactionRecord(record.offset, int(number), int(read) if read else None)
