"""Producer ids in memory: a controller allots blocks, each broker gives ids out of its own; one planted bug."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.history import History
from fencepost.systems.kafka.workloads.producer_ids import ProducerIds
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("b1", "b2", "b3")
_BLOCK: Final = 10
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {"block-twice": ("one block in ten is allotted a second time", "producer-ids:producer-id-given-twice")}
FACTS: Final = facts_of("producer-ids", NODES, ("unique-producer-ids",), read_guarantee="unique-producer-ids")


class FakeController(PlantedStore):
    """The next block; every broker's own is what is left of its last one."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("ids", seed, bug)
        self._next = 0
        self._left: dict[str, list[int]] = {name: [] for name in NODES}

    def allocate(self, node: str) -> int:
        own = self._left[node]
        if not own:
            again = self.bug == "block-twice" and self._next and self.random.randrange(10) == 0
            first = self._next - _BLOCK if again else self._next
            self._next = max(self._next, first + _BLOCK)
            own.extend(range(first, first + _BLOCK))
        return own.pop(0)


class FakeProducerIds(StoreSession[FakeController]):
    """Implements `systems.kafka.protocols.GrantsProducerIds`."""

    async def allocate(self) -> int:
        await self._travel()
        return self._store.allocate(self._node)


def run_fake_ids(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 2 s of load, then the final phase."""
    controller = FakeController(seed, bug)
    return play(
        ProducerIds(),
        lambda node: FakeProducerIds(controller, node),
        nodes=NODES,
        seed=seed,
        load_s=2.0,
        system="kraft",
        options={"rate": 200.0, **(options or {})},
    )
