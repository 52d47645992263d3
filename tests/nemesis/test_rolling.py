"""Rolling restarts on fakes: order, proofs, another release and back, what fails half-way, and what is refused."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import System, leadership_of
from fencepost.harness.coordination import Definite
from fencepost.harness.faults.conductor import Conductor, damages_of
from fencepost.harness.faults.kind import Cluster, Skip, View
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults, recorded_entries, versions_needed
from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultStage
from fencepost.harness.judging.judge import _loosest, _weakest
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Member, Node, NodeSpec, NodeState, Place, members_alike
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import LeadershipBound, Standing
from fencepost.nemesis.upgrade.rolling import Rolling
from fencepost.systems.etcd.system import ETCD
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeNode, FakeRuntime, KeptRecords, cluster_of
from tests.fakes.profile import FAKE_PROFILE, NoParts
from tests.fakes.virtual_time import run_virtual

FAULTS = registry.faults()
SETTING = Placement(nodes=3)
MS = 10**6
OLD, NEW = (Artifacts(version=v, paths={"server": f"/{v}"}, sha256={}) for v in ("1.0.0", "1.1.0"))


class FakeSystem(NoParts):
    """Servers that are ready once they run, and say which release they are by the command that they were given."""

    profile = FAKE_PROFILE

    def __init__(self) -> None:
        self.never_ready: set[str] = set()
        self.lies: dict[str, str] = {}
        self.asked: list[str] = []
        self.raised: list[tuple[str, str]] = []
        self.refuses = False
        self.versions = Versions(reported=self.reported)

    async def raise_features(self, running: Sequence[Place], version: str) -> str:
        if self.refuses:
            raise Definite("refused", "one broker is old")
        self.raised.append((" ".join(place.name for place in running), version))
        return "level 1 to 2"

    async def ready(self, node: Node) -> bool:
        return node.state is NodeState.RUNNING and node.name not in self.never_ready

    def specs(self, layout: Mapping[str, Any], artifacts: Artifacts, *_: object) -> list[NodeSpec]:
        return [
            NodeSpec(name=n, argv=(artifacts.paths["server"], n), listeners={}, ready_timeout_s=0.2) for n in layout
        ]

    async def reported(self, node: Node, log_from: int) -> str:
        self.asked.append(node.name)
        return self.lies.get(node.name, node.spec.argv[0].strip("/"))


class Run:
    """A conductor on a fake runtime whose servers have releases; `down` is the most nodes that were down together."""

    def __init__(self, *, leader: str | None = "n2", hurried: bool = False, keep_quorum: bool = False) -> None:
        self.runtime = FakeRuntime(3)
        self.system: Any = FakeSystem()
        self.records = KeptRecords()
        self.rows: list[dict[str, Any]] = []
        self.leader = leader
        self.hurried = hurried
        self.unready: frozenset[str] = frozenset()
        for spec in self.system.specs(self.runtime.nodes, OLD):
            self.runtime.nodes[spec.name].respec(spec)
        self.cluster: Cluster = replace(
            cluster_of(self.runtime, records=self.records, view=self.view),
            system=cast(System, self.system),
            artifacts=OLD,
            others={"1.1.0": NEW},
            hurried=lambda: self.hurried,
        )
        self.conductor = Conductor(
            cluster=self.cluster, faults=registry.faults(), schedule_sink=self.rows.append, keep_quorum=keep_quorum
        )

    def view(self) -> View:
        names = tuple(self.runtime.nodes)
        return View(nodes=names, leader=self.leader, epoch=4, members=members_alike(3), unready=self.unready)

    def play(
        self, *texts: str, for_ms: int = 30_000, seed: int = 1, meanwhile: Callable[[], None] | None = None
    ) -> None:
        entries = [entry(text, for_ms=for_ms, seed=seed, worker=worker) for worker, text in enumerate(texts)]

        async def scenario() -> None:
            running = asyncio.create_task(self.conductor.run(entries, stop=asyncio.Event()))
            if meanwhile is not None:
                while not self.events:
                    await asyncio.sleep(0.001)
                meanwhile()
            await running

        run_virtual(scenario())

    @property
    def events(self) -> list[FaultEvent]:
        return [e for e in self.records.events if isinstance(e, FaultEvent)]

    @property
    def parts(self) -> list[FaultEvent]:
        return [e for e in self.events if "part_of" in e.details]

    def ends(self, action: FaultAction, *, parts: bool) -> list[FaultEvent]:
        of = self.parts if parts else [e for e in self.events if "part_of" not in e.details]
        return [e for e in of if (e.action, e.stage) == (action, FaultStage.END)]

    @property
    def order(self) -> list[str]:
        return [e.nodes[0] for e in self.ends(FaultAction.INJECT, parts=True)]

    @property
    def releases(self) -> list[str]:
        return [node.spec.argv[0] for node in self.runtime.nodes.values()]

    @property
    def states(self) -> set[NodeState]:
        return {node.state for node in self.runtime.nodes.values()}


def entry(text: str, *, for_ms: int = 30_000, seed: int = 1, worker: int = 0) -> ScheduledFault:
    (spec,) = parse_faults(text, FAULTS, SETTING)
    return ScheduledFault(spec=spec, inject_ns=0, duration_ns=for_ms * MS, draw_seed=seed, worker=worker)


# -- the order ----------------------------------------------------------------------------------------------------


def test_every_node_is_restarted_once_and_each_restart_is_a_part_with_its_proofs() -> None:
    run = Run()
    run.play("rolling:pause=0ms")
    assert sorted(run.order) == ["n1", "n2", "n3"]
    assert [node.actions for node in run.runtime.nodes.values()] == [["stop", "start"]] * 3
    assert {e.outcome for e in run.ends(FaultAction.INJECT, parts=True)} == {FaultOutcome.INSTALLED}
    for healed in run.ends(FaultAction.HEAL, parts=True):
        assert healed.outcome is FaultOutcome.HEALED
        assert "serves after" in (healed.proof or "") and "says that it is 1.0.0" in (healed.proof or "")
        assert (healed.details["how"], healed.details["from_version"], healed.details["says_version"]) == (
            ("stop", "1.0.0", "1.0.0")
        )
    (whole,) = run.ends(FaultAction.HEAL, parts=False)
    assert "3 of 3 nodes restarted" in (whole.proof or "")


def test_the_drawn_order_is_the_seeds() -> None:
    def order(seed: int) -> list[str]:
        run = Run()
        run.play("rolling:pause=0ms", seed=seed)
        return run.order

    assert order(5) == order(5)
    assert len({tuple(order(seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("rolling:order=leader-first", "n2", None),
        ("rolling:order=leader-last", None, "n2"),
        ("rolling:order=as-named", "n1", "n3"),
    ],
)
def test_an_order_by_leadership_is_by_who_leads_at_each_turn(text: str, first: str | None, last: str | None) -> None:
    for seed in range(4):
        run = Run()
        run.play(f"{text}:pause=0ms", seed=seed)
        assert len(run.order) == 3
        assert first in (None, run.order[0])
        assert last in (None, run.order[-1])


def test_without_a_known_leader_the_drawn_order_is_kept() -> None:
    run = Run(leader=None)
    run.play("rolling:order=leader-first:pause=0ms")
    assert len(run.order) == 3


def test_a_kill_in_place_of_an_orderly_stop() -> None:
    run = Run()
    run.play("rolling:n1:how=kill")
    assert run.runtime.nodes["n1"].actions == ["kill", "start"]
    assert [node.actions for name, node in run.runtime.nodes.items() if name != "n1"] == [[], []]


def test_a_server_that_does_not_end_when_it_is_asked_to_is_said_to_be_killed() -> None:
    run = Run()
    run.runtime.nodes["n1"].unstoppable = True
    run.play("rolling:n1")
    (end,) = run.ends(FaultAction.INJECT, parts=True)
    assert (end.outcome, "killed, since SIGTERM did not end it" in (end.proof or "")) == (FaultOutcome.INSTALLED, True)


def test_whom_its_time_does_not_reach_is_left_as_it_is() -> None:
    run = Run()
    run.play("rolling:pause=10s", for_ms=5000)
    assert len(run.order) == 1
    (whole,) = run.ends(FaultAction.HEAL, parts=False)
    assert whole.outcome is FaultOutcome.HEALED
    assert "1 of 3 nodes restarted" in (whole.proof or "") and "its time was over" in (whole.proof or "")


# -- another release ----------------------------------------------------------------------------------------------


def test_nodes_become_another_release_and_stay_it() -> None:
    run = Run()
    run.play("rolling:to=1.1.0:pause=0ms")
    assert run.releases == ["/1.1.0"] * 3
    assert [run.cluster.artifacts_of(name).version for name in run.runtime.nodes] == ["1.1.0"] * 3
    for healed in run.ends(FaultAction.HEAL, parts=True):
        assert healed.details["to_version"] == healed.details["says_version"] == "1.1.0"
    assert "now " in (run.ends(FaultAction.HEAL, parts=False)[0].proof or "")


def test_with_finish_the_features_are_raised_when_every_node_runs_the_new_release() -> None:
    run = Run()
    run.play("rolling:to=1.1.0:finish=yes:pause=0ms")
    assert run.system.raised == [("n1 n2 n3", "1.1.0")]
    assert "features raised: level 1 to 2" in (run.ends(FaultAction.HEAL, parts=False)[0].proof or "")


def test_features_that_the_system_refuses_to_raise_are_told() -> None:
    run = Run()
    run.system.refuses = True
    run.play("rolling:to=1.1.0:finish=yes:pause=0ms")
    assert "the features were not raised: refused: one broker is old" in (
        run.ends(FaultAction.HEAL, parts=False)[0].proof or ""
    )


def test_features_stay_when_not_every_node_was_restarted_in_time() -> None:
    run = Run()
    run.play("rolling:to=1.1.0:finish=yes:pause=5s", for_ms=6_000)
    assert run.system.raised == []


def test_with_back_they_are_rolled_back_one_by_one_when_it_is_healed() -> None:
    run = Run()
    run.play("rolling:to=1.1.0:back=yes:pause=0ms")
    assert run.releases == ["/1.0.0"] * 3
    assert len(run.order) == 6
    assert [e.details["to_version"] for e in run.ends(FaultAction.INJECT, parts=True)] == ["1.1.0"] * 3 + ["1.0.0"] * 3
    assert run.ends(FaultAction.HEAL, parts=False)[0].outcome is FaultOutcome.HEALED


def test_a_node_that_was_changed_is_rolled_back_also_where_its_restart_left_a_doubt() -> None:
    run = Run()
    run.system.never_ready = {"n1"}
    run.play("rolling:n1:to=1.1.0:back=yes")
    assert run.ends(FaultAction.HEAL, parts=True)[0].outcome is FaultOutcome.INDETERMINATE
    assert run.releases == ["/1.0.0"] * 3


def test_a_roll_back_ends_with_the_first_that_fails() -> None:
    run = Run()

    async def reported(node: Node, log_from: int) -> str:
        return "1.1.0"

    run.system.versions = Versions(reported=reported)
    run.play("rolling:to=1.1.0:back=yes:order=as-named:pause=0ms")
    assert run.order == ["n1", "n2", "n3", "n1"]
    assert "not rolled back: n1, n2, n3" in (run.ends(FaultAction.HEAL, parts=False)[0].proof or "")


def test_a_server_is_heard_only_from_its_own_start_on(tmp_path: Path) -> None:
    """What the server before it had said of its release stands in the same log."""
    (tmp_path / "log").write_text("I am 1.0.0\n")

    class LoggingNode(FakeNode):
        log = tmp_path / "log"

    run, heard = Run(), []
    run.runtime.nodes["n1"] = LoggingNode("n1", given=run.runtime.nodes["n1"].spec)

    async def reported(node: Node, log_from: int) -> str:
        heard.append(log_from)
        return "1.1.0"

    run.system.versions = Versions(reported=reported)
    run.play("rolling:n1:to=1.1.0")
    assert heard == [len("I am 1.0.0\n")]


def test_a_run_that_is_being_ended_is_not_rolled_back_but_runs() -> None:
    run = Run(hurried=True)
    run.play("rolling:to=1.1.0:back=yes:pause=0ms")
    assert set(run.releases) == {"/1.1.0"}
    assert run.states == {NodeState.RUNNING}
    assert "not rolled back" in (run.ends(FaultAction.HEAL, parts=False)[0].proof or "")


def test_a_server_that_says_another_release_leaves_a_doubt_and_ends_the_roll() -> None:
    run = Run()
    run.system.lies = dict.fromkeys(run.runtime.nodes, "1.0.0")
    run.play("rolling:to=1.1.0:pause=0ms")
    (healed,) = run.ends(FaultAction.HEAL, parts=True)
    assert healed.outcome is FaultOutcome.INDETERMINATE
    assert "says that it is 1.0.0, not 1.1.0" in (healed.proof or "")
    assert run.states == {NodeState.RUNNING}


def test_a_server_that_does_not_say_its_release_leaves_a_doubt_only_where_it_was_changed() -> None:
    for text, outcome in [("rolling:n1", FaultOutcome.HEALED), ("rolling:n1:to=1.1.0", FaultOutcome.INDETERMINATE)]:
        run = Run()

        async def silent(node: Node, log_from: int) -> str:
            raise ValueError("no word of it")

        run.system.versions = Versions(reported=silent)
        run.play(text)
        (healed,) = run.ends(FaultAction.HEAL, parts=True)
        assert (healed.outcome, "no word of it" in (healed.proof or "")) == (outcome, True)


# -- what fails half-way ------------------------------------------------------------------------------------------


def test_a_node_that_does_not_come_back_is_recorded_ends_the_roll_and_is_started_by_the_healing() -> None:
    run = Run()
    for node in run.runtime.nodes.values():
        node.unstartable = True

    def mend() -> None:
        asyncio.get_running_loop().call_later(0.1, make_startable)

    def make_startable() -> None:
        for node in nodes:
            node.unstartable = False

    nodes = list(run.runtime.nodes.values())
    run.play("rolling:pause=0ms", meanwhile=mend)
    (broken,) = run.ends(FaultAction.HEAL, parts=True)
    assert broken.outcome is FaultOutcome.INDETERMINATE and "and ended" in (broken.proof or "")
    assert run.states == {NodeState.RUNNING}
    whole = run.ends(FaultAction.HEAL, parts=False)[-1]
    assert whole.outcome is FaultOutcome.HEALED and "was down and was started" in (whole.proof or "")


def test_a_node_that_does_not_serve_in_time_ends_the_roll() -> None:
    run = Run()
    run.system.never_ready = set(run.runtime.nodes)
    run.play("rolling:pause=0ms")
    (late,) = run.ends(FaultAction.HEAL, parts=True)
    assert late.outcome is FaultOutcome.INDETERMINATE and "does not serve after 0.2 s" in (late.proof or "")
    assert len(run.order) == 1


def test_a_turn_that_is_under_way_ends_before_the_roll_is_healed() -> None:
    run = Run()
    run.system.never_ready = {"n1"}
    run.play("rolling:n1", for_ms=50)
    assert [("part_of" in e.details, e.stage) for e in run.events[-2:]] == [
        (True, FaultStage.END),
        (False, FaultStage.END),
    ]


def test_while_another_node_does_not_serve_nobody_is_restarted() -> None:
    run = Run()
    run.unready = frozenset({"n1"})
    run.play("rolling:order=as-named:pause=0ms")
    assert run.order == ["n1"]
    assert "n2 was not restarted: n1 did not serve" in (run.ends(FaultAction.HEAL, parts=False)[0].proof or "")


def test_when_nobody_could_be_restarted_that_is_a_doubt() -> None:
    run = Run()
    run.unready = frozenset({"n1", "n2", "n3"})
    run.play("rolling:pause=0ms")
    (inject,) = run.ends(FaultAction.INJECT, parts=False)
    assert inject.outcome is FaultOutcome.INDETERMINATE
    assert [node.actions for node in run.runtime.nodes.values()] == [[]] * 3


def test_a_process_that_is_not_gone_is_a_doubt() -> None:
    run = Run()
    run.runtime.nodes["n1"].unkillable = True
    run.play("rolling:n1")
    assert {e.outcome for e in run.ends(FaultAction.INJECT, parts=True)} == {FaultOutcome.INDETERMINATE}
    (healed,) = run.ends(FaultAction.HEAL, parts=True)
    assert "not restarted" in (healed.proof or "")


def test_a_server_killed_amidst_is_started_by_the_healing() -> None:
    run = Run()

    class Dying(FakeSystem):
        async def ready(self, node: Node) -> bool:
            if node.name == "n1":
                node.state = NodeState.DEAD  # type: ignore[misc]
            return await super().ready(node)

    run.system = Dying()
    run.cluster = replace(run.cluster, system=run.system)
    run.conductor = Conductor(cluster=run.cluster, faults=registry.faults(), schedule_sink=run.rows.append)
    run.play("rolling:n1")
    assert run.ends(FaultAction.HEAL, parts=True)[0].outcome is FaultOutcome.INDETERMINATE
    assert run.states == {NodeState.RUNNING}


def test_healing_is_idempotent_and_heals_what_never_began() -> None:
    run, rolling = Run(), Rolling()
    run.runtime.nodes["n3"].state = NodeState.DEAD
    resolved = acting.aimed(rolling, rolling.spec("all"), run.view(), random.Random(1))
    for _ in range(2):
        proof = run_virtual(acting.heal(rolling, 0, resolved, run.cluster))
        assert proof.outcome is FaultOutcome.HEALED
    assert run.runtime.nodes["n3"].actions == ["start"]


@given(st.sampled_from(["rolling", "rolling:to=1.1.0", "rolling:to=1.1.0:back=yes", "rolling:how=kill"]), st.data())
def test_whatever_breaks_every_node_runs_in_the_end_and_no_two_were_down(text: str, data: st.DataObject) -> None:
    run = Run()
    most = 0
    for node in run.runtime.nodes.values():
        node.unstoppable = data.draw(st.booleans())
        _watch(node, run)
    run.system.never_ready = data.draw(st.sets(st.sampled_from(["n1", "n2", "n3"]), max_size=2))
    run.system.lies = data.draw(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.just("0.0.1"), max_size=2))
    run.play(f"{text}:pause=1s", for_ms=data.draw(st.integers(1, 4000)))
    most = max((getattr(node, "seen_down", 0) for node in run.runtime.nodes.values()), default=0)
    assert most <= 1
    assert run.states == {NodeState.RUNNING}
    assert not run.conductor.current


def _watch(node: FakeNode, run: Run) -> None:
    """Note after each end of a server how many nodes are down."""
    for name in ("stop", "kill"):
        act = getattr(node, name)

        async def noted(*given: Any, act: Any = act, node: FakeNode = node) -> Any:
            result = await act(*given)
            down = sum(other.state is NodeState.DEAD for other in run.runtime.nodes.values())
            node.seen_down = max(down, getattr(node, "seen_down", 0))  # type: ignore[attr-defined]
            return result

        setattr(node, name, noted)


# -- quorum, schedule, mixture ------------------------------------------------------------------------------------


def test_where_the_quorum_is_to_be_kept_a_roll_takes_place_and_a_cut_beside_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.0)
    run = Run(keep_quorum=True)
    run.play("rolling:pause=0ms", "partition:n3")
    outcomes = {e.fault: e.outcome for e in run.ends(FaultAction.INJECT, parts=False)}
    assert outcomes == {"rolling": FaultOutcome.INSTALLED, "partition": FaultOutcome.SKIPPED}


def test_another_fault_of_a_process_waits_for_the_whole_roll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.01)
    run = Run()
    run.play("rolling:pause=0ms", "kill:n3")
    assert "the process of n3 is held by fault 0, rolling" in {e.why for e in run.events}


def test_a_replay_rolls_again_in_the_same_order() -> None:
    first = Run()
    first.play("rolling:to=1.1.0:pause=0ms", seed=7)
    (again,) = recorded_entries(first.rows, FAULTS, SETTING)
    assert (again.spec.text, again.draw_seed) == ("rolling:all:to=1.1.0:pause=0ms", 7)
    second = Run()
    run_virtual(second.conductor.run([replace(again, inject_ns=0)], stop=asyncio.Event()))
    assert second.order == first.order


def test_it_takes_part_in_the_mixture_without_another_release() -> None:
    assert all(":to=" not in text for text in Rolling.for_all)
    specs = [spec for text in Rolling.for_all for spec in parse_faults(text, FAULTS, SETTING)]
    assert versions_needed(specs, FAULTS) == ()
    assert versions_needed(parse_faults("rolling:to=3.5.9,kill,rolling:to=3.5.9", FAULTS, SETTING), FAULTS) == (
        "3.5.9",
    )


def test_a_schedule_holds_it_with_its_own_length() -> None:
    (entries,) = draw_schedules(
        [tuple((spec,) for spec in parse_faults("rolling", FAULTS, SETTING))],
        FAULTS,
        seed=1,
        time_limit_ns=60 * 10**9,
        quiet_ns=10**9,
    )
    assert {e.duration_ns for e in entries} == {Rolling.options.for_}


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "placement", "said"),
    [
        ("rolling:pause=soon", SETTING, "rolling option pause: 'soon' is not a duration"),
        ("rolling:back=yes", SETTING, "give to= as well"),
        ("rolling:finish=yes", SETTING, "finish=yes needs to=VERSION"),
        ("rolling:to=1.1.0:finish=yes:back=yes", SETTING, "leave out back=yes, or finish=yes"),
        ("rolling:to=3.6.0:finish=yes", replace(SETTING, system=ETCD), "lacks the part raise-features, which rolling"),
        ("rolling:others", SETTING, "every node of this cluster votes"),
        ("rolling:how=gently", SETTING, "is not a choice"),
        ("rolling:order=random", SETTING, "is not a choice"),
        ("rolling:to=1.1.0", Placement(runtime="containers", image="mine:1"), "leave out --image"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, placement: Placement, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, placement)
    assert said in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("system", "version", "nemesis", "given_settings", "said"),
    [
        ("etcd", "3.4.23", "rolling:to=3.6.0", {}, "from 3.4.23 choose 3.5.x"),
        ("etcd", "3.5.1", "rolling:to=3.4.23", {}, "choose a release of 3.5.x"),
        ("etcd", "3.4.23", "rolling:to=3.5.1:back=yes", {}, "leave out back=yes"),
        ("etcd", "3.5.1", "rolling:to=3.5.1", {}, "the nodes begin as 3.5.1"),
        ("kraft", "4.3.1", "rolling:to=3.9.2", {}, "metadata.version"),
        ("kafka-zk", "3.8.0", "rolling:to=3.9.2", {}, "--set kafka-zk.inter.broker.protocol.version=3.8"),
        (
            "kafka-zk",
            "3.9.2",
            "rolling:to=3.8.0",
            {"kafka-zk": {"inter.broker.protocol.version": "3.9"}},
            "inter.broker.protocol.version=3.8",
        ),
    ],
)
def test_changes_of_release_that_cannot_be_are_refused_with_the_remedy(
    system: str, version: str, nemesis: str, given_settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        _plan(system, version, nemesis, given_settings)
    assert said in f"{caught.value.message} {caught.value.hint}"


def _plan(system: str, version: str, nemesis: str, on_servers: dict[str, Any]) -> Plan:
    workload = "register" if system in ("etcd", "zookeeper") else "metadata"
    plan = Plan(system=system, workload=workload, seed=1, version=version, nemesis=nemesis, server_settings=on_servers)
    return check_plan(plan).plan


@pytest.mark.parametrize(
    ("system", "version", "nemesis", "given_settings"),
    [
        ("etcd", "3.4.23", "rolling:to=3.5.1", {}),
        ("etcd", "3.5.1", "rolling:to=3.5.0:back=yes", {}),
        ("etcd", "3.5.1", "rolling:to=/some/path/etcd", {}),
        ("zookeeper", "3.9.5", "rolling:to=3.8.4:back=yes", {}),
        ("kraft", "3.9.2", "rolling:to=4.3.1:back=yes", {}),
        ("kafka-zk", "3.8.0", "rolling:to=3.9.2", {"kafka-zk": {"inter.broker.protocol.version": "3.8"}}),
        ("kafka-zk", "3.9.0", "rolling:to=3.9.2", {}),
    ],
)
def test_changes_of_release_that_can_be_are_taken(
    system: str, version: str, nemesis: str, given_settings: dict[str, Any]
) -> None:
    assert _plan(system, version, nemesis, given_settings).nemesis == nemesis


# -- several releases in one run ----------------------------------------------------------------------------------


def test_of_several_releases_a_guarantee_is_what_the_one_says_that_promises_least() -> None:
    kraft = registry.system("kraft")
    promised = [kraft.promises(version) for version in ("3.6.0", "3.9.2")]
    both = {g.name: g.standing for g in _weakest(promised)}
    assert both["leader-self-fencing"] is Standing.RELIED_UPON
    assert both == {g.name: g.standing for g in _weakest(promised[::-1])}
    bounds = [leadership_of(kraft, kraft.profile.options(), version) for version in ("3.9.2", "3.6.0")]
    assert _loosest(bounds).standing is Standing.RELIED_UPON
    none = LeadershipBound(bound_ns=None, source="", standing=Standing.PROMISED, one_leader_per_epoch=True)
    some = LeadershipBound(bound_ns=5, source="", standing=Standing.PROMISED, one_leader_per_epoch=True)
    assert _loosest([some, none]) is none


def test_targets_by_vote() -> None:
    members = (Member("n1"), Member("b1", ("broker",), votes=False), Member("b2", ("broker",), votes=False))
    view = View(nodes=("n1", "b1", "b2"), leader="n1", epoch=1, members=members)
    for target, nodes in [("voters", {"n1"}), ("others", {"b1", "b2"}), ("all", {"n1", "b1", "b2"}), ("b2", {"b2"})]:
        found = Rolling().resolve(Rolling().spec(target), view, random.Random(3))
        assert not isinstance(found, Skip)
        assert set(found.nodes) == nodes == set(str(found.details["order"]).split(","))
        assert {damage.absent for damage in damages_of(Rolling(), found)} == {frozenset({node}) for node in nodes}


def test_etcd_says_what_it_is_by_http() -> None:
    async def scenario() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readuntil(b"\r\n\r\n")
            assert request.startswith(b"GET /version HTTP/1.1\r\n")
            body = b'{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            from fencepost.systems.etcd import reported_version

            return await reported_version.ask(*server.sockets[0].getsockname()[:2])

    assert asyncio.run(scenario()) == "3.4.23"
    assert ETCD.versions.expected(FakeNode("n1"), OLD) == "1.0.0"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Zookeeper version: 3.9.5-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2026-01-02", "3.9.5"),
        ("Zookeeper version: 3.6.3--6401e4ad2087061bc6b9f80dec2d69f2e3c8660a, built on 04/08/2021", "3.6.3"),
        ("Zookeeper version: 3.10.0-SNAPSHOT-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on x", "3.10.0-SNAPSHOT"),
        ("Zookeeper version: 3.8.0--1, built on 2022", "3.8.0"),
    ],
)
def test_zookeepers_release_is_read_off_srvr(said: str, version: str) -> None:
    from fencepost.systems.zookeeper.reported_version import read_version

    assert read_version(f"{said}\nLatency min/avg/max: 0/0.0/0\n") == version


def test_kafkas_release_is_the_newest_line_behind_the_start(tmp_path: Path) -> None:
    from fencepost.systems.kafka.server import reported_version

    class Logging(FakeNode):
        log = tmp_path / "server.log"

    node = Logging("n1")
    node.log.write_text("INFO AppInfoParser - Kafka version: 3.9.2\n")
    size = node.log.stat().st_size
    with pytest.raises(ValueError, match="does not report its version"):
        asyncio.run(reported_version.read(node, size))
    with node.log.open("a") as file:
        file.write("INFO AppInfoParser - Kafka version: 4.3.1\n")
    assert asyncio.run(reported_version.read(node, size)) == "4.3.1"
