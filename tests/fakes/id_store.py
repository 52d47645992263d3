"""Producer ids in memory: a controller allots blocks, each broker gives ids out of its own; one planted bug."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Guarantee, Standing
from fencepost.systems.kafka.workloads.producer_ids import ProducerIds
from tests.fakes.playing import play

NODES: Final = ("b1", "b2", "b3")
_BLOCK: Final = 10
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "block-twice": ("one block in ten is allotted a second time", "producer-ids:producer-id-given-twice"),
}
FACTS: Final = Facts(
    system="fake",
    workload="producer-ids",
    nodes=NODES,
    read_guarantee="unique-producer-ids",
    guarantees=(
        Guarantee(
            name="unique-producer-ids", standing=Standing.PROMISED, text="unique-producer-ids", source="tests/fakes"
        ),
    ),
)


class FakeController:
    """The next block; every broker's own is what is left of its last one."""

    def __init__(self, seed: int, bug: str | None) -> None:
        self.random: Final = random.Random(f"ids-{seed}")
        self._bug = bug
        self._next = 0
        self._left: dict[str, list[int]] = {name: [] for name in NODES}

    def allocate(self, node: str) -> int:
        own = self._left[node]
        if not own:
            again = self._bug == "block-twice" and self._next and self.random.randrange(10) == 0
            first = self._next - _BLOCK if again else self._next
            self._next = max(self._next, first + _BLOCK)
            own.extend(range(first, first + _BLOCK))
        return own.pop(0)


class FakeProducerIds:
    """Implements `systems.kafka.protocols.GrantsProducerIds`."""

    def __init__(self, controller: FakeController, node: str) -> None:
        self._controller, self._node = controller, node

    @property
    def session_id(self) -> int | None:
        return None

    async def close(self) -> None:
        return

    async def allocate(self) -> int:
        await asyncio.sleep(self._controller.random.expovariate(1 / 0.002))
        return self._controller.allocate(self._node)


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
