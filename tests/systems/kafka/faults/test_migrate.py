"""A migration on fakes: its steps and proofs, its phases, the way back, what another fault delays, what is refused."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.output.outcome import repeat_command
from fencepost.harness.contract.system import System
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import Cluster, View
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import (
    NEW_DISK,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    MigrationDelayEvent,
    MigrationEvent,
)
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member, Node, NodeSpec, NodeState, members_alike
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.kafka.contract.migration import MigrationStage, Phase, ServerTurn
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.profile import FAKE_PROFILE, NoParts
from tests.fakes.virtual_time import run_virtual

FAULTS = registry.faults()
MEMBERS = (Member("n1"), Member("n2"), Member("n3", joins_later=True))
SETTING = Placement(nodes=3, members=MEMBERS)
MS = 10**6


class FakeMigration:
    """Two servers turn from old to new beside a third that is started as new. `never` are phases that never come."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self.nodes = nodes
        self.never: set[Phase] = set()
        self.released: list[tuple[bool, bool]] = []
        self.early = False
        #: Nodes that were started on an empty disk.
        self.empty: list[str] = []

    def stages(self, until: Phase, *, early: bool) -> tuple[MigrationStage, ...]:
        self.early = early
        way = (
            MigrationStage(turns=(ServerTurn("n3", "new"),), together=True, reaches=(Phase.PROVISIONED,)),
            MigrationStage(
                turns=(ServerTurn("n1", "between"), ServerTurn("n2", "between")), reaches=(Phase.COPY, Phase.HYBRID)
            ),
            MigrationStage(turns=(ServerTurn("n1", "new"), ServerTurn("n2", "new")), reaches=(Phase.DUAL_WRITE,)),
        )
        return way[: 2 if until is Phase.HYBRID else 3]

    def way_back(self, modes: Mapping[str, str | None]) -> tuple[MigrationStage, ...]:
        leave = MigrationStage(turns=(ServerTurn("n3", None),), together=True, releases=True)
        return (
            leave,
            MigrationStage(turns=(ServerTurn("n1", "old"), ServerTurn("n2", "old")), reaches=(Phase.ROLLED_BACK,)),
        )

    async def spec(self, turn: ServerTurn, *, first: bool) -> NodeSpec:
        if first:
            self.empty.append(turn.node)
        return NodeSpec(
            name=turn.node, argv=(str(turn.becomes),), listeners={}, data_files={"id": "1"}, ready_timeout_s=0.2
        )

    async def release(self, *, leaves: bool, behind: bool) -> str:
        self.released.append((leaves, behind))
        return "deleted the claim"

    async def lacks(self, phase: Phase) -> str | None:
        return "nobody claims it" if phase in self.never else None

    async def evidence(self) -> str:
        return "n3 accepts changes"


class FakeSystem(NoParts):
    profile = FAKE_PROFILE

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self.way = FakeMigration(nodes)

    def migration(self, *_: object) -> FakeMigration:
        return self.way

    async def healthy(self, layout: object) -> str | None:
        return None

    async def ready(self, node: Node) -> bool:
        return node.state is NodeState.RUNNING


class Run:
    def __init__(self) -> None:
        self.runtime = FakeRuntime(3)
        self.runtime.nodes["n3"].state = NodeState.NEW
        self.system = FakeSystem(self.runtime.nodes)
        self.records = KeptRecords()
        self.hurried = False
        self.cluster: Cluster = replace(
            cluster_of(self.runtime, records=self.records, view=self.view),
            system=cast(System, self.system),
            hurried=lambda: self.hurried,
        )
        self.conductor = Conductor(cluster=self.cluster, faults=FAULTS, schedule_sink=lambda row: None)

    def view(self) -> View:
        nodes = self.runtime.nodes
        there = tuple(n for n in nodes if nodes[n].state is not NodeState.NEW and n not in self.cluster.retired)
        return View(nodes=there, leader="n1", epoch=4, members=members_alike(3))

    def play(self, *texts: str, for_ms: int = 60_000, meanwhile: Callable[[], None] | None = None) -> None:
        entries = [
            ScheduledFault(
                spec=parse_faults(text, FAULTS, SETTING)[0], inject_ns=0, duration_ns=ms * MS, draw_seed=1, worker=i
            )
            for i, (text, ms) in enumerate((text, 500 if i else for_ms) for i, text in enumerate(texts))
        ]

        self._run(entries, meanwhile)

    def play_in_turn(self, *texts: str) -> None:
        self._run(
            [
                ScheduledFault(
                    spec=parse_faults(text, FAULTS, SETTING)[0], inject_ns=0, duration_ns=60_000 * MS, draw_seed=1
                )
                for text in texts
            ],
            None,
        )

    def _run(self, entries: list[ScheduledFault], meanwhile: Callable[[], None] | None) -> None:
        async def scenario() -> None:
            running = asyncio.create_task(self.conductor.run(entries, stop=asyncio.Event()))
            if meanwhile is not None:
                await asyncio.sleep(0.001)
                meanwhile()
            await running

        run_virtual(scenario())

    @property
    def faults(self) -> list[FaultEvent]:
        return [event for event in self.records.events if isinstance(event, FaultEvent)]

    @property
    def whole(self) -> FaultEvent:
        """The end of the healing of the migration itself."""
        ends = [e for e in self.faults if (e.fault, e.action, e.stage) == ("migrate", FaultAction.HEAL, FaultStage.END)]
        return next(e for e in reversed(ends) if "part_of" not in e.details)

    @property
    def steps(self) -> list[tuple[str, str]]:
        begun = [e for e in self.faults if e.action is FaultAction.INJECT and e.stage is FaultStage.END]
        return [(e.nodes[0], str(e.details["becomes"])) for e in begun if "part_of" in e.details]

    @property
    def phases(self) -> list[MigrationEvent]:
        return [event for event in self.records.events if isinstance(event, MigrationEvent)]

    @property
    def modes(self) -> list[str]:
        return [node.spec.argv[0] for node in self.runtime.nodes.values()]


