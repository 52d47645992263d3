"""Leader election on Kafka: the leader is the transactional producer whose epoch is the newest.

What the words of `harness.coordination.Elections` mean here:

- The election's name is a transactional id. A campaign is InitProducerId: it always succeeds in the end, aborts what
  the leader before has open, and fences it. The term is the producer's epoch: the token is the producer id (48 bits)
  and the epoch (16 bits) as one number, since another id follows when the epochs of one are used up. `Held.handle`
  is the node that coordinated.
- An act is a transaction of one record in the trail, a topic of one partition: AddPartitionsToTxn (unless one is open
  already), Produce, EndTxn. It took effect when it is committed. Its position is the record's offset; a term has none.
  After each act the next transaction is opened at once. So a leader that stalls does so inside a transaction, and its
  next record goes to the partition's leader before the leader can learn of its successor. An unguarded act is one
  record without a producer.
- Renewing asks the coordinator to keep a transaction open; the coordinator refuses that to a superseded producer.
  Resigning asks for another epoch for the same producer and uses it for nothing (KIP-360): requests of the term that
  are still under way are then fenced.
- Who leads is asked of the coordinator (DescribeTransactions). The trail is read as consumers in read_committed do.

**Records that may come late.** A batch carries its number in the sequence of its term. When the outcome of a batch is
unknown, nobody knows whether its number was used, and a client that guessed could take another batch's acknowledgement
for its own. So only the session that was granted a term acts in it. Another session that goes on with the term learns
from the coordinator that the term was superseded, or is refused here (`sequence-unknown`) before it produces anything.

Source: KIP-98 (transactions), KIP-360 (epochs of one's own), KIP-890 (what old messages could do); KAFKA-17754 (a late
EndTxn may end the next transaction of its epoch).
"""

from string import digits
from typing import Final, NoReturn

from fencepost.harness.coordination import TRAIL, Deeds, Definite, Held, Indefinite, Keys, Leading, ReadMode, Reply
from fencepost.systems.kafka.client.peers import SUPERSEDED, Peer
from fencepost.systems.kafka.client.session import KafkaSession, all_but_one
from fencepost.systems.kafka.client.transactions import (
    NOBODY,
    TRANSACTIONAL_ID,
    add_partition,
    describe_transaction,
    end_transaction,
    init_producer,
)
from fencepost.systems.kafka.wire.errors import (
    INVALID_TXN_STATE,
    TRANSACTIONAL_ID_NOT_FOUND,
    ServerRefusal,
)
from fencepost.systems.kafka.wire.records import Producer
from fencepost.systems.kafka.wire.values import Fetched, ProducerId

FENCED: Final = "fenced"
NOT_HELD: Final = "not-held"
LEASE_EXPIRED: Final = "lease-expired"
SEQUENCE_UNKNOWN: Final = "sequence-unknown"
#: The trail has one partition.
PARTITION: Final = 0
_EPOCH_BITS: Final = 16
#: Appended before a barrier read; it is no deed.
_BARRIER: Final = b""
#: A transaction that is left alone is aborted after this; it is longer than leaders stall, so that they stall in one.
TRANSACTION_TIMEOUT_MS: Final = 6000
#: How long a node waits for records that are not there yet, or not committed.
_FETCH_WAIT_MS: Final = 100


