"""A store of three nodes in memory, correct unless a bug is planted: one log, one state, a lagging copy on each node.

All of it lives on a virtual-time loop and draws from one seeded `random.Random`, so a run is repeated exactly. Requests
take time, are lost, take effect late, and lose their replies; leaders are paused, killed and superseded.
"""

import asyncio
from bisect import bisect_right
from typing import Final

import msgspec

from tests.fakes.store import PlantedStore

#: Time until a new leader serves, and for how long a former leader that wakes does not know.
ELECTION_S: Final = 0.3
ZOMBIE_S: Final = 0.2
LOCK_TTL_S: Final = 0.25
DIRTY_S: Final = 0.05


class Cell(msgspec.Struct, frozen=True):
    """One version of a key: the value, where it stands, how many came before it."""

    value: bytes
    position: int
    version: int


class Lock(msgspec.Struct, frozen=True):
    token: int
    holder: int
    ends_s: float


class FakeNode:
    """One node: whether it runs, what it believes of itself, and how far its own copy of the log is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.alive = True
        self.running = asyncio.Event()
        self.running.set()
        self.claims_epoch: int | None = None
        self.frozen_at = 0
        self.zombie_until_s = -1.0
        self.copied = 0
        self.skipped: set[int] = set()


class FakeCluster(PlantedStore):
    """The state that requests act on; `bug` names an entry of the catalogue or is None."""

    def __init__(self, *, seed: int, bug: str | None) -> None:
        super().__init__("fake", seed, bug)
        self.nodes: Final = {name: FakeNode(name) for name in ("n1", "n2", "n3")}
        self.leader = "n1"
        self.epoch = 1
        self.nodes["n1"].claims_epoch = 1
        self.serving = asyncio.Event()
        self.serving.set()
        self.locks: dict[str, Lock] = {}
        #: Keys that puts are refused for, though nothing is there.
        self.remembered: set[str] = set()
        self._counter = 0
        self._sessions = 0
        self._log: list[tuple[int, float, str]] = []
        self._versions: dict[str, list[Cell]] = {}
        self._elements: dict[str, dict[int, tuple[int, float]]] = {}
        self._hidden_until_s: dict[int, float] = {}

    @property
    def position(self) -> int:
        return (self.epoch << 32) + self._counter

    def next_position(self) -> int:
        self._counter += 1
        return self.position

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    # --- registers ----------------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes) -> Cell:
        """Append to the log; what follows is visible to strong reads at once."""
        versions = self._versions.setdefault(key, [])
        cell = Cell(value, self.next_position(), len(versions) + 1)
        versions.append(cell)
        self._log.append((cell.position, self.now_s(), key))
        if self.hits("skipped-write", 50):
            self.nodes["n3"].skipped.add(cell.position)
        return cell

    def get(self, key: str, at: int | None = None, without: frozenset[int] | set[int] = frozenset()) -> Cell | None:
        """The newest version at or below position `at`."""
        versions = self._versions.get(key, [])
        end = len(versions) if at is None else bisect_right(versions, at, key=lambda cell: cell.position)
        while end and versions[end - 1].position in without:
            end -= 1
        return versions[end - 1] if end else None

    def copied(self, node: FakeNode, lag_s: float) -> int:
        """How far the node's own copy is: what was written `lag_s` ago; it never goes back."""
        at = bisect_right(self._log, self.now_s() - lag_s, key=lambda entry: entry[1])
        if at:
            node.copied = max(node.copied, self._log[at - 1][0])
        return node.copied

    # --- sets ---------------------------------------------------------------------------------------------------

    def has(self, name: str, element: int) -> bool:
        return element in self._elements.get(name, {})

    def insert(self, name: str, element: int) -> int:
        position = self.next_position()
        self._elements.setdefault(name, {})[element] = (position, self.now_s())
        return position

    def members(self, name: str) -> tuple[int, ...]:
        now_s = self.now_s()
        elements = sorted(self._elements.get(name, {}))
        if self.hits("set-resurrected-element", 5) and elements:
            self._hidden_until_s[self.random.choice(elements)] = now_s + 1.0
        return tuple(e for e in elements if self._hidden_until_s.get(e, 0.0) <= now_s)

    # --- leaders and faults ---------------------------------------------------------------------------------------

    async def elect(self) -> None:
        """Another node becomes leader of the next epoch; nobody serves in between."""
        self.serving.clear()
        await asyncio.sleep(ELECTION_S)
        able = [node for node in self.nodes.values() if node.alive and node.running.is_set()]
        chosen = self.random.choice([node for node in able if node.name != self.leader] or able)
        self.leader = chosen.name
        self.epoch += 1
        self._counter = 0
        chosen.claims_epoch = self.epoch
        self.serving.set()

    def pause(self, node: FakeNode) -> None:
        node.running.clear()
        node.frozen_at = self.position

    def resume(self, node: FakeNode) -> None:
        if node.claims_epoch is not None and node.claims_epoch < self.epoch:
            node.zombie_until_s = self.now_s() + ZOMBIE_S
            asyncio.get_running_loop().call_later(ZOMBIE_S, self._step_down, node)
        node.running.set()

    def _step_down(self, node: FakeNode) -> None:
        if node.claims_epoch is not None and node.claims_epoch < self.epoch:
            node.claims_epoch = None

    def is_zombie(self, node: FakeNode) -> bool:
        return self.now_s() < node.zombie_until_s

    def kill(self, node: FakeNode) -> None:
        node.alive = False
        node.claims_epoch = None
        if self.bug in ("dirty-restart", "set-dirty-restart"):
            self._forget_since(self.now_s() - DIRTY_S)

    def restart(self, node: FakeNode) -> None:
        node.alive = True
        node.incarnation += 1
        node.zombie_until_s = -1.0

    def _forget_since(self, since_s: float) -> None:
        lost = {position for position, at_s, _ in self._log if at_s >= since_s}
        self._log = [entry for entry in self._log if entry[0] not in lost]
        for key, versions in self._versions.items():
            self._versions[key] = [cell for cell in versions if cell.position not in lost]
        for name, elements in self._elements.items():
            self._elements[name] = {e: stamp for e, stamp in elements.items() if stamp[1] < since_s}
