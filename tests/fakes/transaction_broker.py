"""Three Kafka brokers in memory that hold one election: a coordinator, a partition's leader; planted bugs.

What is spoken are Kafka's messages, below `systems.kafka.client.client`. Each broker sleeps for a while: what
was sent to it is served when it wakes, also when nobody waits for the answer any more. While it sleeps others
coordinate and lead. Correct unless `bug` names one of `BUGS`.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fencepost.systems.kafka.wire import log_messages as log
from fencepost.systems.kafka.wire import transaction_messages as txn
from fencepost.systems.kafka.wire.errors import CONNECTION_LOST, NOT_SENT, refused
from fencepost.systems.kafka.wire.fields import Body
from fencepost.systems.kafka.wire.messages import (
    INIT_PRODUCER_ID,
    METADATA,
    Api,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from fencepost.systems.kafka.wire.records import Producer, read_batches
from tests.fakes.kafka_batches import logged, marker

NODES: Final = ("b1", "b2", "b3")
PRODUCER_ID: Final = 7
TRANSACTION_TIMEOUT_S: Final = 6.0
_ASLEEP_S: Final = {1: (4.0, 7.0), 2: (9.0, 12.0), 3: (14.0, 17.0)}
_SUPERSEDED_S: Final = 1.0
_ENDING_S: Final = 0.01
_LOSS_ONE_IN: Final = 400

#: What each bug does, and the anomalies of which one must be found.
BUGS: Final = {
    "no-fence": ("neither the coordinator nor the leader looks at epochs", {"old-term-acted", "acted-after-its-term"}),
    "leader-takes-old-epochs": (
        "the partition's leader takes records of any epoch, and the next commit takes them with it",
        {"old-term-acted", "refused-act-took-effect"},
    ),
    "epoch-not-bumped": ("one campaign in four gets the epoch of the one before", {"same-term-twice"}),
    "epoch-forgotten": ("a new coordinator has missed the last epochs", {"same-term-twice", "term-went-back"}),
    "commit-lost": ("one acknowledged commit in thirty is an abort", {"lost-act"}),
    "aborted-shown": (
        "readers are not told of what was aborted",
        {"old-term-acted", "refused-act-took-effect", "acted-after-its-term"},
    ),
}


class Entry(NamedTuple):
    """A record or, without a value, a marker; its offset is its place in the log."""

    producer: Producer | None
    value: bytes | None
    commit: bool = False


class FakeKafka:
    """The whole cluster, of one transactional id and one partition."""

    def __init__(self, seed: int, bug: str | None) -> None:
        self.random: Final = random.Random(f"transactions-{seed}")
        self.bug: Final = bug
        self.coordinator = self.leader = 1
        self.log: list[Entry] = []
        self.aborted: list[log.AbortedTransaction] = []
        self.epoch = -1
        self._epoch_at_move = 0
        self._is_open = False
        self._opened_s = self._ending_until_s = 0.0
        self._first: int | None = None
        self._seen_epoch, self._next_sequence = -1, 0
        self._tasks: set[asyncio.Task[None]] = set()

    def hits(self, bug: str, one_in: int) -> bool:
        return self.bug == bug and self.random.randrange(one_in) == 0

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def connect(self, number: int) -> "FakeConnection":
        return FakeConnection(self, number)

    def send(self, number: int, api: "Api[Any, Any]", message: Any, answer: "asyncio.Future[Any]") -> None:
        task = asyncio.get_running_loop().create_task(self._serve(number, api, message, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, number: int, api: "Api[Any, Any]", message: Any, answer: "asyncio.Future[Any]") -> None:
        await asyncio.sleep(self.random.expovariate(1 / 0.002))
        fate = self.random.randrange(_LOSS_ONE_IN)
        from_s, to_s = _ASLEEP_S[number]
        if from_s <= self.now_s() < to_s:
            await asyncio.sleep(to_s - self.now_s())
        result: Any = None
        if fate != 0:
            self._move()
            result = self._answers[api.key](self, number, message)
            if api is log.FETCH and not result.responses[0].partitions[0].records:
                await asyncio.sleep(message.max_wait_ms / 1000)
            await asyncio.sleep(self.random.expovariate(1 / 0.002))
        if answer.done():
            return
        if fate <= 1:
            answer.set_exception(refused(CONNECTION_LOST))
        else:
            answer.set_result(result)

    def _move(self) -> None:
        """What a broker does that sleeps goes to the next one; transactions that were left alone end."""
        for number, (from_s, to_s) in _ASLEEP_S.items():
            if from_s + _SUPERSEDED_S <= self.now_s() < to_s:
                successor = number % len(NODES) + 1
                if self.coordinator == number:
                    self.coordinator = successor
                    if self.bug == "epoch-forgotten":
                        self.epoch = self._epoch_at_move
                    self._epoch_at_move = self.epoch
                if self.leader == number:
                    self.leader = successor
        if self._is_open and self.now_s() > self._opened_s + TRANSACTION_TIMEOUT_S:
            self.epoch += 1
            self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        if self._first is not None and not commit:
            self.aborted.append(log.AbortedTransaction(PRODUCER_ID, self._first))
        self.log.append(Entry(Producer(PRODUCER_ID, self.epoch, -1), None, commit))
        if self.epoch > self._seen_epoch:
            self._seen_epoch, self._next_sequence = self.epoch, 0
        self._is_open, self._first = False, None
        self._ending_until_s = self.now_s() + _ENDING_S

    def _refuses(self, number: int, epoch: int) -> int:
        if number != self.coordinator:
            return 16
        if epoch != self.epoch and self.bug != "no-fence":
            return 90
        return 51 if self.now_s() < self._ending_until_s else 0

    def _init_producer(self, number: int, asked: InitProducerIdRequest) -> Body:
        if number != self.coordinator:
            return InitProducerIdResponse(error_code=16)
        if self._is_open:
            self.epoch += 1
            self._end(commit=False)
            return InitProducerIdResponse(error_code=51)
        if self.now_s() < self._ending_until_s:
            return InitProducerIdResponse(error_code=51)
        if asked.producer_epoch not in (-1, self.epoch):
            return InitProducerIdResponse(error_code=90)
        if not (self.epoch >= 0 and self.hits("epoch-not-bumped", 4)):
            self.epoch += 1
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _add_partitions(self, number: int, asked: txn.AddPartitionsToTxnRequest) -> Body:
        code = self._refuses(number, asked.v3_and_below_producer_epoch)
        if code == 0 and not self._is_open:
            self._is_open, self._opened_s = True, self.now_s()
        result = txn.AddedPartitionResult(0, code)
        return txn.AddPartitionsToTxnResponse(0, (txn.AddedTopicResult("trail", (result,)),))

    def _end_txn(self, number: int, asked: txn.EndTxnRequest) -> Body:
        code = self._refuses(number, asked.producer_epoch)
        if code == 0 and not self._is_open:
            code = 48
        if code == 0:
            self._end(commit=asked.committed and not self.hits("commit-lost", 30))
        return txn.EndTxnResponse(error_code=code)

    def _describe(self, number: int, asked: txn.DescribeTransactionsRequest) -> Body:
        code = 16 if number != self.coordinator else 105 if self.epoch < 0 else 0
        state = txn.TransactionState(code, "election", "Empty", 6000, 0, PRODUCER_ID, self.epoch)
        return txn.DescribeTransactionsResponse(0, (state,))

    def _produce(self, number: int, asked: log.ProduceRequest) -> Body:
        (data,) = asked.topic_data[0].partition_data
        (record,) = read_batches(data.records or b"", 0).records
        by = Producer(record.producer_id, record.producer_epoch, record.sequence)
        code = self._takes(number, by) if by.id >= 0 else 0 if number == self.leader else 6
        offset = len(self.log)
        if code == 0:
            self.log.append(Entry(by if by.id >= 0 else None, record.value))
            if by.id >= 0:
                self._next_sequence += 1
                self._first = offset if self._first is None else self._first
        partition = log.ProducePartitionResponse(0, code, offset)
        return log.ProduceResponse((log.ProduceTopicResponse("trail", (partition,)),))

    def _takes(self, number: int, by: Producer) -> int:
        if number != self.leader:
            return 6
        if self.bug in ("no-fence", "leader-takes-old-epochs"):
            return 0
        if by.epoch < self._seen_epoch:
            return 47
        if not self._is_open or by.epoch != self.epoch:
            return 48
        if by.epoch > self._seen_epoch:
            self._seen_epoch, self._next_sequence = by.epoch, 0
        return 0 if by.sequence == self._next_sequence else 45

    def _fetch(self, number: int, asked: log.FetchRequest) -> Body:
        (wanted,) = asked.topics[0].partitions
        end = len(self.log) if self._first is None else self._first
        records = b"".join(self._batch(offset) for offset in range(wanted.fetch_offset, end))
        found = log.FetchPartitionResponse(
            0,
            0 if number == self.leader else 6,
            len(self.log),
            end,
            0,
            aborted_transactions=() if self.bug == "aborted-shown" else tuple(self.aborted),
            records=records,
        )
        return log.FetchResponse(responses=(log.FetchTopicResponse("trail", (found,)),))

    def _batch(self, offset: int) -> bytes:
        entry = self.log[offset]
        if entry.value is not None:
            return logged(offset, entry.value, entry.producer)
        assert entry.producer is not None
        return marker(offset, entry.producer.id, entry.producer.epoch, commit=entry.commit)

    def _find(self, number: int, asked: txn.FindCoordinatorRequest) -> Body:
        return txn.FindCoordinatorResponse(0, 0, None, self.coordinator, "fake", self.coordinator)

    def _metadata(self, number: int, asked: MetadataRequest) -> Body:
        partition = MetadataPartition(0, 0, self.leader, 0, (1, 2, 3), (1, 2, 3))
        brokers = tuple(MetadataBroker(number, "fake", number) for number in (1, 2, 3))
        return MetadataResponse(brokers=brokers, topics=(MetadataTopic(0, "trail", partitions=(partition,)),))

    _answers: Final[Mapping[int, Callable[["FakeKafka", int, Any], Any]]] = {
        INIT_PRODUCER_ID.key: _init_producer,
        txn.ADD_PARTITIONS_TO_TXN.key: _add_partitions,
        txn.END_TXN.key: _end_txn,
        txn.DESCRIBE_TRANSACTIONS.key: _describe,
        txn.FIND_COORDINATOR.key: _find,
        METADATA.key: _metadata,
        log.PRODUCE.key: _produce,
        log.FETCH.key: _fetch,
    }


class FakeConnection:
    """What `systems.kafka.client.client` uses of a connection."""

    offered: Final[Mapping[int, tuple[int, int]]] = {}
    versions: Final[Mapping[str, int]] = {}

    def __init__(self, cluster: FakeKafka, number: int) -> None:
        self._cluster, self._number = cluster, number
        self.ended: str | None = None

    def request(self, api: "Api[Any, Any]", message: Body) -> "asyncio.Future[Any]":
        if self.ended is not None:
            raise refused(NOT_SENT, self.ended)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(self._watch)
        self._cluster.send(self._number, api, message, answer)
        return answer

    def _watch(self, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled() and answer.exception() is not None:
            self.ended = "lost"

    def close(self) -> None:
        self.ended = "closed"