def test_each_step_is_a_part_and_each_phase_is_proven() -> None:
    run = Run()
    run.play("migrate:until=dual-write")
    assert run.steps == [("n3", "new"), ("n1", "between"), ("n2", "between"), ("n1", "new"), ("n2", "new")]
    assert run.runtime.nodes["n3"].actions == ["wipe", "start"]
    assert run.modes == ["new"] * 3
    assert [event.phase for event in run.phases] == ["provisioned", "copy", "hybrid", "dual-write"]
    assert {event.text for event in run.phases} == {"n3 accepts changes"}
    assert run.whole.outcome is FaultOutcome.HEALED
    assert "dual-write after" in (run.whole.proof or "")


def test_when_its_time_is_over_the_servers_stay_as_they_are() -> None:
    run = Run()
    run.play("migrate:hold=5s", for_ms=2_000)
    assert run.steps == [("n3", "new")]
    assert "then its time was over" in (run.whole.proof or "")
    assert {node.state for node in run.runtime.nodes.values()} == {NodeState.RUNNING}


def test_healing_rolls_back_and_what_was_ended_for_good_stays_so() -> None:
    run = Run()
    run.play("migrate:until=hybrid:back=yes")
    assert run.steps[-3:] == [("n3", "ended"), ("n1", "old"), ("n2", "old")]
    assert run.system.way.released == [(False, False)]
    assert run.modes[:2] == ["old", "old"]
    assert run.runtime.nodes["n3"].state is NodeState.DEAD
    assert run.phases[-1].phase == "rolled-back"
    assert run.whole.outcome is FaultOutcome.HEALED


def test_a_further_migration_begins_on_new_disks_and_says_so() -> None:
    run = Run()
    run.play_in_turn("migrate:until=hybrid:back=yes:leaves=yes", "migrate:until=hybrid")
    assert run.system.way.released == [(True, False)]
    assert run.system.way.empty == ["n3", "n3"]
    assert run.runtime.nodes["n3"].actions == ["wipe", "start", "stop", "wipe", "start"]
    new = [event.nodes for event in run.faults if event.details.get(NEW_DISK) and event.stage is FaultStage.BEGIN]
    assert set(new) == {("n3",)}
    assert run.cluster.phases[-1] is Phase.HYBRID


def test_a_roll_back_that_leaves_the_epoch_behind_is_asked_of_the_system() -> None:
    run = Run()
    run.play("migrate:until=hybrid:back=yes:behind=yes")
    assert run.system.way.released == [(False, True)]


def test_an_early_end_is_asked_of_the_system() -> None:
    run = Run()
    run.play("migrate:early=yes")
    assert run.system.way.early


def test_a_run_that_is_being_ended_takes_no_further_step() -> None:
    run = Run()

    def end() -> None:
        run.hurried = True

    run.play("migrate:until=hybrid:back=yes", meanwhile=end)
    assert run.steps == [("n3", "new")]
    assert "not rolled back: the run is being ended" in (run.whole.proof or "")


def test_a_server_that_another_fault_holds_delays_the_next_step() -> None:
    run = Run()
    run.play("migrate:until=hybrid", "kill:n2:when=provisioned:within=30s")
    kill = next(e for e in run.faults if e.fault == "kill" and e.stage is FaultStage.END)
    assert kill.outcome is FaultOutcome.INSTALLED
    assert [step for step in run.steps if step[0] == "n2"] == [("n2", "between")]
    assert run.cluster.phases == [Phase.PROVISIONED, Phase.COPY, Phase.HYBRID]


