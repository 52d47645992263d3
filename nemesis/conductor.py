"""Carries out a schedule: resolves, records, injects, proves, heals; and heals everything on every path out.

A fault is recorded before it acts (so that a crash in between leaves a trace) and after its proof. An exception in a
fault ends it as `indeterminate` and is recorded; healing still runs.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from harness.fault import Cluster, Fault, Proof, Resolved, Skip, View
from harness.operation import FaultAction, FaultEvent, FaultOutcome, FaultStage
from harness.runtime.node import NodeState
from nemesis.schedule import Entry

#: No single injection or healing may hold up the run longer than this.
ACT_DEADLINE_S: Final = 10.0
#: How long a fault aimed at the leader waits for one to be known.
LEADER_WAIT_S: Final = 2.0


class Conductor:
    """One run's nemesis. `schedule_sink` receives each fault as it really happened."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        faults: Mapping[str, Fault],
        schedule_sink: Callable[[dict[str, object]], None],
    ) -> None:
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._faults = faults
        self._records = cluster.records
        self._view = cluster.view
        self._sink = schedule_sink
        self._active: dict[int, tuple[Entry, Resolved]] = {}
        self._count = 0

    @property
    def current(self) -> str | None:
        """The faults in force, as a person would read them; None in quiet times."""
        words = [f"{e.spec.fault} of {', '.join(r.nodes)}" for e, r in self._active.values()]
        return "; ".join(words) or None

    async def run(self, schedule: list[Entry], *, stop: asyncio.Event) -> None:
        """Carry out `schedule` from now on; returns early, with everything healed, when `stop` is set."""
        start_ns = self._records.now_ns()
        try:
            for entry in schedule:
                if not await self._sleep_until(start_ns + entry.inject_ns, stop):
                    return
                fault_id = await self._inject(entry)
                if fault_id is None:
                    continue
                await self._sleep_until(self._records.now_ns() + entry.duration_ns, stop)
                await self._heal(fault_id)
        finally:
            await self.heal_all()

    async def heal_all(self) -> None:
        """Heal every fault in force, then whatever else is cut, paused or dead. Idempotent."""
        for fault_id in list(self._active):
            await self._heal(fault_id)
        await self._runtime.network.heal_all()
        for node in self._runtime.nodes.values():
            if node.state is NodeState.PAUSED:
                await node.resume()
            elif node.state is NodeState.DEAD:
                await node.start()

    async def _inject(self, entry: Entry) -> int | None:
        fault = self._faults[entry.spec.fault]
        view = await self._await_leader(entry)
        resolved = fault.resolve(entry.spec, view, random.Random(entry.draw_seed))
        fault_id, self._count = self._count, self._count + 1
        if isinstance(resolved, Skip):
            self._record(fault_id, entry, FaultAction.INJECT, FaultStage.BEGIN, view, None)
            self._record(fault_id, entry, FaultAction.INJECT, FaultStage.END, view, None, skip=resolved)
            return None
        self._record(fault_id, entry, FaultAction.INJECT, FaultStage.BEGIN, view, resolved)
        self._active[fault_id] = (entry, resolved)
        proof = await self._guard(fault.inject(fault_id, resolved, self._cluster))
        self._record(fault_id, entry, FaultAction.INJECT, FaultStage.END, view, resolved, proof=proof)
        return fault_id

    async def _heal(self, fault_id: int) -> None:
        entry, resolved = self._active[fault_id]
        fault = self._faults[entry.spec.fault]
        view = self._view()
        self._record(fault_id, entry, FaultAction.HEAL, FaultStage.BEGIN, view, resolved)
        proof = await self._guard(fault.heal(fault_id, resolved, self._cluster))
        self._record(fault_id, entry, FaultAction.HEAL, FaultStage.END, view, resolved, proof=proof)
        del self._active[fault_id]

    async def _guard(self, action: Awaitable[Proof]) -> Proof:
        try:
            async with asyncio.timeout(ACT_DEADLINE_S):
                return await action
        except Exception as error:
            # A fault that throws is a finding about the harness, not a reason to leave the cluster broken.
            return Proof(FaultOutcome.INDETERMINATE, f"{type(error).__name__}: {error}")

    async def _await_leader(self, entry: Entry) -> View:
        deadline_ns = self._records.now_ns() + round(LEADER_WAIT_S * 1e9)
        view = self._view()
        while entry.spec.target in ("leader", "follower") and view.leader is None:
            if self._records.now_ns() > deadline_ns:
                break
            await asyncio.sleep(0.02)
            view = self._view()
        return view

    async def _sleep_until(self, at_ns: int, stop: asyncio.Event) -> bool:
        delay_s = (at_ns - self._records.now_ns()) / 1e9
        if delay_s > 0 and not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), delay_s)
            except TimeoutError:
                return True
        return not stop.is_set()

    def _record(
        self,
        fault_id: int,
        entry: Entry,
        action: FaultAction,
        stage: FaultStage,
        view: View,
        resolved: Resolved | None,
        *,
        proof: Proof | None = None,
        skip: Skip | None = None,
    ) -> None:
        outcome = FaultOutcome.SKIPPED if skip else proof.outcome if proof else FaultOutcome.PENDING
        event = self._records.record(
            FaultEvent,
            fault_id=fault_id,
            fault=entry.spec.fault,
            action=action,
            stage=stage,
            outcome=outcome,
            target=entry.spec.text.partition(":")[2],
            nodes=resolved.nodes if resolved else (),
            severed=tuple(str(link) for link in resolved.links) if resolved else (),
            leader=view.leader,
            epoch=view.epoch,
            proof=proof.text if proof else None,
            why=skip.why if skip else None,
            details=dict(resolved.details) if resolved else {},
        )
        self._sink(
            {
                "fault_id": fault_id,
                "spec": entry.spec.text,
                "action": str(action),
                "stage": str(stage),
                "outcome": str(outcome),
                "nominal_ns": entry.inject_ns,
                "duration_ns": entry.duration_ns,
                "draw_seed": entry.draw_seed,
                "time_ns": event.time_ns,
                "nodes": list(resolved.nodes) if resolved else [],
                "severed": [str(link) for link in resolved.links] if resolved else [],
                "details": dict(resolved.details) if resolved else {},
                "leader": view.leader,
                "epoch": view.epoch,
                "proof": proof.text if proof else None,
                "why": skip.why if skip else None,
            }
        )