class KafkaElections(KafkaSession):
    """`harness.coordination.Elections` by way of one node."""

    #: The election and the producer that this session was granted, and the number of its next batch.
    _term: tuple[str, ProducerId] | None = None
    _sequence = 0
    #: Where the term has a transaction open; another coordinator has to be asked.
    _opened_at: Peer | None = None

    # Terms

    async def acquire(self, name: str) -> Held:
        self._term = None
        producer = await self.peers.at_coordinator(
            TRANSACTIONAL_ID, name, lambda node: init_producer(node, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
        )
        self._term, self._sequence, self._opened_at = (name, producer), 0, None
        by = self._coordinator(name)
        assert by is not None
        return Held(token=token_of(producer), handle=str(by.number))

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
        self._term = self._opened_at = None
        try:
            await self._abort(name, producer)
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID,
                name,
                lambda node: init_producer(node, name, timeout_ms=TRANSACTION_TIMEOUT_MS, resumed=producer),
            )
        except ServerRefusal as refusal:
            _raise(refusal, NOT_HELD)
        return Reply()

    async def _abort(self, name: str, producer: ProducerId) -> None:
        """End what the producer has open, if anything. InitProducerId would also end what its successor has open."""
        try:
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID, name, lambda node: end_transaction(node, name, producer, commit=False)
            )
        except ServerRefusal as refusal:
            if refusal.number != INVALID_TXN_STATE:
                raise

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        try:
            description = await self.peers.at_coordinator(
                TRANSACTIONAL_ID, name, lambda node: describe_transaction(node, name)
            )
        except ServerRefusal as refusal:
            if refusal.number == TRANSACTIONAL_ID_NOT_FOUND:
                return Leading(None)
            raise
        return Leading(token_of(description.producer) if description.producer.epoch >= 0 else None)

    # Acts

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        if not guarded:
            return await self._append(trail, deed, None)
        term = (name, producer_of(held))
        if not (self._is_open() and term == self._term):
            await self._open(*term)
        if term != self._term:
            raise Definite(SEQUENCE_UNKNOWN, "another session was granted this term, and may have acted in it")
        try:
            reply = await self._append(trail, deed, Producer(term[1].id, term[1].epoch, self._sequence, name))
        except ServerRefusal as refusal:
            _raise(refusal, FENCED)
        self._sequence += 1
        await self._commit(name, term[1])
        await self._open_next()
        return reply

    async def _append(self, trail: str, deed: str, producer: Producer | None) -> Reply:
        done = await self.peers.at_leader(
            trail, PARTITION, lambda node: node.logs.produce(trail, PARTITION, [deed.encode()], producer=producer)
        )
        return Reply(position=done.base_offset, value_position=done.base_offset)

    def _coordinator(self, name: str) -> Peer | None:
        return self.peers.coordinator(TRANSACTIONAL_ID, name)

    def _is_open(self) -> bool:
        """Whether the coordinator that this session is connected to has a transaction of the term open."""
        if self._term is None or self._opened_at is None:
            return False
        return self._opened_at is self._coordinator(self._term[0])

    async def _open(self, name: str, producer: ProducerId) -> None:
        """Have the coordinator open a transaction with the trail in it, if none is open.

        That changes nothing in the trail, so every failure is `Definite`: "fenced" when the producer was superseded.
        """
        self._opened_at = None
        try:
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID, name, lambda node: add_partition(node, name, producer, TRAIL, PARTITION)
            )
        except ServerRefusal as refusal:
            _raise(refusal, FENCED)
        except Indefinite as doubt:
            raise Definite(doubt.code, str(doubt)) from None
        if (name, producer) == self._term:
            self._opened_at = self._coordinator(name)

    async def _commit(self, name: str, producer: ProducerId) -> None:
        """Commit the transaction that holds a record, at the coordinator where it was opened.

        Raises:
            Definite: "fenced", when the producer was superseded: the record is not committed and never will be.
            Indefinite: in every other case of failure; the record may be committed, now or by a later act of the term.
        """
        self._opened_at = None
        try:
            if self._coordinator(name) is None:
                raise Indefinite("not-sent", "the coordinator is gone")
            await self.peers.at_coordinator(
                TRANSACTIONAL_ID, name, lambda node: end_transaction(node, name, producer, commit=True)
            )
        except Definite as unsent:
            if isinstance(unsent, ServerRefusal) and unsent.number in SUPERSEDED:
                raise Definite(FENCED, str(unsent)) from None
            # The record stands in a transaction that a later commit of this term would take with it.
            raise Indefinite(unsent.code, str(unsent)) from None

    async def _open_next(self) -> None:
        """Open the next transaction; a failure shows when the next act needs it, since this act is over."""
        assert self._term is not None
        try:
            await self._open(*self._term)
        except Definite:
            assert not self._is_open()

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        """Read the trail; with `BARRIER` up to a record that is appended first and is no deed itself.

        A barrier read waits until every transaction that began before that record has ended. A deed is listed under the
        term of the producer that the log names for it, where it names one.
        """
        end = None
        if mode is ReadMode.BARRIER:
            end = (
                await self.peers.at_leader(
                    trail, PARTITION, lambda node: node.logs.produce(trail, PARTITION, [_BARRIER])
                )
            ).base_offset
        deeds: list[str] = []
        at = 0
        while True:
            piece = await self._piece(trail, at)
            for record in piece.records:
                if record.value and (end is None or record.offset < end):
                    by = ProducerId(record.producer_id, record.producer_epoch)
                    deeds.append(_named(record.value.decode(), by))
            at_end = piece.next_offset > end if end is not None else piece.next_offset == at
            if at_end:
                return Deeds(tuple(deeds), position=end)
            at = piece.next_offset

    async def _piece(self, trail: str, at: int) -> Fetched:
        return await self.peers.at_leader(
            trail,
            PARTITION,
            lambda node: node.logs.fetch(trail, PARTITION, at, committed=True, max_wait_ms=_FETCH_WAIT_MS),
        )

    async def prepare(self, needs: Keys) -> None:
        """Make the trail and the transaction log; wait until a coordinator answers."""
        # For any transactional id. A coordinator gives its first producer an id out of a block that it must get.
        await self.make_topics(
            dict.fromkeys(needs.names, 1),
            configs=all_but_one,
            served=lambda: self.peers.at_coordinator(TRANSACTIONAL_ID, TRAIL, lambda node: node.allocate_producer_id()),
        )


def token_of(producer: ProducerId) -> int:
    """The fencing token of a producer: its id and epoch as one number that grows."""
    return producer.id << _EPOCH_BITS | producer.epoch


def producer_of(held: Held) -> ProducerId:
    """The producer whose token this is."""
    return ProducerId(held.token >> _EPOCH_BITS, held.token & (1 << _EPOCH_BITS) - 1)


def _named(deed: str, by: ProducerId) -> str:
    """The deed with the token of its producer in front, where the log names one; a deed begins with a token."""
    if by == NOBODY:
        return deed
    return f"{token_of(by)}{deed.lstrip(digits)}"


def _raise(refusal: ServerRefusal, word: str) -> NoReturn:
    """Raise the refusal, or `Definite(word)` where it says that the producer was superseded."""
    raise (Definite(word, str(refusal)) if refusal.number in SUPERSEDED else refusal) from None