def test_a_phase_that_never_comes_ends_it_and_says_what_is_missing() -> None:
    run = Run()
    run.system.way.never.add(Phase.HYBRID)
    run.play("migrate", for_ms=300_000)
    assert "hybrid was not reached" in (run.whole.proof or "") and "nobody claims it" in (run.whole.proof or "")
    assert run.cluster.phases == [Phase.PROVISIONED, Phase.COPY]
    (delay,) = [event for event in run.records.events if isinstance(event, MigrationDelayEvent)]
    assert delay.phase == "hybrid" and "nobody claims it" in delay.text and delay.length_ns >= 90e9


def test_a_server_that_does_not_start_ends_it() -> None:
    run = Run()
    run.runtime.nodes["n1"].unstartable = True
    run.play("migrate", for_ms=300_000)
    assert "n1" in (run.whole.proof or "")
    assert run.cluster.phases == [Phase.PROVISIONED]


@pytest.mark.parametrize(
    ("text", "setting", "said"),
    [
        ("migrate:back=yes", SETTING, "no way back from final"),
        ("migrate", Placement(nodes=3), "no other store"),
        ("migrate:until=never", SETTING, "until"),
        ("migrate:until=hybrid:leaves=yes", SETTING, "leaves=yes is about a roll-back"),
        ("migrate:until=hybrid:behind=yes", SETTING, "behind=yes is about a roll-back"),
        ("migrate:until=hybrid:early=yes", SETTING, "about the last phase"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, setting: Placement, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_faults(text, FAULTS, setting)


def _checked(nemesis: str) -> CheckedPlan:
    return check_plan(Plan(system="kafka-bridge", workload="metadata", seed=1, nemesis=nemesis, time_limit="90s"))


@pytest.mark.parametrize(
    ("nemesis", "given", "length"),
    [
        ("migrate", "", "100s"),
        ("migrate:for=40s+kill:controller:when=hybrid+1s", "", "50s"),
        ("kill:controller", "", "30s"),
        ("migrate", "60s", "60s"),
    ],
)
def test_a_plan_without_a_time_limit_has_time_for_a_whole_migration(nemesis: str, given: str, length: str) -> None:
    plan = Plan(system="kafka-bridge", workload="metadata", seed=1, nemesis=nemesis, time_limit=given)
    checked = check_plan(plan)
    assert checked.plan.time_limit == length
    assert ("--time-limit" in repeat_command(checked)) == bool(given)


@pytest.mark.parametrize(
    ("nemesis", "said", "hint"),
    [
        ("kill:b1:when=hybrid", "no fault migrate is in the plan", "migrate\\+kill:b1:when=hybrid"),
        ("pause:b1:end=copy+1s,kill", "no fault migrate is in the plan", "migrate\\+pause"),
        ("migrate:until=hybrid+kill:when=dual-write", "never reaches dual-write", "provisioned, copy, hybrid; see"),
        ("migrate:until=hybrid+kill:when=rolled-back", "never reaches rolled-back", "hybrid; see its options"),
        ("migrate:early=yes+kill:when=dual-write", "never reaches dual-write", "hybrid, final"),
    ],
)
def test_a_wait_for_a_phase_that_the_plan_never_reaches_is_refused(nemesis: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        _checked(nemesis)
    assert re.search(hint, caught.value.hint or "")


@pytest.mark.parametrize(
    "nemesis",
    [
        "migrate+kill:when=final:within=80s",
        "migrate:until=hybrid:back=yes+kill:when=rolled-back",
        "migrate:early=yes+kill:when=final",
        "kill:when=hybrid+migrate:until=hybrid",
        "migrate:until=hybrid:back=yes:end=hybrid+2s",
    ],
)
def test_a_wait_for_a_phase_of_the_plan_is_accepted(nemesis: str) -> None:
    assert _checked(nemesis).plan.nemesis == nemesis


def test_a_step_that_the_cluster_s_health_delays_until_the_time_is_over_is_recorded() -> None:
    run = Run()

    async def ill(layout: object) -> str | None:
        steps = [event for event in run.records.events if isinstance(event, MigrationEvent)]
        return "k-0 has one replica in sync" if steps and steps[-1].phase == "hybrid" else None

    run.system.healthy = ill  # type: ignore[method-assign]
    run.play("migrate:hold=1s", for_ms=40_000)
    (delay,) = [event for event in run.records.events if isinstance(event, MigrationDelayEvent)]
    assert delay.phase == "dual-write" and "k-0 has one replica" in delay.text
    assert 20e9 < delay.length_ns < 40e9
    assert run.cluster.phases[-1] is Phase.HYBRID
