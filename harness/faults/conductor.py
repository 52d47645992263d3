"""Carries out a schedule: resolves, records, injects, proves and heals faults, and heals all of them at every end.

A fault is recorded before it acts, so that a crash in between leaves a trace, and after its proof. An exception in a
fault ends it as `indeterminate` and is recorded; healing still runs. Each worker of the schedule is a task of its own.
When a fault of another worker holds what this one needs, it waits a while, and is then skipped with the reason.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from fencepost.harness.base.quorum import Damage, Pair, QuorumView, adds_up, majority, worst
from fencepost.harness.faults.act_log import ActLog, ActRecord
from fencepost.harness.faults.event_watch import EventWatch, awaited, paused
from fencepost.harness.faults.fault_options import Seen
from fencepost.harness.faults.kind import (
    UNABLE,
    Act,
    Cluster,
    Doing,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
)
from fencepost.harness.faults.overlaps import takes_nodes
from fencepost.harness.faults.schedule import ScheduledFault, by_worker
from fencepost.harness.history import DiskEffect, FaultAction, FaultOutcome, FaultStage
from fencepost.harness.runtime.node import Node, NodeState, Runtime, death_of

#: How long a fault aimed at the leader waits for one to be known.
LEADER_WAIT_S: Final = 2.0
#: Longest time in which a server is started that a fault has left.
_START_S: Final = 30.0
#: How long a fault waits for something that another fault holds.
HELD_WAIT_S: Final = 3.0
#: A healing that was not proven is tried again this much later: a node that is not healed would spoil later faults.
_HEAL_AGAIN_S: Final = 1.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Injected:
    """One injection: the number of the fault, the nodes that it acts on, and its proof, or why it was skipped."""

    fault_id: int
    nodes: tuple[str, ...]
    proof: Proof

    @property
    def skipped(self) -> bool:
        return self.proof.outcome is FaultOutcome.SKIPPED


#: For each worker its entries, in their order.
Workers: TypeAlias = Iterable[Iterable[ScheduledFault]]


class Conductor:
    """One run's nemesis. `schedule_sink` receives each act as it really happened.

    With `keep_quorum` an injection after which no majority of voters would run and reach each other is skipped.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        faults: Mapping[str, FaultKind],
        schedule_sink: Callable[[dict[str, object]], None],
        keep_quorum: bool = False,
    ) -> None:
        self._view: Callable[[], View] = lambda: replace(cluster.view(), returned=self._returned)
        self._cluster = replace(cluster, parts=self, disturbed=self._disturbed, view=self._view)
        self._runtime = cluster.runtime
        self._faults, self._keep_quorum = faults, keep_quorum
        self._records = cluster.records
        self._log = ActLog(cluster.records, faults, schedule_sink)
        self._active: dict[int, ActRecord] = {}
        #: Watches for the events that end faults in force early, from before their injection.
        self._endings: dict[int, EventWatch] = {}
        #: The nodes that the last healing of a stop or a cut gave back.
        self._returned: tuple[str, ...] = ()
        #: Nodes whose disks faults have damaged: that stays.
        self._damaged: set[str] = set()
        #: Faults whose healing was not proven. It is tried again at the end, when nothing may stand in the way.
        self._doubtful: dict[int, ActRecord] = {}

    @property
    def current(self) -> str | None:
        """The faults in force, in one line for a person; None when there are none."""
        return "; ".join(map(_in_words, self._active.values())) or None

    async def run(self, schedule: list[ScheduledFault], *, stop: asyncio.Event) -> None:
        """Carry out `schedule` as `run_workers` does."""
        await self.run_workers(by_worker(schedule), stop=stop)

    async def run_workers(self, workers: Workers, *, stop: asyncio.Event, limit_ns: float = math.inf) -> None:
        """Carry out each worker's entries, those due by `limit_ns` not later; when `stop` is set, heal and return."""
        self._log.zero_ns = self._records.now_ns()
        tasks = [asyncio.create_task(self._work(entries, stop, limit_ns)) for entries in workers]
        try:
            await _all_or_none(tasks)
        finally:
            await self.heal_all()

    async def heal_all(self) -> None:
        """Heal every fault in force, then open every link and start every node that is paused or dead. Idempotent.

        A healing that is not proven is tried again when all other faults are healed.
        """
        for _ in range(2):
            for fault_id in list(self._active):
                self._let_go(fault_id, await self._heal(fault_id))
            self._active, self._doubtful = self._doubtful, {}
        self._active = {}
        await self._runtime.network.heal_all()
        for node in self._runtime.nodes.values():
            if node.state is NodeState.PAUSED:
                await node.resume()
            elif node.state is NodeState.DEAD and node.name not in self._cluster.retired:
                await node.start()

    # -- one worker -----------------------------------------------------------------------------------------------

    async def _work(self, entries: Iterable[ScheduledFault], stop: asyncio.Event, limit_ns: float) -> None:
        """Carry out one worker's entries, one after the other."""
        free_ns = self._log.zero_ns
        for entry in entries:
            due_ns = max(self._log.zero_ns + entry.inject_ns, free_ns)
            if entry.inject_ns <= limit_ns < due_ns - self._log.zero_ns or not await self._sleep_until(due_ns, stop):
                return
            injected = await self.inject(entry, stop)
            if injected.skipped:
                continue
            await self._hold(injected.fault_id, stop)
            await self.heal(injected.fault_id, stop)
            free_ns = self._records.now_ns() + entry.gap_ns

    async def inject(self, entry: ScheduledFault, stop: asyncio.Event) -> _Injected:
        """Inject one fault now; `stop` ends its waiting for a leader or for other faults."""
        trigger = entry.spec.options.trigger
        seen = await awaited(trigger, self._cluster, zero_ns=self._log.zero_ns, stop=stop) if trigger else None
        skip = None
        if trigger and seen and not seen.met and not trigger.acts_anyway:
            skip = Skip(trigger.missed)
        record, skip = await self._resolve(entry, seen, skip, stop)
        self._log.write(record, FaultAction.INJECT, FaultStage.BEGIN)
        if skip is not None:
            self._log.write(record, FaultAction.INJECT, FaultStage.END, skip=skip)
            return _Injected(record.fault_id, (), Proof(FaultOutcome.SKIPPED, skip.why))
        act = record.act
        assert act is not None
        # Nothing was awaited since the check for obstacles, so no other worker came in between.
        self._active[act.fault_id] = record
        fault = self._faults[entry.spec.fault]
        self._damaged |= damaged_by(fault, entry.spec, act.resolved)
        if (ending := entry.spec.options.ending) is not None:
            self._endings[act.fault_id] = EventWatch(ending, self._cluster, zero_ns=self._log.zero_ns)
        proof = await self._guard(fault.inject(act), fault.act_deadline_s)
        self._log.write(record, FaultAction.INJECT, FaultStage.END, proof=proof)
        if proof.outcome is FaultOutcome.SKIPPED:
            # It found nothing to act on, so it holds nothing either, and gives no node back.
            await self._guard(act.healed(fault.heal), fault.act_deadline_s)
            self._let_go(act.fault_id, proof)
        return _Injected(act.fault_id, act.resolved.nodes, proof)

    async def _hold(self, fault_id: int, stop: asyncio.Event) -> None:
        """Keep a fault in force for its length, or until the event that ends it."""
        entry = self._active[fault_id].entry
        over_ns = self._records.now_ns() + entry.duration_ns
        watch = self._endings.get(fault_id)
        if watch is None:
            await self._sleep_until(over_ns, stop)
            return
        seen = await watch.wait(over_ns, stop)
        if seen.met:
            await self._sleep_until(min(self._records.now_ns() + watch.trigger.delay_ns, over_ns), stop)
        self._active[fault_id] = replace(self._active[fault_id], ended=seen)

    async def heal(self, fault_id: int, stop: asyncio.Event) -> Proof:
        """Heal one fault; a healing that is not proven is tried once more, unless `stop` is set meanwhile."""
        proof = await self._heal(fault_id)
        if proof.outcome is not FaultOutcome.HEALED and await self._sleep_until(
            self._records.now_ns() + round(_HEAL_AGAIN_S * 1e9), stop
        ):
            proof = await self._heal(fault_id)
        self._let_go(fault_id, proof)
        await _start_ended(self._cluster, self._disturbed(fault_id), self._guard)
        return proof

    async def _heal(self, fault_id: int) -> Proof:
        record = replace(self._active[fault_id], view=self._view())
        fault = self._faults[record.entry.spec.fault]
        return await self._recorded(record, fault.heal, fault.act_deadline_s)

    async def _recorded(self, record: ActRecord, heal: Doing, limit_s: float) -> Proof:
        assert record.act is not None
        self._log.write(record, FaultAction.HEAL, FaultStage.BEGIN)
        proof = await self._guard(record.act.healed(heal), limit_s)
        self._log.write(record, FaultAction.HEAL, FaultStage.END, proof=proof)
        return proof

    def _let_go(self, fault_id: int, proof: Proof) -> None:
        record = self._active.pop(fault_id, None)
        self._endings.pop(fault_id, None)
        if record is None or proof.outcome is FaultOutcome.SKIPPED:
            return
        if proof.outcome is not FaultOutcome.HEALED:
            self._doubtful[fault_id] = record
        elif record.act and takes_nodes(self._faults[record.entry.spec.fault], record.entry.spec):
            self._returned = record.act.resolved.nodes

    async def _guard(self, action: Awaitable[Proof], limit_s: float) -> Proof:
        deadline = asyncio.timeout(limit_s)
        try:
            async with deadline:
                return _explained(await action, self._runtime.nodes.values())
        except Exception as error:
            if deadline.expired():
                return Proof(FaultOutcome.INDETERMINATE, f"not finished within {limit_s:g} s")
            # An exception in a fault is a defect of the harness, not a reason to leave the cluster broken.
            return Proof(FaultOutcome.INDETERMINATE, f"{type(error).__name__}: {error}")

    async def part(self, of: Act, resolved: Resolved, *, inject: Doing, hold_ns: int, heal: Doing) -> Proof:
        """Carry out one part of a fault in force; see `Act.part`."""
        act = Act(fault_id=next(self._cluster.fault_ids), resolved=resolved, cluster=self._cluster)
        whole = self._active[of.fault_id]
        record = replace(whole, fault_id=act.fault_id, view=self._view(), act=act, part_of=of.fault_id)
        limit_s = self._faults[whole.entry.spec.fault].act_deadline_s
        self._log.write(record, FaultAction.INJECT, FaultStage.BEGIN)
        try:
            proof = await self._guard(inject(act), limit_s)
            self._log.write(record, FaultAction.INJECT, FaultStage.END, proof=proof)
            await asyncio.sleep(hold_ns / 1e9)
        finally:
            # The healing of the whole cancels its parts. One that is being healed then is healed to its end first.
            healed = await _to_the_end(self._recorded(record, heal, limit_s))
        return proof if healed.outcome is FaultOutcome.HEALED else healed

    # -- when, and whether ----------------------------------------------------------------------------------------

    async def _resolve(
        self, entry: ScheduledFault, seen: Seen | None, skip: Skip | None, stop: asyncio.Event
    ) -> tuple[ActRecord, Skip | None]:
        """Wait until the target can be resolved and no other fault is in the way; or say why the fault is skipped."""
        fault = self._faults[entry.spec.fault]
        from_ns = self._records.now_ns()
        record = ActRecord(fault_id=next(self._cluster.fault_ids), entry=entry, view=self._view(), seen=seen)
        while skip is None:
            waited_ns = self._records.now_ns() - from_ns
            record = replace(record, view=self._view(), waited_ns=waited_ns)
            target = fault.choose(entry.spec, record.view, random.Random(entry.draw_seed))
            if isinstance(target, Skip):
                if (
                    record.view.leader is not None
                    or waited_ns >= (HELD_WAIT_S if entry.bounded else LEADER_WAIT_S) * 1e9
                ):
                    skip = target
            else:
                obstacle = self._obstacle(fault, entry, target, record.view)
                if obstacle is None:
                    act = Act(fault_id=record.fault_id, resolved=target, cluster=self._cluster)
                    return replace(record, act=act), None
                if waited_ns >= HELD_WAIT_S * 1e9:
                    skip = Skip(obstacle)
            if entry.bounded:
                entry = replace(entry, draw_seed=random.Random(entry.draw_seed).getrandbits(32))
                record = replace(record, entry=entry)
            if skip is None and not await self._sleep_until(self._records.now_ns() + round(_LOOK_S * 1e9), stop):
                skip = Skip("the main phase ended while the fault was waiting")
        return record, skip

    def _obstacle(self, fault: FaultKind, entry: ScheduledFault, resolved: Resolved, view: View) -> str | None:
        """Return why this injection must wait or be skipped; None when nothing is in the way."""
        for fault_id, other in self._active.items():
            name = other.entry.spec.fault
            if self._faults[name] is fault and fault.alone:
                return f"only one {name} may be in force at a time, and fault {fault_id} is"
            held = sorted(fault.holds & self._faults[name].holds)
            nodes = sorted(set(resolved.nodes) & set(other.act.resolved.nodes if other.act else ()))
            if held and nodes:
                return f"the {', '.join(held)} of {', '.join(nodes)} is held by fault {fault_id}, {name}"
        states = {name: self._runtime.nodes[name].state for name in resolved.nodes if name in self._runtime.nodes}
        # A clock or a disk is that of a process, too; drawn again, the target may be a node that has one.
        needed = fault.holds if entry.bounded else fault.holds & {"process"}
        if states and needed and NodeState.RUNNING not in states.values():
            return f"not running: {', '.join(f'{name} is {state}' for name, state in states.items())}"
        own = damages_of(fault, resolved)
        if entry.bounded and (more := _more_together([*self._in_force(), own], view)) is not None:
            return more
        if self._keep_quorum:
            together = [(_lacks(self._runtime, view),), *self._in_force(), own]
            if (without := _without_quorum(together, view)) is not None:
                return without
            return _without_disks(self._damaged, damaged_by(fault, entry.spec, resolved), view)
        return None

    def _in_force(self) -> list[tuple[Damage, ...]]:
        """Return for each fault in force the damages that it may do."""
        return [damages_of(self._faults[r.entry.spec.fault], r.act.resolved) for r in self._active.values() if r.act]

    def _disturbed(self, fault_id: int) -> frozenset[str]:
        others = (record.act for number, record in self._active.items() if number != fault_id)
        return frozenset(node for act in others if act for node in act.resolved.nodes)

    async def _sleep_until(self, at_ns: int, stop: asyncio.Event) -> bool:
        return await paused((at_ns - self._records.now_ns()) / 1e9, stop)


