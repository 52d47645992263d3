"""Two probes of the remaining nodes, repeated from the moment when the signal was sent.

*A metadata change*: CreateTopics with a new name, one partition and two replicas, sent to the controller of each
remaining node itself (KRaft brokers would forward and repeat it). Each node has three connections, and each connection
sends the next request a few milliseconds after the last answer, so that one hanging request holds nothing back. The
first acceptance counts. ZooKeeper mode accepts once the partition has a leader, KRaft once the record is committed.

*A produce on every partition*: each remaining broker gets one Produce with acks=all for all partitions that have not
acknowledged yet. It refuses those that it does not lead, and waits at most 100 ms for replicas. After a round without
any acknowledgement only 100 partitions are tried, the next 100 each time, until one acknowledges: requests for
thousands would slow down the failover that is measured. The first acknowledgement of the last partition counts; it may
be seen two such rounds late.

Refused and lost requests are sent again, and each refusal is counted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.client.partition_logs import ACKS_ALL
from fencepost.systems.kafka.wire.errors import CODES, NOT_CONTROLLER, UNKNOWN_CODE, ServerDoubt, ServerRefusal
from fencepost.systems.kafka.wire.messages import PRODUCE
from fencepost.systems.kafka.wire.records import write_batch

if TYPE_CHECKING:
    from kafka.protocol.producer.produce import ProduceRequest

#: Host and port of a listener.
Address = tuple[str, int]
Partition = tuple[str, int]

_DIAL_S: Final = 0.5
_AGAIN_S: Final = 0.01
_REDIAL_S: Final = 0.02
#: How long each connection of a node waits for an answer; one waits briefly, so that a lost request is soon replaced.
_PATIENCE_S: Final = (1.0, 3.0, 10.0)
_PRODUCE_WAIT_MS: Final = 100
#: Partitions in one request while no partition acknowledges.
SCOUTS: Final = 100
_PRODUCE_PATIENCE_S: Final = 10.0
_PROBE_REPLICAS: Final = 2

_Refused = (Definite, Indefinite, TimeoutError, OSError)


class Line:
    """A lasting connection to one listener, opened again when it is lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._node: KafkaNode | None = None

    async def node(self) -> KafkaNode:
        if self._node is None or self._node.connection.ended is not None:
            self._node = await open_node(*self.address, connect_timeout_s=_DIAL_S)
        return self._node

    def close(self) -> None:
        if self._node is not None:
            self._node.close()
            self._node = None


async def _opened(line: Line) -> None:
    await line.node()


class MetadataProbe:
    """When and by which node the first metadata change was accepted; times are of `time.monotonic`."""

    def __init__(self, controllers: Mapping[str, Address], names: str) -> None:
        self._lines = [
            (node, Line(address), patience_s) for node, address in controllers.items() for patience_s in _PATIENCE_S
        ]
        self._names = names
        self._count = 0
        self.accepted_at: float | None = None
        self.accepted_by: str | None = None
        self.refusals: Counter[str] = Counter()
        #: Topics that were created, or may have been.
        self.made: set[str] = set()

    async def open(self) -> None:
        """Connect before the measurement, so that it does not include connecting."""
        await gathered([_opened(line) for _, line, _ in self._lines])

    async def run(self) -> None:
        """Send changes until one is accepted."""
        await first_of([self._ask(node, line, patience_s) for node, line, patience_s in self._lines])

    async def _ask(self, node: str, line: Line, patience_s: float) -> None:
        while self.accepted_at is None:
            self._count += 1
            name = f"{self._names}-{self._count}"
            self.made.add(name)
            try:
                async with asyncio.timeout(patience_s):
                    await (await line.node()).create_topic(
                        name, replication=_PROBE_REPLICAS, timeout_ms=round(patience_s * 1000)
                    )
            except _Refused as error:
                self.refusals[_word(error)] += 1
                # None of these nodes led before, so "not controller" proves that nothing was created.
                if isinstance(error, Definite) or getattr(error, "number", None) == NOT_CONTROLLER:
                    self.made.discard(name)
                if not isinstance(error, ServerRefusal | ServerDoubt):
                    line.close()
                    await asyncio.sleep(_REDIAL_S)
                await asyncio.sleep(_AGAIN_S)
                continue
            if self.accepted_at is None:
                self.accepted_at, self.accepted_by = time.monotonic(), node

    def close(self) -> None:
        for _, line, _ in self._lines:
            line.close()


