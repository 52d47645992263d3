"""Memberships in memory: one order of changes, a leader who counts, lagging copies, listeners; planted bugs by name."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.harness.coordination import Definite, Granted, Indefinite, ListedMember, ReadMode, Reply, Roster
from fencepost.harness.history import History
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import LeaseBound
from fencepost.workloads.group_membership import GroupMembership
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("n1", "n2", "n3")
GUARANTEES: Final = (
    "one-member-per-id",
    "joined-member-listed",
    "leave-ends-own-membership",
    "renewing-member-stays",
    "silent-member-goes",
    "member-data-belongs",
    "member-lists-in-order",
    "group-listener-converges",
    "member-told-of-its-end",
)
_TICK_S: Final = 0.1
_LAG_S: Final = {"n1": 0.0, "n2": 0.03, "n3": 0.09}

#: What each bug does, and the anomaly by which it must be found. Nobody is told of an end by a correct store either.
BUGS: Final = {
    "two-of-one-id": ("one join in three takes an id that somebody has", "duplicate-member"),
    "join-lost": ("one acknowledged join in four is forgotten", "member-not-seen"),
    "leave-by-id": ("a leave ends whoever has the id", "stale-leave"),
    "early": ("one membership in four ends after a third of its time", "early-eviction"),
    "lives-on": ("one membership in four never ends by time", "ghost-member"),
    "data-mixed": ("one list in ten has the data of two members exchanged", "torn-member"),
    "goes-back": ("n3 now and then lists members as they were half a second ago", "membership-went-back"),
    "not-left": ("one leave in four is acknowledged and does nothing", "ended-member-came-back"),
    "deaf-listener": ("one listener in two misses all changes after a while", "listener-stuck"),
    "unaware": ("what time does to members whom nobody can reach", "unaware-ghost"),
}
FACTS: Final = facts_of(
    "group-membership",
    NODES,
    GUARANTEES,
    read_guarantee="renewing-member-stays",
    subjects=("leader",),
    leases=LeaseBound(extra_ns=1_500_000_000, source="tests/fakes"),
)


@dataclass
class _Held:
    ttl_s: float
    until_s: float
    immortal: bool = False
    key: str = ""


class FakeStore(PlantedStore):
    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("groups", seed, bug)
        self.position, self.granted = 10, 0
        self.leases: dict[str, _Held] = {}
        self.members: dict[str, ListedMember] = {}
        self.owners: dict[str, str] = {}
        #: By lease: the id that it was for, also after its end.
        self.ids: dict[str, str] = {}
        #: (when, position, members): what there was to list.
        self.seen: list[tuple[float, int, tuple[ListedMember, ...]]] = [(0.0, 10, ())]

    def change(self) -> int:
        self.position += 1
        self.seen.append((self.now_s(), self.position, tuple(sorted(self.members.values(), key=lambda m: m.id))))
        return self.position

    def end(self, handle: str) -> int:
        held = self.leases.pop(handle, None)
        if held is not None and self.owners.get(held.key) == handle:
            del self.members[held.key], self.owners[held.key]
        return self.change()

    def renew(self, held: _Held) -> None:
        held.until_s = self.now_s() + held.ttl_s * (0.33 if self.hits("early", 4) else 1.0)

    def view(self, node: str, mode: ReadMode) -> tuple[int, tuple[ListedMember, ...]]:
        lag_s = 0.0 if mode is ReadMode.STRONG else _LAG_S[node]
        if node == "n3" and self.hits("goes-back", 10):
            lag_s = 0.5
        return next((p, m) for at, p, m in reversed(self.seen) if at <= max(0.0, self.now_s() - lag_s))

    async def count(self, recorder: Recorder) -> None:
        """End at every tick what is over."""
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = self.now_s()
            for handle in [h for h, held in self.leases.items() if held.until_s < now_s and not held.immortal]:
                self.end(handle)


class FakeGroups(StoreSession[FakeStore]):
    """Implements what `harness.coordination.Memberships` needs for a group, with losses on the way."""

    def __init__(self, store: FakeStore, node: str) -> None:
        super().__init__(store, node)
        self._watched = -1
        self._deaf = store.hits("deaf-listener", 2)

    async def _lossy(self) -> None:
        if self._store.random.randrange(200) == 0:
            raise Indefinite("connection-lost")
        await self._travel()

    async def grant(self, ttl_ms: int) -> Granted:
        await self._travel()
        store = self._store
        store.granted += 1
        handle = f"{store.granted:x}"
        held = _Held(ttl_ms / 1000, 0.0, immortal=store.hits("lives-on", 4))
        store.renew(held)
        store.leases[handle] = held
        await self._lossy()
        return Granted(handle, ttl_ms, store.position, 1)

    async def keep_alive(self, handle: str) -> Granted:
        await self._travel()
        held = self._store.leases.get(handle)
        if held is None:
            raise Definite("lease-expired")
        self._store.renew(held)
        await self._lossy()
        return Granted(handle, round(held.ttl_s * 1000), self._store.position, 1)

    async def revoke(self, handle: str) -> Reply:
        await self._travel()
        store = self._store
        if store.bug == "leave-by-id" and handle not in store.leases:
            other = store.owners.get(store.ids.get(handle, ""))
            if other is not None:
                return Reply(position=store.end(other), epoch=1)
        if handle not in store.leases:
            raise Definite("lease-expired")
        position = store.change() if store.hits("not-left", 4) else store.end(handle)
        await self._lossy()
        return Reply(position=position, epoch=1)

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        await self._travel()
        store = self._store
        held = store.leases.get(handle)
        if held is None:
            raise Definite("lease-expired")
        if member in store.members and not store.hits("two-of-one-id", 3):
            raise Definite("exists")
        store.ids[handle] = member
        held.key = member
        if not store.hits("join-lost", 4):
            store.members[member] = ListedMember(member, data, store.position + 1)
            store.owners[member] = handle
        position = store.change()
        await self._lossy()
        return Reply(position=position, value_position=position, epoch=1)

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        await self._travel()
        position, members = self._store.view(self._node, mode)
        if len(members) > 1 and self._store.hits("data-mixed", 10):
            first, second, *rest = members
            members = (ListedMember(first.id, second.data), ListedMember(second.id, first.data), *rest)
        await self._travel()
        return Roster(members, position=position, epoch=1)

    async def watch_roster(self, group: str) -> Roster:
        await self._travel()
        position, members = self._store.view("n1", ReadMode.PLAIN)
        self._watched = position
        return Roster(members, position=position, epoch=1)

    async def roster_changed(self, wait_s: float) -> bool:
        store, end_s = self._store, self._store.now_s() + wait_s
        while store.now_s() < end_s:
            if store.position > self._watched and not (self._deaf and store.now_s() > 3.0):
                return True
            await asyncio.sleep(0.01)
        return False


def run_fake_groups(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 15 s of load, and the final phase."""
    store = FakeStore(seed, bug)
    return play(
        GroupMembership(),
        lambda node: FakeGroups(store, node),
        nodes=NODES,
        seed=seed,
        load_s=15.0,
        system="etcd",
        options={"lists_per_second": 30.0, **(options or {})},
        beside=[store.count],
    )
