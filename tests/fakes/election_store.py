"""An election's store in memory: one order of changes, leases that end, lagging copies on every node; planted bugs.

Each node sleeps for a while: what is sent to it is served when it wakes. Correct unless `bug` names one of
`BUGS`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.coordination import Deeds, Definite, Held, Indefinite, Leading, ReadMode, Reply
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts
from fencepost.workloads.election import Election
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("n1", "n2", "n3")
PROMISED: Final = (
    "one-acting-leader",
    "terms-grow",
    "resign-ends-own-term",
    "session-order",
    "linearizable",
    "no-lost-acknowledged-writes",
    "unknown-campaign-is-settled",
)
TTL_S: Final = 2.0
_ASLEEP_S: Final = {"n2": (4.0, 7.0), "n3": (9.0, 12.0), "n1": (14.0, 17.0)}
_LAG_S: Final = {"n1": 0.0, "n2": 0.04, "n3": 0.08}

#: What each bug does, and the anomaly by which it must be found.
BUGS: Final = {
    "no-check": ("guarded acts are not guarded", "old-term-acted"),
    "check-then-act": ("an act is checked when it comes and done when the node wakes", "old-term-acted"),
    "refused-effect": ("a refused act takes effect", "refused-act-took-effect"),
    "lost-act": ("one acknowledged act in thirty is dropped", "lost-act"),
    "twice": ("one act in thirty is done twice", "act-twice"),
    "same-term": ("a term now and then gets the token of the one before", "same-term-twice"),
    "term-back": ("a term now and then gets an older token", "term-went-back"),
    "stale-resign": ("whoever resigns ends the term that lasts", "deposed-by-stale-resign"),
    "observe-back": ("a copy now and then answers from far behind", "observed-term-went-back"),
    "trails": ("n3 shows the trail in another order", "trails-differ"),
    "unknown-leader": ("a strong read now and then names a leader that nobody elected", "unexplained-leader"),
    "late-campaign": ("a campaign without an answer wins once the leader's term is over", "won-after-settled"),
}


def facts(options: Mapping[str, Any] | None = None, *, fenced: bool = True) -> Facts:
    return facts_of(
        "election",
        NODES,
        PROMISED if fenced else (*PROMISED, "one-believed-leader"),
        read_guarantee="one-acting-leader" if fenced else "one-believed-leader",
        options={"fencing": "on" if fenced else "off", **(options or {})},
    )


class FakeStore(PlantedStore):
    """Every change has a position of its own; a term's token is that of its grant."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("election", seed, bug)
        self.position = 10
        self.trail: list[str] = []
        self.holder: tuple[int, FakeElections] | None = None
        #: Whose campaigns are to win later.
        self.waiting: list[FakeElections] = []
        #: (when, token or None, position): what there was to see of the leader.
        self.seen: list[tuple[float, int | None, int]] = [(0.0, None, 10)]

    def change(self) -> int:
        self.position += 1
        return self.position

    def lead(self, holder: "tuple[int, FakeElections] | None") -> None:
        if holder is None and self.waiting:
            late = self.waiting.pop(0)
            late.lease_until_s = self.now_s() + TTL_S
            holder = self.change(), late
        self.holder = holder
        self.seen.append((self.now_s(), None if holder is None else holder[0], self.position))

    def expire(self) -> None:
        if self.holder is not None and self.holder[1].lease_until_s <= self.now_s():
            self.change()
            self.lead(None)

    def holds(self, held: Held) -> bool:
        self.expire()
        return self.holder is not None and self.holder[0] == held.token

    def append(self, deed: str) -> int:
        position = self.change()
        if not self.hits("lost-act", 30):
            self.trail.append(deed)
        if self.hits("twice", 30):
            self.trail.append(deed)
        return position

    def view(self, node: str, mode: ReadMode) -> tuple[int | None, int]:
        self.expire()
        lag_s = 0.0 if mode is ReadMode.STRONG else _LAG_S[node]
        if self.hits("observe-back", 100):
            lag_s = 4.0
        token, position = next((t, p) for at, t, p in reversed(self.seen) if at <= max(0.0, self.now_s() - lag_s))
        return (position + 1 if token and self.hits("unknown-leader", 20) else token), position


class FakeElections(StoreSession[FakeStore]):
    """What the workload uses of `harness.coordination.Elections`."""

    def __init__(self, store: FakeStore, node: str) -> None:
        super().__init__(store, node)
        self.lease_until_s = 0.0

    async def _travel(self) -> None:
        await super()._travel()
        await self._awake()

    async def _awake(self) -> None:
        now_s = self._store.now_s()
        from_s, to_s = _ASLEEP_S[self._node]
        if from_s <= now_s < to_s:
            await asyncio.sleep(to_s - now_s)

    async def renew(self) -> Reply:
        await self._travel()
        self._store.expire()
        if self.lease_until_s <= self._store.now_s():
            raise Definite("lease-expired")
        self.lease_until_s = self._store.now_s() + TTL_S
        return Reply()

    async def acquire(self, name: str) -> Held:
        await self._travel()
        store = self._store
        store.expire()
        if store.holder is not None:
            if store.hits("late-campaign", 10):
                store.waiting.append(self)
                raise Indefinite("connection-lost")
            raise Definite("held")
        if self.lease_until_s <= store.now_s():
            self.lease_until_s = store.now_s() + TTL_S
        token = store.change()
        terms = [t for _, t, _ in store.seen if t is not None]
        if terms and store.hits("same-term", 4):
            token = terms[-1]
        elif terms and store.hits("term-back", 4):
            token = max(1, terms[-1] - 1)
        store.lead((token, self))
        if store.random.randrange(30) == 0:
            raise Indefinite("connection-lost")
        await self._travel()
        return Held(token=token, handle="h", position=token)

    async def release(self, name: str, held: Held) -> Reply:
        await self._travel()
        store = self._store
        if not store.holds(held) and store.bug != "stale-resign":
            raise Definite("not-held")
        position = store.change()
        store.lead(None)
        await self._travel()
        return Reply(position=position)

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        store = self._store
        checked = store.bug == "check-then-act" and store.holds(held)
        await self._travel()
        if guarded and not checked and store.bug != "no-check" and not store.holds(held):
            if store.hits("refused-effect"):
                store.append(deed)
            raise Definite("fenced")
        fate = store.random.randrange(200)
        if fate == 0:
            raise Indefinite("connection-lost")
        position = store.append(deed)
        if fate == 1:
            raise Indefinite("connection-lost")
        await self._travel()
        return Reply(position=position, value_position=position)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        await self._travel()
        token, position = self._store.view(self._node, mode)
        await self._awake()
        return Leading(token, position=position)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        await self._travel()
        deeds = list(self._store.trail)
        if self._store.bug == "trails" and self._node == "n3":
            deeds[5], deeds[6] = deeds[6], deeds[5]
        return Deeds(tuple(deeds), position=self._store.position)


def run_fake_election(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 20 s of load, then the final phase."""
    store = FakeStore(seed, bug)
    return play(
        Election(),
        lambda node: FakeElections(store, node),
        nodes=NODES,
        seed=seed,
        load_s=20.0,
        system="etcd",
        options=options or {},
        settle_s=0.0,
        final_s=None,
        op_timeout_s=5.0,
    )