class Produces(Protocol):
    """A connection that takes a Produce request; the tests use a fake."""

    async def produce_all(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        """Produce to each partition; returns the error number by partition, 0 for an acknowledgement."""
        ...

    def close(self) -> None: ...


class ProduceLine:
    """`Produces` over a lasting connection to one broker, which waits `wait_ms` for replicas."""

    def __init__(self, address: Address, wait_ms: int = _PRODUCE_WAIT_MS) -> None:
        self._line = Line(address)
        self._wait_ms = wait_ms
        self._batch = write_batch([b"failover"], timestamp_ms=time.time_ns() // 1_000_000)

    async def produce_all(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        of_topic = PRODUCE.request.TopicProduceData
        by_topic: dict[str, list[ProduceRequest.TopicProduceData.PartitionProduceData]] = {}
        for topic, number in partitions:
            data = of_topic.PartitionProduceData(index=number, records=self._batch)
            by_topic.setdefault(topic, []).append(data)
        request = PRODUCE.request(
            transactional_id=None,
            acks=ACKS_ALL,
            timeout_ms=self._wait_ms,
            topic_data=[of_topic(name=topic, partition_data=data) for topic, data in by_topic.items()],
        )
        async with asyncio.timeout(_PRODUCE_PATIENCE_S):
            answer = await (await self._line.node()).connection.request(PRODUCE, request)
        return {
            (topic.name, result.index): result.error_code
            for topic in answer.responses
            for result in topic.partition_responses
        }

    def close(self) -> None:
        self._line.close()


class ProduceProbe:
    """When the last partition gave its first acknowledgement."""

    def __init__(self, brokers: Iterable[Produces], partitions: Iterable[Partition]) -> None:
        self._brokers = list(brokers)
        self.pending = set(partitions)
        self.last_at: float | None = None
        self.refusals: Counter[str] = Counter()

    async def run(self) -> None:
        """Produce until every partition has acknowledged."""
        await gathered([self._ask(broker) for broker in self._brokers])

    async def _ask(self, broker: Produces) -> None:
        whole, turn = True, 0
        while self.pending:
            batch = sorted(self.pending)
            if not whole and len(batch) > SCOUTS:
                turn = (turn + SCOUTS) % len(batch)
                batch = [*batch[turn:], *batch[:turn]][:SCOUTS]
            try:
                answers = await broker.produce_all(batch)
            except _Refused as error:
                self.refusals[f"produce: {_word(error)}"] += 1
                broker.close()
                await asyncio.sleep(_REDIAL_S)
                continue
            whole = self._take(answers)
            await asyncio.sleep(_AGAIN_S)

    def _take(self, answers: Mapping[Partition, int]) -> bool:
        """Count the answers; returns whether any partition acknowledged."""
        now = time.monotonic()
        for partition, number in answers.items():
            if number:
                self.refusals[f"produce: {CODES[number].word if number in CODES else UNKNOWN_CODE}"] += 1
            elif partition in self.pending:
                self.pending.discard(partition)
                self.last_at = now
        return 0 in answers.values()

    def close(self) -> None:
        for broker in self._brokers:
            broker.close()


def _word(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.code if isinstance(error, Definite | Indefinite) else type(error).__name__


async def gathered(work: Sequence[Awaitable[None]]) -> None:
    """Wait for all of `work`; a failure or a cancellation cancels the rest."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def first_of(work: Sequence[Awaitable[None]]) -> None:
    """Wait until the first of `work` is done and cancel the rest; raises what the first raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
