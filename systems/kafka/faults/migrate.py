"""Migration: a running cluster moves its metadata to another store, step by step, as an operator would do it.

Each step is recorded as a part of this fault: a server is ended and started in its next configuration, or a new one is
started. The next step begins only when the cluster is healthy, so that another fault delays the migration and does not
end it. A phase begins when the servers' own words prove it, and lasts for `hold=` at least. Another fault may wait for
one: `when=hybrid+1s`.

When `for=` ends early, the servers stay as they are, and the proof says how far the migration came. With `back=yes`
healing rolls it back, as far as there is a way back. Controllers that a roll-back ended begin a further migration on
new disks.

Three options are mistakes of an operator: `leaves=yes` and `behind=yes` forget a step of the roll-back, `early=yes`
ends the migration too early.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Act, Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.restarts import until
from fencepost.harness.history import (
    NEW_DISK,
    Effects,
    FaultOutcome,
    MigrationDelayEvent,
    MigrationEvent,
    NoteEvent,
    Stops,
)
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.upgrade.course import Course, Stuck, all_run
from fencepost.nemesis.upgrade.restart import Restart
from fencepost.systems.kafka.contract.migration import (
    MEANINGS,
    MigratesMetadata,
    Migration,
    MigrationStage,
    Phase,
    ServerTurn,
)
from fencepost.systems.kafka.contract.migration_steps import carry_out, give_next_spec, wait_for_phase

#: Longest wait for all servers to serve before the next step; other faults may be in force meanwhile.
_OTHERS_S: Final = 90.0
#: Longest wait for a phase to begin.
_PHASE_S: Final = 90.0
#: A shorter wait for the next step is not worth a record when the migration's time is over.
_DELAY_S: Final = 10.0
#: Time of the main phase before and after the migration.
_BESIDE_S: Final = 10.0
_ASK_S: Final = 3.0
_POLL_S: Final = 0.05
#: What a migration's notes are filed under.
NOTE: Final = "migration"


class _Course(Course):
    """One migration under way."""

    def __init__(self, act: Act, migration: Migration) -> None:
        super().__init__(act)
        self.migration, self.options = migration, act.options(MigrateOptions)
        #: What each turned node is now; None: it was ended for good.
        self.modes: dict[str, str | None] = {}
        #: Phases with the time that each took to begin, in seconds.
        self.reached: list[tuple[Phase, float]] = []

    async def go(self) -> None:
        """Go through all stages until the time is over or one fails."""
        for stage in self.migration.stages(Phase(self.options.until), early=self.options.early):
            if self._is_over:
                break
            await self._go(stage)
            await until(lambda: self._is_over, self.options.hold / 1e9)

    async def go_back(self) -> None:
        """Roll the migration back from where it is."""
        if not self.modes:
            return
        self.over.clear()
        try:
            stages = self.migration.way_back(self.modes)
            if not stages:
                raise Stuck("there is no way back from here")
            for stage in stages:
                if self.cluster.hurried():
                    raise Stuck("the run is being ended")
                await self._go(stage)
        except Exception as error:
            raise Stuck(f"not rolled back: {error or type(error).__name__}") from error

    async def _go(self, stage: MigrationStage) -> None:
        turns = [turn for turn in stage.turns if self.modes.get(turn.node, turn.node) != turn.becomes]

        async def serve() -> bool:
            await self._all_serve(stage)
            return not self._is_over

        if not await carry_out(stage, turns, serve=serve, turn=self._step):
            return
        if stage.releases:
            self._note(await self.migration.release(leaves=self.options.leaves, behind=self.options.behind))
        for phase in stage.reaches:
            await self._reach(phase)

    async def _step(self, turn: ServerTurn) -> None:
        """End the server if it runs, and start it as what it becomes."""
        node = self.cluster.runtime.nodes[turn.node]
        ended = node.name in self.cluster.retired
        step = _Step(node, self.cluster, turn, new_disk=ended)
        if turn.becomes is None:
            self.cluster.retired.add(node.name)
        else:
            # Whoever starts it from now on starts the new configuration.
            first = ended or node.state is NodeState.NEW
            await give_next_spec(node, turn, self.migration, first=first)
            self.cluster.retired.discard(node.name)
        self.modes[turn.node] = turn.becomes
        await self.turn(step)

    async def _all_serve(self, stage: MigrationStage) -> None:
        """Wait until every node serves and the cluster is healthy, replicas in sync included. Raises Stuck."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while (wrong := await self._wrong()) is not None and not self.cluster.hurried():
            took_s = loop.time() - began_s
            over = self.over.is_set()
            if stage.reaches and took_s > (_DELAY_S if over else _OTHERS_S):
                self._give_up(stage.reaches[0], took_s, f"the cluster was not healthy: {wrong}")
            if over:
                return
            if took_s > _OTHERS_S:
                raise Stuck(f"the cluster was not healthy within {_OTHERS_S:g} s: {wrong}")
            await asyncio.sleep(_POLL_S)

    @property
    def _is_over(self) -> bool:
        """Whether no further step is wanted: its time is over, or a person is ending the run."""
        return self.over.is_set() or self.cluster.hurried()

    async def _wrong(self) -> str | None:
        if down := self.down():
            return down
        try:
            async with asyncio.timeout(_ASK_S):
                return await self.cluster.system.healthy(self.cluster.runtime.layout)
        except Exception as error:
            return str(error) or type(error).__name__

    async def _reach(self, phase: Phase) -> None:
        """Wait until the servers prove that this phase holds, and record it. Raises Stuck."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        lacks = await wait_for_phase(
            self.migration, phase, within_s=_PHASE_S, ask_s=_ASK_S, hurried=self.cluster.hurried
        )
        took_s = loop.time() - began_s
        if lacks is not None:
            if not self.cluster.hurried():
                self._give_up(phase, took_s, lacks)
            raise Stuck(f"{phase} was not reached within {took_s:.1f} s: {lacks}")
        self.reached.append((phase, took_s))
        self.cluster.phases.append(phase)
        text = await self._evidence()
        gone = tuple(sorted(self.cluster.retired))
        self.cluster.records.record(
            MigrationEvent, phase=phase.value, length_ns=round(took_s * 1e9), text=text, nodes=gone
        )

    def _give_up(self, phase: Phase, took_s: float, lacks: str) -> None:
        self.cluster.records.record(MigrationDelayEvent, phase=phase.value, length_ns=round(took_s * 1e9), text=lacks)

    async def _evidence(self) -> str:
        try:
            async with asyncio.timeout(_ASK_S):
                return await self.migration.evidence()
        except Exception as error:
            return f"no evidence ({error or type(error).__name__})"

    def _note(self, text: str) -> None:
        self.cluster.records.record(NoteEvent, topic=NOTE, text=text)

    @property
    def summary(self) -> str:
        """ "provisioned after 3.1 s, copy after 0.4 s, hybrid after 0.9 s; its time was over"."""
        parts = [", ".join(f"{phase} after {s:.1f} s" for phase, s in self.reached) or "no phase was reached"]
        if not self.failures and self.options.until not in {phase for phase, _ in self.reached}:
            parts.append("then its time was over")
        return "; ".join([*parts, *self.failures])


class _Step(Restart):
    """One turn: the end of a server, if it runs, and its next start, if there is one."""

    def __init__(self, node: Node, cluster: Cluster, turn: ServerTurn, *, new_disk: bool) -> None:
        super().__init__(node, cluster, "stop", None)
        self._starts = turn.becomes is not None
        self._idle = new_disk or node.state is NodeState.NEW
        self.details = {"becomes": turn.becomes or "ended", **({NEW_DISK: True} if new_disk else {})}

    async def end(self) -> Proof:
        if self._idle:
            return Proof(FaultOutcome.INSTALLED, "it did not run")
        return await super().end()

    async def begin(self) -> Proof:
        if self._starts:
            return await super().begin()
        seen = await self.node.evidence()
        outcome = FaultOutcome.HEALED if seen.state is NodeState.DEAD else FaultOutcome.INDETERMINATE
        return Proof(outcome, f"stays ended: {seen.text}")


class MigrateOptions(FaultOptions, frozen=True, kw_only=True):
    until: Annotated[Literal["provisioned", "hybrid", "dual-write", "final"], about("the last phase")] = "final"
    hold: Annotated[Duration, about("how long each phase lasts before the next step, at least")] = seconds(3)
    back: Annotated[bool, about("whether healing rolls the migration back; there is no way back from final")] = False
    leaves: Annotated[
        bool, about("a mistake: the roll-back leaves the state of the migration in the old store; needs back=yes")
    ] = False
    behind: Annotated[
        bool,
        about(
            "a mistake: the roll-back leaves the old store's epoch below that of the new controllers; needs back=yes"
        ),
    ] = False
    early: Annotated[
        bool, about("a mistake: the controllers forget the old store while one server still uses it; needs until=final")
    ] = False


class Migrate(FaultKind):
    name = "migrate"
    about = "the metadata moves to another store, phase by phase: from ZooKeeper to KRaft"
    targets: Mapping[str, str] = {"all": "the whole cluster"}
    default_target = "all"
    options = MigrateOptions(for_=seconds(90))
    #: Its servers are not held: other faults may act on them in every phase, and it waits until they are healed.
    holds: frozenset[str] = frozenset()
    #: It changes a cluster for good, so a plan must name it.
    for_all = ()
    phases: Mapping[str, str] = {phase.value: meaning for phase, meaning in MEANINGS.items()}
    alone = True
    #: Covers the longest wait of a step; a roll-back has several. Each wait has a shorter limit.
    act_deadline_s = 600.0

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def reached(self, spec: FaultSpec) -> frozenset[str]:
        options = spec.own(MigrateOptions)
        way = list(Phase)[: list(Phase).index(Phase(options.until)) + 1]
        back = [Phase.ROLLED_BACK] if options.back else []
        # Too early an end leaves out the phase in which every server is in the new mode.
        return frozenset(phase.value for phase in (*way, *back) if not (options.early and phase is Phase.DUAL_WRITE))

    def main_phase_ns(self, spec: FaultSpec) -> int:
        return spec.duration_ns + round(_BESIDE_S * 1e9)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if not any(member.joins_later for member in placement.cluster):
            return Refusal("this system has no other store to move to", "use --system kafka-bridge")
        options = spec.own(MigrateOptions)
        if options.back and options.until == "final":
            return Refusal("there is no way back from final", "give until=hybrid or until=dual-write")
        mistake = "leaves" if options.leaves else "behind"
        if (options.leaves or options.behind) and not options.back:
            return Refusal(f"{mistake}=yes is about a roll-back", "give back=yes as well")
        if options.early and options.until != "final":
            return Refusal("early=yes is about the last phase", "leave out until=, or give until=final")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        options = spec.own(MigrateOptions)
        details: dict[str, str | int | float | bool] = {"until": options.until, "back": options.back}
        # Its parts name their servers. In between it acts on none, so it stands in no other fault's way.
        return Resolved(nodes=(), details=details)

    async def inject(self, act: Act) -> Proof:
        cluster, system = act.cluster, act.cluster.system
        assert isinstance(system, MigratesMetadata), "refused for every other system"
        migration = system.migration(cluster.runtime.layout, cluster.artifacts, cluster.options, cluster.settings)
        return await _Course(act, migration).begin()

    async def heal(self, act: Act) -> Proof:
        course = act.kept(_Course)
        return await (course.heal(back=course.options.back) if course else all_run(act))
