"""Leader election on Kafka: the leader is the transactional producer whose epoch is the newest.

What the words of `harness.coordination.Elections` mean here:

- The election's name is a transactional id. A campaign is InitProducerId: it always succeeds in the end, aborts what
  the leader before has open, and fences it. The term is the producer's epoch: the token is the producer id (48 bits)
  and the epoch (16 bits) as one number, since another id follows when the epochs of one are used up. `Held.handle`
  is the node that coordinated.
- An act is a transaction of one record in the trail, a topic of one partition: AddPartitionsToTxn (unless one is open
  already), Produce, EndTxn. It took effect when it is committed. Its position is the record's offset; a term has none.
  Behind each act the next transaction is opened at once, so that a leader that stalls does it inside of one, and its
  next record goes to the partition's leader before anybody has told it of its successor. An unguarded act is one
  record of no producer.
- Renewing asks the coordinator to keep a transaction open, which it refuses a producer that was superseded. To resign
  is to ask for another epoch for oneself, which is used for nothing (KIP-360): requests of the term that are still
  under way are fenced.
- Who leads is asked of the coordinator (DescribeTransactions). The trail is read as consumers in read_committed do.

**Three connections.** Coordinator and partition leader are whichever nodes they are, so a session asks its own node
who they are, and opens at most one connection to each. One that ends, or is refused as not being what it was taken
for, is dropped: that operation has its outcome, and the next one asks the own node again. Nothing is asked twice for
one operation, but for one answer: 51 (concurrent transactions) says that the coordinator is still ending the last
transaction, has done nothing, and is to be asked again.

**Records that may come late.** A batch carries its number in the sequence of its term. Whether one of unknown outcome
used its number is not known, and a client that guessed could take another batch's acknowledgement for its own. So
only the session that was granted a term acts in it; another one that goes on with the term is told by the coordinator
that it was superseded, or refused here, `sequence-unknown`, before anything is produced.

Source: KIP-98 (transactions), KIP-360 (epochs of one's own), KIP-890 (what old messages could do); KAFKA-17754 (a late
EndTxn may end the next transaction of its epoch).
"""

import asyncio
from collections.abc import Awaitable, Callable
from string import digits
from typing import Final, NoReturn, TypeVar

from fencepost.harness.coordination import TRAIL, Deeds, Definite, Held, Indefinite, Leading, NotSent, ReadMode, Reply
from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node
from fencepost.harness.systems.kafka.client.transactions import (
    NOBODY,
    add_partition,
    describe_transaction,
    end_transaction,
    find_coordinator,
    init_producer,
)
from fencepost.harness.systems.kafka.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REPLICATION_FACTOR,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    TOPIC_ALREADY_EXISTS,
    TRANSACTIONAL_ID_NOT_FOUND,
    ServerDoubt,
    ServerRefusal,
)
from fencepost.harness.systems.kafka.wire.records import Producer
from fencepost.harness.systems.kafka.wire.values import BrokerAddress, Fetched, ProducerId

T = TypeVar("T")

FENCED: Final = "fenced"
NOT_HELD: Final = "not-held"
LEASE_EXPIRED: Final = "lease-expired"
NO_LEADER: Final = "no-leader"
SEQUENCE_UNKNOWN: Final = "sequence-unknown"
_SUPERSEDED: Final = frozenset({INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED})
#: Refusals by a node that is what it was taken for.
_RIGHTLY_ASKED: Final = _SUPERSEDED | {INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, TRANSACTIONAL_ID_NOT_FOUND}
_EPOCH_BITS: Final = 16
_PARTITION: Final = 0
#: What is appended before a read, and is no deed.
_BARRIER: Final = b""
#: A transaction that is left alone is aborted after this; longer than leaders stall, or nobody would stall in one.
TRANSACTION_TIMEOUT_MS: Final = 6000
#: How long, and how often, a coordinator is asked that is still ending the last transaction.
_ENDING_S: Final = 1.0
_ENDING_POLL_S: Final = 0.005
#: How long a node waits for records that are not there yet, or not committed.
_FETCH_WAIT_MS: Final = 100
_PREPARE_POLL_S: Final = 0.05
_REPLICAS_MAX: Final = 3


