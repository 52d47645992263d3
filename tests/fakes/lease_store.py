"""Leases in memory: one order of changes, a leader who counts, lagging copies on every node; planted bugs.

n1 leads epoch 1. From `STALL_S` on it is stalled, as by its disk: it answers nothing, but goes on claiming; n2 leads
epoch 2 a little later and counts every lease anew. When the stall is over n1 follows. Correct unless `bug` names one of
`BUGS`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fencepost.harness.coordination import Definite, Granted, Indefinite, Members, ReadMode, Reply
from fencepost.harness.history import (
    AttemptEvent,
    BeliefEvent,
    Claim,
    EpochEvent,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
)
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts, LeaseBound
from fencepost.workloads.lease import LeaseWorkload
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("n1", "n2", "n3")
GUARANTEES: Final = (
    "live-lease-lives",
    "answered-keep-alive-counts",
    "expired-lease-ends",
    "ended-lease-stays-ended",
    "no-keep-alive-of-the-dead",
)
TICK_S: Final = 0.1
STALL_S: Final = (6.0, 14.0)
ELECTED_S: Final = 7.3
MAIN_S: Final = 24.0
_EXTEND_S: Final = 1.0
_LAG_S: Final = {"n1": 0.0, "n2": 0.03, "n3": 0.09}

#: What each bug does, and the anomaly by which it must be found.
BUGS: Final = {
    "early": ("one lease in four ends after half its time", "live-lease-revoked"),
    "deaf": ("one keep-alive in three is answered and does not count", "live-lease-revoked"),
    "zombie-revokes": ("when its stall is over n1 ends what it took for expired", "live-lease-revoked"),
    "zombie-answers": ("stalled, n1 answers keep-alives that nobody else hears of", "keep-alive-in-vain"),
    "lives-on": ("one lease in four never ends by time", "expired-lease-lives"),
    "comes-back": ("n3 now and then answers a current look from half a second ago", "ended-lease-came-back"),
    "not-revoked": ("one revoke in four is acknowledged and does nothing", "ended-lease-came-back"),
    "dead-kept": ("a keep-alive of what has ended is answered as any other", "keep-alive-of-the-dead"),
}


def facts(options: Mapping[str, Any] | None = None) -> Facts:
    return facts_of(
        "lease",
        NODES,
        GUARANTEES,
        read_guarantee="live-lease-lives",
        subjects=("leader",),
        leases=LeaseBound(extra_ns=2_500_000_000, source="tests/fakes"),
        options=dict(options or {}),
    )


@dataclass
class _Held:
    """A lease as its leader counts it; `old_until_s` as n1 does, which hears of nothing while it is stalled."""

    ttl_s: float
    until_s: float
    old_until_s: float
    number: int | None = None
    immortal: bool = False


class FakeStore(PlantedStore):
    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("lease", seed, bug)
        self.position, self.granted = 10, 0
        self.leases: dict[str, _Held] = {}
        #: (when, position, numbers): what there was to see.
        self.seen: list[tuple[float, int, frozenset[int]]] = [(0.0, 10, frozenset())]
        self.attempts: list[str] = []

    def change(self) -> int:
        self.position += 1
        numbers = frozenset(held.number for held in self.leases.values() if held.number is not None)
        self.seen.append((self.now_s(), self.position, numbers))
        return self.position

    def end(self, handle: str) -> int:
        self.leases.pop(handle, None)
        return self.change()

    def renew(self, held: _Held, node: str) -> None:
        now_s = self.now_s()
        half = 0.5 if self.hits("early", 4) else 1.0
        held.until_s = now_s + held.ttl_s * half
        if not self.stalled():
            held.old_until_s = held.until_s

    def stalled(self) -> bool:
        return STALL_S[0] <= self.now_s() < STALL_S[1]

    def leaderless(self) -> bool:
        return STALL_S[0] <= self.now_s() < ELECTED_S

    async def count(self, recorder: Recorder) -> None:
        """The leader looks at what is over, at every tick; a new one counts anew; n1 wakes with its queue."""
        elected = woken = False
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self.now_s()
            if not elected and now_s >= ELECTED_S:
                elected = True
                for held in self.leases.values():
                    held.until_s = max(held.until_s, now_s + held.ttl_s + _EXTEND_S)
            if not woken and now_s >= STALL_S[1]:
                woken = True
                if self.bug == "zombie-revokes":
                    self.attempts = [handle for handle, held in self.leases.items() if held.old_until_s < now_s]
                    for handle in self.attempts:
                        self.end(handle)
            if not self.leaderless():
                for handle in [h for h, held in self.leases.items() if held.until_s < now_s and not held.immortal]:
                    self.end(handle)

    def view(self, node: str, mode: ReadMode) -> tuple[int, frozenset[int]]:
        lag_s = 0.0 if mode is ReadMode.STRONG else _LAG_S[node]
        if mode is ReadMode.STRONG and node == "n3" and self.hits("comes-back", 20):
            lag_s = 0.5
        return next((p, n) for at, p, n in reversed(self.seen) if at <= max(0.0, self.now_s() - lag_s))


class FakeLeases(StoreSession[FakeStore]):
    """Implements `harness.coordination.Leases`, with losses on the way."""

    async def _arrive(self) -> None:
        """At whoever leads: requests to a stalled node wait, and so does everything while nobody leads."""
        await self._travel()
        while self._store.leaderless() or (self._node == "n1" and self._store.stalled()):
            await asyncio.sleep(TICK_S)

    async def _lossy(self) -> None:
        if self._store.random.randrange(150) == 0:
            raise Indefinite("connection-lost")
        await self._travel()

    def _epoch(self) -> int:
        stalled = self._node == "n1" and self._store.stalled()
        return 2 if self._store.now_s() >= ELECTED_S and not stalled else 1

    async def grant(self, ttl_ms: int) -> Granted:
        await self._arrive()
        store = self._store
        store.granted += 1
        handle = f"{store.granted:x}"
        held = _Held(ttl_ms / 1000, 0.0, 0.0, immortal=store.hits("lives-on", 4))
        store.renew(held, self._node)
        store.leases[handle] = held
        await self._lossy()
        return Granted(handle, ttl_ms, store.position, self._epoch())

    async def keep_alive(self, handle: str) -> Granted:
        store = self._store
        if store.bug == "zombie-answers" and self._node == "n1" and store.stalled() and handle in store.leases:
            await self._travel()
            return Granted(handle, round(store.leases[handle].ttl_s * 1000), store.position, self._epoch())
        await self._arrive()
        held = store.leases.get(handle)
        if held is None:
            if store.bug == "dead-kept":
                return Granted(handle, 3000, store.position, self._epoch())
            raise Definite("lease-expired")
        if not store.hits("deaf", 3):
            store.renew(held, self._node)
        await self._lossy()
        return Granted(handle, round(held.ttl_s * 1000), store.position, self._epoch())

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        await self._arrive()
        held = self._store.leases.get(handle)
        if held is None:
            raise Definite("lease-expired")
        held.number = element
        position = self._store.change()
        await self._lossy()
        return Reply(position=position, value_position=position, epoch=self._epoch())

    async def revoke(self, handle: str) -> Reply:
        await self._arrive()
        store = self._store
        if handle not in store.leases:
            raise Definite("lease-expired")
        position = store.change() if store.hits("not-revoked", 4) else store.end(handle)
        await self._lossy()
        return Reply(position=position, epoch=self._epoch())

    async def members(self, name: str, mode: ReadMode) -> Members:
        if mode is ReadMode.STRONG:
            await self._arrive()
        else:
            await self._travel()
        position, numbers = self._store.view(self._node, mode)
        await self._travel()
        return Members(tuple(sorted(numbers)), position=position, epoch=self._epoch())


def run_fake_leases(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: the load, with a leader's stall in it, and the final phase."""
    store = FakeStore(seed, bug)
    return play(
        LeaseWorkload(),
        lambda node: FakeLeases(store, node),
        nodes=NODES,
        seed=seed,
        load_s=MAIN_S,
        system="etcd",
        options={"looks_per_second": 30.0, **(options or {})},
        beside=[store.count, _observe, partial(_disturb, store)],
        settle_s=0.0,
        final_s=None,
        op_timeout_s=5.0,
    )