async def _start_ended(
    cluster: Cluster, disturbed: Collection[str], guard: Callable[[Awaitable[Proof], float], Awaitable[Proof]]
) -> None:
    """Start the servers that faults have ended and left, where no other fault is at work by now.

    One that does not start is started again, with all that are down, at the end.
    """
    for name in sorted(cluster.ended - {*disturbed}):
        cluster.ended.discard(name)
        await guard(_started(cluster, name), _START_S)


async def _started(cluster: Cluster, name: str) -> Proof:
    node = cluster.runtime.nodes[name]
    if node.state is NodeState.DEAD and name not in cluster.retired:
        await node.start()
    return Proof(FaultOutcome.HEALED, "")


def _in_words(record: ActRecord) -> str:
    nodes = ", ".join(record.act.resolved.nodes) if record.act else ""
    return f"{record.entry.spec.fault} of {nodes or record.entry.spec.target}"


def _more_together(together: list[tuple[Damage, ...]], view: View) -> str | None:
    """Return which nodes would lose more to faults together than to one of them; None where none would."""
    more = next((group for group in (*view.electorates, view.serving) if adds_up(group, together)), None)
    return f"with the faults in force it would take more of {', '.join(more)} than one of them does" if more else None


def _without_quorum(together: list[tuple[Damage, ...]], view: View) -> str | None:
    """Return who would have no quorum; None where all keep it."""
    short = next((one for one in view.electorates if worst([one], together) is not QuorumView.MUTUAL), None)
    if short is None:
        return None
    absent = {name for damages in together for damage in damages for name in damage.absent}
    gone = ", ".join(sorted(absent & set(short))) or "none"
    also = ", and links would be cut" if any(d.severed for damages in together for d in damages) else ""
    return f"it would leave no quorum: of {len(short)} voters {gone} would be down{also}"