class KafkaElections:
    """`harness.coordination.Elections` by way of one node; `number` is its node id."""

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        self._own: Final = node
        self._number: Final = number
        self._connect_timeout_s: Final = connect_timeout_s
        self._coordinator: tuple[int, KafkaNode] | None = None
        self._leader: tuple[int, KafkaNode] | None = None
        #: The election and the producer that this session was granted, the number of its next batch, and whether the
        #: coordinator it is connected to has a transaction open.
        self._term: tuple[str, ProducerId] | None = None
        self._sequence = 0
        self._is_open = False

    def close(self) -> None:
        """Close the connections to the other nodes at once. Idempotent; never raises."""
        self._leave_coordinator()
        self._leave_leader()

    # Terms

    async def acquire(self, name: str) -> Held:
        self._term = None
        producer = await self._once_ended(
            lambda: self._at_coordinator(
                name, lambda node: init_producer(node, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
            )
        )
        self._term, self._sequence, self._is_open = (name, producer), 0, False
        assert self._coordinator is not None
        return Held(token=token_of(producer), handle=str(self._coordinator[0]))

    async def renew(self) -> Reply:
        if self._term is None:
            raise Definite(LEASE_EXPIRED, "this session was granted no term")
        try:
            await self._open(*self._term)
        except Definite as refused:
            if refused.code == FENCED:
                self._term = None
                raise Definite(LEASE_EXPIRED, str(refused)) from None
            raise
        return Reply()

    async def release(self, name: str, held: Held) -> Reply:
        producer = producer_of(held)
        self._term, self._is_open = None, False
        try:
            await self._abort(name, producer)
            await self._once_ended(
                lambda: self._at_coordinator(
                    name,
                    lambda node: init_producer(node, name, timeout_ms=TRANSACTION_TIMEOUT_MS, resumed=producer),
                )
            )
        except ServerRefusal as refusal:
            _raise(refusal, NOT_HELD)
        return Reply()

    async def _abort(self, name: str, producer: ProducerId) -> None:
        """End what the producer has open, if anything. InitProducerId would end also what its successor has open."""
        try:
            await self._at_coordinator(name, lambda node: end_transaction(node, name, producer, commit=False))
        except ServerRefusal as refusal:
            if refusal.number != INVALID_TXN_STATE:
                raise

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        try:
            found = await self._at_coordinator(name, lambda node: describe_transaction(node, name))
        except ServerRefusal as refusal:
            if refusal.number == TRANSACTIONAL_ID_NOT_FOUND:
                return Leading(None)
            raise
        return Leading(token_of(found.producer) if found.producer.epoch >= 0 else None)

    # Acts

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        if not guarded:
            return await self._append(trail, deed, None)
        term = (name, producer_of(held))
        if not (self._is_open and term == self._term):
            await self._open(*term)
        if term != self._term:
            raise Definite(SEQUENCE_UNKNOWN, "another session was granted this term, and may have acted in it")
        try:
            reply = await self._append(trail, deed, Producer(*_numbers(term[1]), self._sequence, name))
        except ServerRefusal as refusal:
            _raise(refusal, FENCED)
        self._sequence += 1
        await self._commit(name, term[1])
        await self._open_next()
        return reply

    async def _append(self, trail: str, deed: str, producer: Producer | None) -> Reply:
        done = await self._at_leader(
            trail, lambda node: node.produce(trail, _PARTITION, [deed.encode()], producer=producer)
        )
        return Reply(position=done.base_offset, value_position=done.base_offset)

    async def _open(self, name: str, producer: ProducerId) -> None:
        """Have the coordinator open a transaction with the trail in it, if none is.

        Changes nothing of the trail, so whatever goes wrong is `Definite`: "fenced" when the producer was superseded.
        """
        self._is_open = False
        try:
            await self._once_ended(
                lambda: self._at_coordinator(name, lambda node: add_partition(node, name, producer, TRAIL, _PARTITION))
            )
        except ServerRefusal as refusal:
            _raise(refusal, FENCED)
        except Indefinite as doubt:
            raise Definite(doubt.code, str(doubt)) from None
        self._is_open = (name, producer) == self._term

    async def _commit(self, name: str, producer: ProducerId) -> None:
        """End the transaction that holds a record; what is not certain here is not certain of the record.

        Where it was opened: another coordinator might know nothing of it.
        """
        self._is_open = False
        try:
            if self._coordinator is None:
                raise Indefinite("not-sent", "the coordinator is gone")
            await self._once_ended(
                lambda: self._at_coordinator(name, lambda node: end_transaction(node, name, producer, commit=True))
            )
        except Definite as unsent:
            if isinstance(unsent, ServerRefusal) and unsent.number in _SUPERSEDED:
                raise Definite(FENCED, str(unsent)) from None
            # The record stands in a transaction that a later commit of this term would take with it.
            raise Indefinite(unsent.code, str(unsent)) from None

    async def _open_next(self) -> None:
        """What becomes of this is seen when the next act needs it; the last one is over."""
        assert self._term is not None
        try:
            await self._open(*self._term)
        except Definite:
            assert not self._is_open

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        """With `BARRIER` everything that stands before a record that is appended first; it is no deed.

        Waits until no transaction that began before that record is open any more. The term of a deed is the producer
        that the log has it from, where it has it from one.
        """
        end = None
        if mode is ReadMode.BARRIER:
            end = (await self._at_leader(trail, lambda node: node.produce(trail, _PARTITION, [_BARRIER]))).base_offset
        found: list[str] = []
        at = 0
        while True:
            piece = await self._piece(trail, at)
            for record in piece.records:
                if record.value and (end is None or record.offset < end):
                    by = ProducerId(record.producer_id, record.producer_epoch)
                    found.append(_named(record.value.decode(), by))
            at_end = piece.next_offset > end if end is not None else piece.next_offset == at
            if at_end:
                return Deeds(tuple(found), position=end)
            at = piece.next_offset

    async def _piece(self, trail: str, at: int) -> Fetched:
        return await self._at_leader(
            trail, lambda node: node.fetch(trail, _PARTITION, at, committed=True, max_wait_ms=_FETCH_WAIT_MS)
        )

    # Whom to ask

    async def _at_coordinator(self, name: str, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        if self._coordinator is None:
            self._coordinator = await self._connected(await self._of_own(lambda node: find_coordinator(node, name)))
        try:
            return await self._of(self._coordinator[1], request)
        except BaseException as error:
            if not _rightly_asked(error):
                self._leave_coordinator()
            raise

    async def _at_leader(self, trail: str, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        if self._leader is None:
            self._leader = await self._connected(await self._leader_of(trail))
        try:
            return await self._of(self._leader[1], request)
        except BaseException as error:
            if not _rightly_asked(error):
                self._leave_leader()
            raise

    async def _of(self, node: KafkaNode, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """A request of one node; that nothing can be sent to it ends the session only where it is the own node."""
        try:
            return await request(node)
        except NotSent as unsent:
            if node is self._own:
                raise
            raise Definite(unsent.code, str(unsent)) from None

    async def _of_own(self, request: Callable[[KafkaNode], Awaitable[T]]) -> T:
        """A question to the own node, before anything else is asked."""
        try:
            return await request(self._own)
        except Indefinite as lost:
            raise NotSent(lost.code, str(lost)) from None

    async def _leader_of(self, trail: str) -> BrokerAddress:
        seen = await self._of_own(lambda node: node.metadata([trail]))
        leaders = [view.leader for topic in seen.topics for view in topic.partitions if view.partition == _PARTITION]
        for broker in seen.brokers:
            if broker.node in leaders:
                return broker
        raise Definite(NO_LEADER, f"{trail}: led by {leaders or 'nobody'}")

    async def _connected(self, to: BrokerAddress) -> tuple[int, KafkaNode]:
        if to.node == self._number:
            return to.node, self._own
        return to.node, await open_node(to.host, to.port, connect_timeout_s=self._connect_timeout_s)

    def _leave_coordinator(self) -> None:
        left, self._coordinator = self._coordinator, None
        # Another coordinator has to be asked whether the transaction is open.
        self._is_open = False
        if left is not None and left[1] is not self._own:
            left[1].close()

    def _leave_leader(self) -> None:
        left, self._leader = self._leader, None
        if left is not None and left[1] is not self._own:
            left[1].close()

    async def _once_ended(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while the coordinator is still ending the last transaction, for a while."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + _ENDING_S
        while True:
            try:
                return await ask()
            except ServerRefusal as refusal:
                if refusal.number != CONCURRENT_TRANSACTIONS or clock() >= until_s:
                    raise
            await asyncio.sleep(_ENDING_POLL_S)

    # Before a run

    async def prepare(self) -> None:
        """The trail and the transaction log, led and in sync, and a coordinator that answers. Idempotent.

        The trail needs all replicas but one in sync, so that what was acknowledged is on two nodes of three.
        """
        for replicas in range(_REPLICAS_MAX, 0, -1):
            least = {"min.insync.replicas": str(max(1, replicas - 1))}
            try:
                await self._own.create_topic(TRAIL, replication=replicas, configs=least)
            except (ServerRefusal, ServerDoubt) as error:
                if error.number == INVALID_REPLICATION_FACTOR and replicas > 1:
                    continue
                if error.number != TOPIC_ALREADY_EXISTS:
                    raise
            break
        while not await self._is_prepared():
            await asyncio.sleep(_PREPARE_POLL_S)

    async def _is_prepared(self) -> bool:
        try:
            # Whoever is asked for. A coordinator gives its first producer an id out of a block, and has to get it.
            await self._at_coordinator(TRAIL, lambda node: node.allocate_producer_id())
        except Definite:
            return False
        topics = (await self._own.metadata(None)).topics
        views = [view for topic in topics for view in topic.partitions]
        return bool(views) and all(view.leader >= 0 and len(view.isr) == len(view.replicas) for view in views)


def token_of(producer: ProducerId) -> int:
    return producer.id << _EPOCH_BITS | producer.epoch


def producer_of(held: Held) -> ProducerId:
    return ProducerId(held.token >> _EPOCH_BITS, held.token & (1 << _EPOCH_BITS) - 1)


def _numbers(producer: ProducerId) -> tuple[int, int]:
    return producer.id, producer.epoch


def _named(deed: str, by: ProducerId) -> str:
    """The deed under the term of its producer; a deed's name begins with its token."""
    if by == NOBODY:
        return deed
    return f"{token_of(by)}{deed.lstrip(digits)}"


def _rightly_asked(error: BaseException) -> bool:
    return isinstance(error, ServerRefusal) and error.number in _RIGHTLY_ASKED


def _raise(refusal: ServerRefusal, word: str) -> NoReturn:
    """The refusal, or `word` when it says that the producer was superseded."""
    raise (Definite(word, str(refusal)) if refusal.number in _SUPERSEDED else refusal) from None
