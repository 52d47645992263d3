"""Wrong clocks of chosen nodes, while their servers run: an offset, a drift, or jumps forth and back.

The machine's clock is not touched: each process of the node gets a clock of its own (`harness/runtime/clocks`). What
that clock shows is a known function of true time. A `ClockEvent` for each node and clock records it at every change and
every restart.

A monotonic clock goes back only when a person asks for it (a negative offset, a strobe, `back=yes`). Otherwise healing
sets its rate to 1 and leaves it ahead or behind until the server is restarted, and records by how much.

The proof has two parts. The settings are read back from every process of the node. And a server that tells its time is
asked for it before and after (`harness/contract/servers.py`).
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import seconds
from fencepost.harness.base.quantities import counted
from fencepost.harness.faults.clock_answers import Answers, FirstAnswers, ask_all, compare
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.skew_shape import SkewOptions, SkewShape, pairs, shape_of, why_senseless
from fencepost.harness.history import Clock, ClockEvent, Effects, FaultOutcome, NoteEvent
from fencepost.harness.runtime.clocks.availability import why_not
from fencepost.harness.runtime.clocks.memory import ClockError
from fencepost.harness.runtime.clocks.node_clocks import ClockedNode, ClockReadings, NodeClocks
from fencepost.harness.runtime.clocks.setting import Settings
from fencepost.harness.runtime.node import Node
from fencepost.harness.runtime.provider import Placement

#: How late a change may take effect, after the time for which it was computed, without a step back.
_MARGIN_NS: Final = 50_000_000
#: Three clocks are read within far less time, unless this process loses the processor in between.
_MOMENT_NS: Final = 1_000_000
_MOMENT_TRIES: Final = 100
_LONGEST_PROOF: Final = 400


@dataclass(slots=True)
class _Skew:
    """One node whose clocks were changed: since when, by which fault, and what failed."""

    kept: ClockedNode
    since_ns: dict[Clock, int]
    before: Settings = field(default_factory=Settings)
    asked_ns: int = 0
    took_ns: int = 0
    fault_id: int | None = None
    failed_meanwhile: str = ""


#: Computes the next settings of a node from each clock's true time now.
_MakeSettings = Callable[[_Skew, Mapping[Clock, int]], Settings]


class ClockSkew(FaultKind):
    name = "clock-skew"
    about = "the clock of a node is wrong, drifts or jumps; the machine's own clock stays right"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = SkewOptions(for_=seconds(8))
    for_all = (
        "clock-skew",
        "clock-skew:leader:rate=1.1:clock=both",
        "clock-skew:leader:offset=10s:clock=monotonic",
        "clock-skew:one:strobe=2m:period=20ms",
        "clock-skew:leader:rate=0.5:clock=monotonic",
    )
    holds = frozenset({"clock"})

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._clocks = NodeClocks(self._changed)
        self._skews: dict[str, _Skew] = {}
        self._first_answers = FirstAnswers()

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(skews=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        return why_senseless(spec.own(SkewOptions))

    def unavailable(self, placement: Placement) -> Refusal | None:
        return why_not(placement)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        chosen = choose_nodes(spec.target, view, draw)
        shape = shape_of(spec.own(SkewOptions), draw)
        return chosen if isinstance(chosen, Skip) else Resolved(nodes=chosen, means=shape, details=shape.details)

    # -- inject -------------------------------------------------------------------------------------------------------

    async def inject(self, act: Act) -> Proof:
        shape, nodes, cluster = act.means(SkewShape), act.nodes, act.cluster
        self._cluster = cluster
        wrong: list[str] = []
        for node in nodes:
            wrong += await self._arm(node, shape, act.fault_id)
        if wrong:
            return Proof(FaultOutcome.INDETERMINATE, f"no clock was changed: {_shown(wrong)}")
        before = await self._first_answers.ask_first(cluster.system, nodes, shape.clocks)
        skews = [self._skews[node.name] for node in nodes]
        for skew in skews:
            skew.fault_id = act.fault_id
            self._clocks.guard(skew.kept)
        readings = self._change(skews, shape.clocks, lambda skew, now: shape.applied(skew.kept.settings, now))
        wrong = [f"{name}: {what}" for name, reading in readings.items() for what in reading.wrong]
        after = await ask_all(cluster.system, nodes, shape.clocks)
        answers, contradictions = self._compare(skews, before, after)
        wrong += contradictions
        text = "; ".join([*(f"{name}: {_reading_text(r)}" for name, r in readings.items()), *answers])
        if wrong:
            return Proof(FaultOutcome.INDETERMINATE, f"{_shown(wrong)} ({text})")
        return Proof(FaultOutcome.INSTALLED, text)

    async def _arm(self, node: Node, shape: SkewShape, fault_id: int) -> list[str]:
        """Prepare the processes of one node for other settings; return what is wrong, one sentence each."""
        kept = self._clocks.of(node)
        now_ns = self._now_ns()
        skew = self._skews.setdefault(node.name, _Skew(kept, dict.fromkeys(Clock, now_ns)))
        # From here on the healing of this fault is what disarms it, however far the injection comes.
        skew.fault_id = fault_id
        try:
            await self._clocks.arm(node)
        except ClockError as error:
            return [f"{node.name}: {error}"]
        wrong = [f"{node.name}: process {f.pid}: {_ended(f.ended)}{f.why}" for f in kept.failures]
        reading = self._clocks.read_back(kept)
        if not reading.processes and not wrong:
            wrong.append(f"{node.name}: it ended while it was being armed")
        wrong += [f"{node.name}: {what}" for what in reading.wrong]
        wrong += [f"{node.name}: process {pid} is not armed" for pid in reading.coming]
        if Clock.MONOTONIC in shape.clocks:
            # Waits that still follow true time would hang, or return at once for ever: no real clock does that.
            wrong += [f"{node.name}: its timed waits do not follow: {why}" for why in self._clocks.untranslated(kept)]
        return wrong

    def _change(
        self, skews: Sequence[_Skew], clocks: Sequence[Clock], settings: _MakeSettings
    ) -> dict[str, ClockReadings]:
        """Set the clocks of all these nodes, read them back, and record what each clock shows from now on."""
        readings = {}
        for skew in skews:
            skew.asked_ns, now = self._moment()
            skew.before = skew.kept.settings
            self._clocks.set(skew.kept, settings(skew, now))
            skew.took_ns = self._now_ns() - skew.asked_ns
            skew.since_ns |= dict.fromkeys(clocks, skew.asked_ns)
        for skew in skews:
            reading = self._clocks.read_back(skew.kept)
            if not reading.processes and skew.kept.in_force:
                reading = ClockReadings(processes=0, wrong=("it ended before its clock was read back",))
            readings[skew.kept.name] = reading
            self._record(skew, clocks, reading)
        return readings

    def _record(self, skew: _Skew, clocks: Sequence[Clock], reading: ClockReadings) -> None:
        assert self._cluster is not None, "set by inject"
        for clock, setting in pairs(skew.kept.settings):
            if clock not in clocks:
                continue
            self._cluster.records.record(
                ClockEvent,
                node=skew.kept.name,
                incarnation=skew.kept.node.incarnation,
                clock=clock,
                asked_ns=skew.asked_ns,
                since_ns=skew.since_ns[clock],
                offset_ns=setting.offset_ns,
                rate=setting.rate,
                period_ns=setting.period_ns,
                delta_ns=setting.delta_ns,
                length_ns=setting.length_ns,
                certain=not reading.wrong,
                fault_id=skew.fault_id,
                proof=_shown(reading.wrong) if reading.wrong else _reading_text(reading),
            )

    # -- heal ---------------------------------------------------------------------------------------------------------

    async def heal(self, act: Act) -> Proof:
        shape, nodes, cluster = act.means(SkewShape), act.nodes, act.cluster
        self._cluster = cluster
        texts: list[str] = []
        wrong: list[str] = []
        for node in nodes:
            skew = self._skews.get(node.name)
            if skew is None or skew.fault_id not in (act.fault_id, None):
                continue
            await self._clocks.unguard(skew.kept)
            text, problems = await self._heal_one(skew, shape)
            texts.append(text)
            wrong += problems
        await self._clocks.rest()
        after = await ask_all(cluster.system, nodes, shape.clocks)
        settings = {node.name: self._skews[node.name].kept.settings for node in nodes if node.name in self._skews}
        wrong += self._first_answers.contradictions_left(settings, after)
        text = "; ".join(texts) or "no clock was changed"
        if wrong:
            return Proof(FaultOutcome.INDETERMINATE, f"{_shown(wrong)} ({text})")
        return Proof(FaultOutcome.HEALED, text)

    async def _heal_one(self, skew: _Skew, shape: SkewShape) -> tuple[str, list[str]]:
        """Heal one node; return what was done, and what is wrong."""
        kept, name = skew.kept, skew.kept.name
        wrong = [f"{name}: {skew.failed_meanwhile}"] if skew.failed_meanwhile else []
        skew.failed_meanwhile = ""
        healed = self._change([skew], shape.clocks, lambda s, now: shape.healed(s.kept.settings, now, _MARGIN_NS))
        reading = healed[name]
        gained = skew.before.monotonic.extra_rate > 0 and Clock.MONOTONIC in shape.clocks and not shape.may_step_back
        if gained and skew.took_ns > _MARGIN_NS:
            wrong.append(f"{name}: its monotonic clock may have gone back: setting it took {skew.took_ns} ns")
        wrong += [f"{name}: {what}" for what in reading.wrong]
        if not reading.processes:
            gone = "no process is left of it" if kept.tree is not None else "nothing of it is armed"
            kept.forget()
            kept.settings = Settings()
            return f"{name}: {gone}", wrong
        if not kept.settings.are_true:
            left_s = kept.settings.monotonic.offset_ns / 1e9
            return f"{name}: its monotonic clock has the normal rate again, and stays at {left_s:+.3f} s", wrong
        try:
            kept_ours = await self._clocks.release(kept)
        except ClockError as error:
            kept_ours = [str(error)]
        skew.fault_id = None
        wrong += [f"{name}: {what}" for what in kept_ours]
        functions = (
            "clock functions of ours, which show true time" if kept_ours else "the kernel's own clock functions again"
        )
        return f"{name}: {counted(reading.processes, 'process', 'processes')} with {functions}", wrong

    async def close(self) -> None:
        """Stop watching the nodes; for callers that use this fault without a run. Idempotent."""
        await self._clocks.close()

    # -- restarts -----------------------------------------------------------------------------------------------------

    def _changed(self, kept: ClockedNode) -> None:
        """Record the clocks of a server that was restarted, or of a node with a new process that could not be armed."""
        skew = self._skews[kept.name]
        assert self._cluster is not None, "set by inject"
        if not kept.in_force:
            skew.fault_id = None
            skew.asked_ns = self._now_ns()
            skew.since_ns = dict.fromkeys(Clock, skew.asked_ns)
            self._record(skew, tuple(Clock), ClockReadings(processes=1, wrong=(), how="as the kernel made it"))
            return
        reading = self._clocks.read_back(kept)
        first = kept.tree.first if kept.tree is not None else 0
        # A child process that ended at once, as those of a start script do, has shown its clock to nobody.
        counted = [f for f in kept.failures if not f.ended or f.pid == first]
        wrong = [*(f"process {f.pid}: {_ended(f.ended)}{f.why}" for f in counted), *reading.wrong]
        if not reading.processes:
            wrong.append("it ended before it was armed")
        reading = replace(reading, wrong=tuple(wrong))
        skew.asked_ns = self._now_ns()
        touched = [c for c, setting in pairs(kept.settings) if not setting.is_true]
        self._record(skew, touched, reading)
        if wrong:
            skew.failed_meanwhile = f"meanwhile: {_shown(wrong)}"
            text = f"{kept.name}: {_shown(wrong)}"
            self._cluster.records.record(NoteEvent, topic="clock-not-armed", text=text)

    def _compare(self, skews: Sequence[_Skew], before: Answers, after: Answers) -> tuple[list[str], list[str]]:
        """Return what the servers say of their time, and which of it contradicts their settings."""
        texts: list[str] = []
        wrong: list[str] = []
        for skew in skews:
            settings, earlier = skew.kept.settings, skew.before
            passed_ns = self._now_ns() - skew.asked_ns
            answers, contradictions = compare(skew.kept.name, settings, earlier, before, after, passed_ns=passed_ns)
            texts += answers
            wrong += contradictions
        return texts, wrong

    def _moment(self) -> tuple[int, Mapping[Clock, int]]:
        """Read the history's clock and both true clocks at one moment: settings use the latter, events the former."""
        for _ in range(_MOMENT_TRIES):
            asked_ns = self._now_ns()
            now = {Clock.WALL: time.time_ns(), Clock.MONOTONIC: time.monotonic_ns()}
            # Otherwise this process lost the processor between two of the readings.
            if self._now_ns() - asked_ns < _MOMENT_NS:
                break
        return asked_ns, now

    def _now_ns(self) -> int:
        assert self._cluster is not None, "set by inject"
        return self._cluster.records.now_ns()


def _processes(reading: ClockReadings) -> str:
    return counted(reading.processes, "process", "processes")


def _reading_text(reading: ClockReadings) -> str:
    how = f" ({reading.how})" if reading.how else ""
    return f"read back from {counted(reading.processes, 'process', 'processes')}{how}"


def _ended(ended: bool) -> str:
    return "it ended while it was being armed: " if ended else ""


def _shown(wrong: Sequence[str]) -> str:
    return "; ".join(wrong)[:_LONGEST_PROOF]