async def _disturb(store: FakeStore, recorder: Recorder) -> None:
    def fault(action: FaultAction, stage: FaultStage, outcome: FaultOutcome) -> None:
        about = {"fault_id": 0, "fault": "disk", "target": "leader", "nodes": ("n1",)}
        recorder.record(FaultEvent, action=action, stage=stage, outcome=outcome, **about)

    recorder.record(EpochEvent, node="n1", incarnation=0, epoch=1, source="log")
    await asyncio.sleep(STALL_S[0])
    fault(FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING)
    fault(FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED)
    await asyncio.sleep(ELECTED_S - STALL_S[0])
    recorder.record(EpochEvent, node="n2", incarnation=0, epoch=2, source="log")
    await asyncio.sleep(STALL_S[1] - ELECTED_S)
    fault(FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
    fault(FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED)
    await asyncio.sleep(0.5)
    for handle in store.attempts:
        recorder.record(
            AttemptEvent, node="n1", f="revoke", error="request-timed-out", source="n1's log", epoch=None, key=handle
        )


async def _observe(recorder: Recorder) -> None:
    """Everybody is asked whether it leads; a stalled n1 still says so."""
    while True:
        await asyncio.sleep(0.05)
        now_s = asyncio.get_running_loop().time()
        for node in NODES:
            old = node == "n1" and now_s < STALL_S[1]
            leads = old or (node == "n2" and now_s >= ELECTED_S)
            recorder.record(
                BeliefEvent,
                subject="leader",
                node=node,
                incarnation=0,
                claims=Claim.YES if leads else Claim.NO,
                asked_ns=recorder.now_ns(),
                answered_ns=recorder.now_ns(),
                source="fake",
                epoch=2 if now_s >= ELECTED_S and not old else 1,
            )
