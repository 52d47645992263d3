"""Topics in memory, that every node knows and any node leads; planted bugs."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.coordination import Appended, Definite, Indefinite, Polled, Record
from fencepost.harness.history import History
from fencepost.systems.kafka.workloads.topics import TopicsWorkload
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("b1", "b2", "b3")
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "comes-back": ("one dropped topic in five is there again at the end", "topics:dropped-topic-is-back"),
    "old-log": ("one topic in five begins with the log of the last one of its name", "topics:dropped-record-served"),
    "topic-lost": ("one topic in five is gone at the end", "topics:made-topic-is-gone"),
    "record-lost": ("one acknowledged record in ten is not kept", "topics:lost-record"),
}
FACTS: Final = facts_of("topics", NODES, ("topics-stay-dropped", "topics-keep-records"))
#: When the load is over, and the final phase begins soon.
_LOAD_S: Final = 25.0


class FakeCluster(PlantedStore):
    """The topics with their records; each is led by the node that its name and the number of its making choose."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("topics", seed, bug)
        self.topics: Final[dict[str, list[bytes]]] = {}
        self._dropped: Final[dict[str, list[bytes]]] = {}
        self._made = 0
        self._leaders: Final[dict[str, str]] = {}

    def make(self, name: str) -> None:
        if name in self.topics:
            raise Definite("exists")
        self._made += 1
        self._leaders[name] = NODES[self._made % len(NODES)]
        self.topics[name] = list(self._dropped.get(name, ())) if self.hits("old-log", 5) else []

    def drop(self, name: str) -> None:
        self._dropped[name] = self.topics.pop(name)

    def end(self) -> None:
        """What the bugs do to topics once nothing happens to them any more."""
        for name, records in list(self._dropped.items()):
            if name not in self.topics and self.hits("comes-back", 5):
                self.topics[name] = records
        for name in list(self.topics):
            if self.hits("topic-lost", 5):
                del self.topics[name]

    def of(self, node: str, name: str) -> list[bytes]:
        if name not in self.topics:
            raise Definite("unknown-topic-or-partition")
        if self._leaders[name] != node:
            raise Definite("not-leader")
        return self.topics[name]


class FakeTopics(StoreSession[FakeCluster]):
    """Implements `systems.kafka.protocols.Topics`."""

    async def _answer(self) -> None:
        await self._travel()
        if self._store.random.randrange(100) == 0:
            raise Indefinite("connection-lost")

    async def make_topic(self, name: str) -> str | None:
        await self._travel()
        self._store.make(name)
        await self._answer()
        return None

    async def drop_topic(self, name: str) -> None:
        await self._travel()
        if name not in self._store.topics:
            raise Definite("unknown-topic-or-partition")
        self._store.drop(name)
        await self._answer()

    async def list_topics(self) -> tuple[str, ...]:
        await self._travel()
        return tuple(sorted({*self._store.topics, "__consumer_offsets"}))

    async def put_record(self, name: str, value: bytes) -> Appended:
        await self._travel()
        records = self._store.of(self._node, name)
        if not self._store.hits("record-lost", 10):
            records.append(value)
        await self._answer()
        return Appended(len(records) - 1)

    async def read_topic(self, name: str, offset: int) -> Polled:
        await self._travel()
        records = self._store.of(self._node, name)
        kept = tuple(Record(at, value) for at, value in enumerate(records) if at >= offset)
        return Polled(kept, len(records), 0)


def run_fake_topics(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: load, then the final phase."""
    cluster = FakeCluster(seed, bug)

    async def beside(_: object) -> None:
        await asyncio.sleep(_LOAD_S + 0.2)
        cluster.end()

    return play(
        TopicsWorkload(),
        lambda node: FakeTopics(cluster, node),
        nodes=NODES,
        seed=seed,
        load_s=_LOAD_S,
        system="kraft",
        options=options or {},
        beside=[beside],
        final_s=20.0,
    )
