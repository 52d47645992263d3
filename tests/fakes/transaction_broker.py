"""Three Kafka brokers in memory that hold one election: a coordinator, a partition's leader; planted bugs.

What is spoken are Kafka's messages, below `systems.kafka.client.client`. Each broker sleeps for a while: what
was sent to it is served when it wakes, also when nobody waits for the answer any more. While it sleeps others
coordinate and lead. Correct unless `bug` names one of `BUGS`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.errors import CONNECTION_LOST, NOT_SENT, refused
from fencepost.systems.kafka.wire.messages import Api
from fencepost.systems.kafka.wire.records import Producer, read_batches
from tests.fakes.kafka_batches import logged, marker
from tests.fakes.store import PlantedStore

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


_FetchedTopic = FetchResponse.FetchableTopicResponse
_FetchedPartition = _FetchedTopic.PartitionData


class Entry(NamedTuple):
    """A record or, without a value, a marker; its offset is its place in the log."""

    producer: Producer | None
    value: bytes | None
    commit: bool = False


class FakeKafka(PlantedStore):
    """The whole cluster, of one transactional id and one partition."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("transactions", seed, bug)
        self.coordinator = self.leader = 1
        self.log: list[Entry] = []
        self.aborted: list[_FetchedPartition.AbortedTransaction] = []
        self.epoch = -1
        self._epoch_at_move = 0
        self._is_open = False
        self._opened_s = self._ending_until_s = 0.0
        self._first: int | None = None
        self._seen_epoch, self._next_sequence = -1, 0
        self._tasks: set[asyncio.Task[None]] = set()

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
            if api is messages.FETCH and not result.responses[0].partitions[0].records:
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
            self.aborted.append(_FetchedPartition.AbortedTransaction(producer_id=PRODUCER_ID, first_offset=self._first))
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

    def _init_producer(self, number: int, asked: InitProducerIdRequest) -> DataContainer:
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

    def _add_partitions(self, number: int, asked: AddPartitionsToTxnRequest) -> DataContainer:
        code = self._refuses(number, asked.v3_and_below_producer_epoch)
        if code == 0 and not self._is_open:
            self._is_open, self._opened_s = True, self.now_s()
        of_topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        result = of_topic.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[of_topic(name="trail", results_by_partition=[result])]
        )

    def _end_txn(self, number: int, asked: EndTxnRequest) -> DataContainer:
        code = self._refuses(number, asked.producer_epoch)
        if code == 0 and not self._is_open:
            code = 48
        if code == 0:
            self._end(commit=asked.committed and not self.hits("commit-lost", 30))
        return EndTxnResponse(error_code=code)

    def _describe(self, number: int, asked: DescribeTransactionsRequest) -> DataContainer:
        code = 16 if number != self.coordinator else 105 if self.epoch < 0 else 0
        state = DescribeTransactionsResponse.TransactionState(
            error_code=code, transaction_state="Empty", producer_id=PRODUCER_ID, producer_epoch=self.epoch
        )
        return DescribeTransactionsResponse(transaction_states=[state])

    def _produce(self, number: int, asked: ProduceRequest) -> DataContainer:
        (data,) = asked.topic_data[0].partition_data
        assert isinstance(data.records, bytes)
        (record,) = read_batches(data.records, 0).records
        by = Producer(record.producer_id, record.producer_epoch, record.sequence)
        code = self._takes(number, by) if by.id >= 0 else 0 if number == self.leader else 6
        offset = len(self.log)
        if code == 0:
            self.log.append(Entry(by if by.id >= 0 else None, record.value))
            if by.id >= 0:
                self._next_sequence += 1
                self._first = offset if self._first is None else self._first
        of_topic = ProduceResponse.TopicProduceResponse
        partition = of_topic.PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
        return ProduceResponse(responses=[of_topic(name="trail", partition_responses=[partition])])

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

    def _fetch(self, number: int, asked: FetchRequest) -> DataContainer:
        (wanted,) = asked.topics[0].partitions
        end = len(self.log) if self._first is None else self._first
        records = b"".join(self._batch(offset) for offset in range(wanted.fetch_offset, end))
        found = _FetchedPartition(
            partition_index=0,
            error_code=0 if number == self.leader else 6,
            high_watermark=len(self.log),
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=[] if self.bug == "aborted-shown" else list(self.aborted),
            records=records,
        )
        return FetchResponse(responses=[_FetchedTopic(topic="trail", partitions=[found])])

    def _batch(self, offset: int) -> bytes:
        entry = self.log[offset]
        if entry.value is not None:
            return logged(offset, entry.value, entry.producer)
        assert entry.producer is not None
        return marker(offset, entry.producer.id, entry.producer.epoch, commit=entry.commit)

    def _find(self, number: int, asked: FindCoordinatorRequest) -> DataContainer:
        return FindCoordinatorResponse(node_id=self.coordinator, host="fake", port=self.coordinator)

    def _metadata(self, number: int, asked: MetadataRequest) -> DataContainer:
        of_topic = MetadataResponse.MetadataResponseTopic
        partition = of_topic.MetadataResponsePartition(
            leader_id=self.leader, leader_epoch=0, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            brokers=[broker(node_id=number, host="fake", port=number) for number in (1, 2, 3)],
            topics=[of_topic(name="trail", partitions=[partition])],
        )

    _answers: Final[Mapping[int, Callable[["FakeKafka", int, Any], Any]]] = {
        messages.INIT_PRODUCER_ID.key: _init_producer,
        messages.ADD_PARTITIONS_TO_TXN.key: _add_partitions,
        messages.END_TXN.key: _end_txn,
        messages.DESCRIBE_TRANSACTIONS.key: _describe,
        messages.FIND_COORDINATOR.key: _find,
        messages.METADATA.key: _metadata,
        messages.PRODUCE.key: _produce,
        messages.FETCH.key: _fetch,
    }


class FakeConnection:
    """What `systems.kafka.client.client` uses of a connection."""

    offered: Final[Mapping[int, tuple[int, int]]] = {}
    versions: Final[Mapping[str, int]] = {}

    def __init__(self, cluster: FakeKafka, number: int) -> None:
        self._cluster, self._number = cluster, number
        self.ended: str | None = None

    def request(self, api: "Api[Any, Any]", message: DataContainer) -> "asyncio.Future[Any]":
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
