"""Two questions asked of the nodes that remain, again and again, from the moment when the signal was sent.

*A metadata change*: CreateTopics of a name of its own, one partition with two replicas, asked of each remaining node's
controller itself (KRaft brokers would forward and repeat it). Each node is asked on three connections, each a few
milliseconds after its last answer, so that one request that hangs holds nothing back. The first acceptance counts. In
ZooKeeper mode it is answered once the partition has a leader, in KRaft once the record is committed.

*A produce on every partition*: each remaining broker is asked for all partitions without an acknowledgement so far in
one Produce with acks=all; it refuses those that it does not lead, and waits at most 100 ms for replicas. After a round
without any acknowledgement only 100 of them are asked, the next 100 each time, until one acknowledges: else asking for
thousands would slow down the failover that is measured. The last partition's first acknowledgement counts; it may be
seen late by two such rounds.

What is refused or lost is asked again, openly: these are probes, and each refusal is counted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.systems.kafka.client.client import ACKS_ALL, KafkaNode, open_node
from fencepost.harness.systems.kafka.wire import log_messages as log
from fencepost.harness.systems.kafka.wire.errors import CODES, NOT_CONTROLLER, UNKNOWN_CODE, ServerDoubt, ServerRefusal
from fencepost.harness.systems.kafka.wire.records import write_batch

#: Where a listener is dialled.
Address = tuple[str, int]
Partition = tuple[str, int]

_DIAL_S: Final = 0.5
_AGAIN_S: Final = 0.01
_REDIAL_S: Final = 0.02
#: How long each connection of a node waits for an answer: some short, so that a lost request is soon replaced.
_PATIENCE_S: Final = (1.0, 3.0, 10.0)
_PRODUCE_WAIT_MS: Final = 100
#: Asked of a broker while none of its partitions becomes available.
SCOUTS: Final = 100
_PRODUCE_PATIENCE_S: Final = 10.0
_PROBE_REPLICAS: Final = 2

_Refused = (Definite, Indefinite, TimeoutError, OSError)


class Line:
    """A kept connection to one listener, opened again when it is lost."""

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
    """When, by which node, the first metadata change was accepted; times of `time.monotonic`."""

    def __init__(self, controllers: Mapping[str, Address], names: str) -> None:
        self._lines = [
            (node, Line(address), patience_s) for node, address in controllers.items() for patience_s in _PATIENCE_S
        ]
        self._names = names
        self._count = 0
        self.accepted_at: float | None = None
        self.accepted_by: str | None = None
        self.refusals: Counter[str] = Counter()
        #: Topics that were made, or may have been.
        self.made: set[str] = set()

    async def open(self) -> None:
        """Connect beforehand, so that connecting is no part of what is measured."""
        await gathered([_opened(line) for _, line, _ in self._lines])

    async def run(self) -> None:
        """Until one was accepted, or cancelled."""
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
                # From a node that never led, "not controller" means that nothing was made: these nodes never did.
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
    """A connection that takes a Produce request; the tests have one of their own."""

    async def produce_all(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        """The error number by partition, 0 for an acknowledgement."""
        ...

    def close(self) -> None: ...


class ProduceLine:
    """`Produces` over a kept connection to one broker, which waits for replicas so many milliseconds."""

    def __init__(self, address: Address, wait_ms: int = _PRODUCE_WAIT_MS) -> None:
        self._line = Line(address)
        self._wait_ms = wait_ms
        self._batch = write_batch([b"failover"], timestamp_ms=time.time_ns() // 1_000_000)

    async def produce_all(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        by_topic: dict[str, list[log.ProducePartition]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(log.ProducePartition(number, self._batch))
        asked = log.ProduceRequest(
            None,
            ACKS_ALL,
            self._wait_ms,
            tuple(log.ProduceTopic(topic, tuple(data)) for topic, data in by_topic.items()),
        )
        async with asyncio.timeout(_PRODUCE_PATIENCE_S):
            answer = await (await self._line.node()).connection.request(log.PRODUCE, asked)
        return {
            (topic.name, result.index): result.error_code
            for topic in answer.responses
            for result in topic.partition_responses
        }

    def close(self) -> None:
        self._line.close()


class ProduceProbe:
    """When the last partition had its first acknowledgement."""

    def __init__(self, brokers: Iterable[Produces], partitions: Iterable[Partition]) -> None:
        self._brokers = list(brokers)
        self.pending = set(partitions)
        self.last_at: float | None = None
        self.refusals: Counter[str] = Counter()

    async def run(self) -> None:
        """Until every partition was acknowledged, or cancelled."""
        await gathered([self._ask(broker) for broker in self._brokers])

    async def _ask(self, broker: Produces) -> None:
        whole, turn = True, 0
        while self.pending:
            asked = sorted(self.pending)
            if not whole and len(asked) > SCOUTS:
                turn = (turn + SCOUTS) % len(asked)
                asked = [*asked[turn:], *asked[:turn]][:SCOUTS]
            try:
                answers = await broker.produce_all(asked)
            except _Refused as error:
                self.refusals[f"produce: {_word(error)}"] += 1
                broker.close()
                await asyncio.sleep(_REDIAL_S)
                continue
            whole = self._take(answers)
            await asyncio.sleep(_AGAIN_S)

    def _take(self, answers: Mapping[Partition, int]) -> bool:
        """Whether any partition acknowledged."""
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
    """All of it; what fails, or a cancellation, ends the rest."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def first_of(work: Sequence[Awaitable[None]]) -> None:
    """Until one of it is done; the rest is ended, and what failed is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