def _lacks(runtime: Runtime, view: View) -> Damage:
    """Return what the cluster lacks now."""
    down = {name for name, node in runtime.nodes.items() if node.state is not NodeState.RUNNING}
    severed = frozenset((link.source, link.target) for link in runtime.network.blocked)
    return Damage(absent=view.unready | down, severed=severed)


def _explained(proof: Proof, nodes: Iterable[Node]) -> Proof:
    """Put servers that ended by themselves first in a failed proof: links to them are shut as well."""
    deaths = [exit_ for node in nodes if (exit_ := death_of(node)) is not None]
    if proof.outcome is not FaultOutcome.INDETERMINATE or not deaths:
        return proof
    logs = ", ".join(f"nodes/{exit_.node}/server.log" for exit_ in deaths)
    return replace(proof, text=f"{'; '.join(map(str, deaths))} (see {logs}); {proof.text}")


def damages_of(fault: FaultKind, resolved: Resolved) -> tuple[Damage, ...]:
    """Return what this fault may take from the quorum while it is in force.

    Returns:
        Alternatives: one of them holds at a time. A fault that acts on its nodes in turn has one for each node.
    """
    links = frozenset[Pair]((link.source, link.target) for link in {*resolved.links, *resolved.threatens})
    if not fault.holds & UNABLE:
        return (Damage(severed=links),)
    if resolved.in_turn:
        return tuple(Damage(absent=frozenset({name}), severed=links) for name in resolved.nodes)
    return (Damage(absent=frozenset(resolved.nodes), severed=links),)


async def _to_the_end(work: Coroutine[Any, Any, Proof]) -> Proof:
    """Await `work` even when this task is cancelled meanwhile; the cancellation is raised once `work` is over."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    proof = task.result()
    if cancelled is not None:
        raise cancelled
    return proof


def _without_disks(before: Collection[str], more: Collection[str], view: View) -> str | None:
    """Return why these further nodes may not be damaged, where a majority must keep the disks that it wrote."""
    damaged = {*before, *more}
    short = next((own for own in view.electorates if majority(own) > len({*own} - damaged)), None)
    if short is None or damaged == {*before}:
        return None
    return f"it would leave no quorum: of {len(short)} voters {', '.join(sorted(damaged & {*short}))} would be damaged"


def damaged_by(fault: FaultKind, spec: FaultSpec, resolved: Resolved) -> frozenset[str]:
    """Return the nodes whose disks this fault damages for the rest of the run."""
    return frozenset(resolved.nodes if fault.effects(spec).disk is DiskEffect.DAMAGED else ())


async def _all_or_none(tasks: "list[asyncio.Task[None]]") -> None:
    """Wait for all tasks; when one fails or this is cancelled, cancel the others and wait for them."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
