"""Groups in memory, with one coordinator that shares work out in generations; planted bugs."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import History
from fencepost.harness.verdict import Thresholds
from fencepost.systems.kafka.protocols import CommittedAs, Joined
from fencepost.systems.kafka.workloads.consumer_groups import ConsumerGroups
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("b1", "b2", "b3")
GUARANTEES: Final = ("group-commits-durable", "group-generations-fence", "group-one-owner", "group-offsets-fresh")
FACTS: Final = facts_of("consumer-groups", NODES, GUARANTEES, thresholds=Thresholds(ok_operations_min=40))
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "forgets": ("the last tenth of the commits is gone at the end", "consumer-groups:lost-offset"),
    "refused-stays": ("a refused commit takes effect all the same", "consumer-groups:phantom-offset"),
    "old-copy": ("one read in twenty is answered from a copy of a second ago", "consumer-groups:stale-offset"),
    "no-fence": ("commits of earlier generations are accepted", "consumer-groups:stale-generation-committed"),
    "generation-again": (
        "a generation's number now and then begins at 1 again",
        "consumer-groups:generation-went-back",
    ),
    "share-twice": ("two members now and then get the same share", "consumer-groups:two-owners-of-a-share"),
}
_REBALANCE_S: Final = 1.0
_OLD_S: Final = 1.0


class FakeGroup:
    """What the coordinator keeps of one group; `waiting` are those who have joined the next generation."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, int] = {}
        self.waiting: dict[str, asyncio.Future[Joined]] = {}
        self.offsets: list[tuple[float, int | None]] = [(0.0, None)]


class FakeCoordinator(PlantedStore):
    """All groups; the next generation begins when all members have joined, or some time after the first has."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("groups", seed, bug)
        self.groups: Final[dict[str, FakeGroup]] = {}
        self._ids = 0
        self._timers: set[asyncio.Task[None]] = set()

    def group(self, name: str) -> FakeGroup:
        return self.groups.setdefault(name, FakeGroup())

    def new_id(self) -> str:
        self._ids += 1
        return f"m{self._ids:04}"

    async def join(self, name: str, member: str) -> Joined:
        group = self.group(name)
        first = not group.waiting
        future: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        group.waiting[member] = future
        if set(group.members) <= set(group.waiting):
            self._begin(group)
        elif first:
            timer = asyncio.ensure_future(self._begin_later(group))
            self._timers.add(timer)
            timer.add_done_callback(self._timers.discard)
        return await future

    async def _begin_later(self, group: FakeGroup) -> None:
        await asyncio.sleep(_REBALANCE_S)
        if group.waiting:
            self._begin(group)

    def _begin(self, group: FakeGroup) -> None:
        group.generation = 1 if self.hits("generation-again", 5) else group.generation + 1
        group.members = {}
        for share, (member, future) in enumerate(sorted(group.waiting.items())):
            group.members[member] = 0 if self.hits("share-twice", 5) else share
            if not future.done():
                future.set_result(Joined(group.generation, group.members[member]))
        group.waiting = {}

    def check(self, name: str, member: str, generation: int) -> None:
        group = self.group(name)
        if self.bug == "no-fence":
            return
        if member not in group.members:
            raise Definite("unknown-member-id")
        if generation != group.generation:
            raise Definite("illegal-generation")

    def commit(self, name: str, member: str, generation: int, offset: int) -> None:
        now_s = asyncio.get_running_loop().time()
        try:
            self.check(name, member, generation)
        except Definite:
            if self.bug == "refused-stays":
                self.group(name).offsets.append((now_s, offset))
            raise
        self.group(name).offsets.append((now_s, offset))

    def offset(self, name: str) -> int | None:
        offsets = self.group(name).offsets
        until_s = asyncio.get_running_loop().time() - (_OLD_S if self.hits("old-copy", 20) else 0.0)
        known = [offset for at_s, offset in offsets if at_s <= until_s]
        if self.bug == "forgets" and until_s > _LOAD_S:
            known = known[: max(1, len(known) * 9 // 10)]
        return known[-1]


class FakeGroups(StoreSession[FakeCoordinator]):
    """Implements `systems.kafka.protocols.Groups`."""

    def __init__(self, coordinator: FakeCoordinator) -> None:
        super().__init__(coordinator)
        self._id = ""
        self._generations: list[int] = []

    async def join(self, group: str) -> Joined:
        await self._travel()
        self._id = self._id or self._store.new_id()
        joined = await self._store.join(group, self._id)
        if joined.generation not in self._generations[-1:]:
            self._generations.append(joined.generation)
        await self._travel()
        return joined

    async def leave(self, group: str) -> None:
        await self._travel()
        self._store.group(group).members.pop(self._id, None)
        self._id, self._generations = "", []

    async def beat(self, group: str) -> None:
        await self._travel()
        self._check(group)
        if self._store.group(group).waiting:
            raise Definite("rebalance-in-progress")

    def _check(self, group: str) -> None:
        try:
            self._store.check(group, self._id, self._generations[-1])
        except Definite as refusal:
            if refusal.code == "unknown-member-id":
                self._id, self._generations = "", []
            raise

    async def commit_offset(self, group: str, offset: int, *, late: bool = False) -> CommittedAs:
        await self._travel()
        back = 2 if late else 1
        if len(self._generations) < back:
            raise Definite("not-a-member")
        generation = self._generations[-back]
        try:
            self._store.commit(group, self._id, generation, offset)
        except Definite as refusal:
            if refusal.code == "unknown-member-id" and not late:
                self._id, self._generations = "", []
            raise
        if self._store.random.randrange(60) == 0:
            raise Indefinite("connection-lost")
        await self._travel()
        return CommittedAs(generation)

    async def fetch_offset(self, group: str) -> int | None:
        await self._travel()
        offset = self._store.offset(group)
        await self._travel()
        return offset


_LOAD_S: Final = 12.0


def run_fake_groups(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 12 s of load, then the final phase."""
    coordinator = FakeCoordinator(seed, bug)
    return play(
        ConsumerGroups(),
        lambda node: FakeGroups(coordinator),
        nodes=NODES,
        seed=seed,
        load_s=_LOAD_S,
        system="kraft",
        options={"groups": 2, "rate": 100.0, **(options or {})},
    )
