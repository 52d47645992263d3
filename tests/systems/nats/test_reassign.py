"""Replicas reassigned on nodes that are plain state: what is refused, how it is proven, and that it is undone."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Cluster, Proof, Resolved, Skip, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.nats.placing import PlacesReplicas, StreamReplica
from fencepost.systems.nats.reassign import Reassign
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of
from tests.fakes.profile import FAKE_PROFILE, NoParts
from tests.fakes.virtual_time import run_virtual


@dataclass
class FakeReplicas:
    """`systems.nats.placing.Replicas` of one stream. `answers` are those of the next requests: done at
    once where there are none, "no" refuses, "in doubt" is done without an answer."""

    nodes: tuple[str, ...]
    holders: list[str]
    answers: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    #: What the replicas lack, and nodes that tell of more replicas than there are.
    behind: str | None = None
    lingering: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)

    async def held(self, at: str, *, timeout_s: float) -> Mapping[str, StreamReplica]:
        await asyncio.sleep(0)
        if at in self.mute:
            raise Indefinite("timeout")
        if at not in self.holders and at not in self.lingering:
            return {}
        members = frozenset(self.holders)
        return {"S": StreamReplica(members=members, size=len(members), leads=at == self.holders[0])}

    async def scale(self, count: int, *, through: str, timeout_s: float) -> None:
        self._answer(f"scale to {count} through {through}")
        spare = [node for node in self.nodes if node not in self.holders]
        self.holders = [*self.holders, *spare][:count]

    async def move_away(self, node: str, *, through: str, timeout_s: float) -> None:
        self._answer(f"move away from {node} through {through}")
        spare = next(name for name in self.nodes if name not in self.holders)
        self.holders = [*(holder for holder in self.holders if holder != node), spare]

    async def lacks(self, count: int, *, through: str, timeout_s: float) -> str | None:
        await asyncio.sleep(0)
        return self.behind

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        if self.answers and self.answers.pop(0) == "no":
            raise Definite("refused", "not now")


@dataclass
class FakeSystem(NoParts):
    placed: FakeReplicas
    profile: Profile[Any] = FAKE_PROFILE

    def replica_count(self, options: SystemOptions) -> int:
        return 3

    def replicas(self, layout: Layout, artifacts: Artifacts) -> Any:
        return self.placed


class Scene:
    def __init__(self) -> None:
        self.runtime = FakeRuntime(5)
        nodes = tuple(self.runtime.nodes)
        self.placed = FakeReplicas(nodes, list(nodes[:3]))
        self.fault = Reassign()
        view = View(nodes=nodes, leader="n1", epoch=1)
        self.cluster: Cluster = replace(
            cluster_of(self.runtime, view=lambda: view),
            system=FakeSystem(self.placed),  # type: ignore[arg-type]  # a system with this ability alone
        )
        self.view = view

    async def inject(self, target: str) -> Proof:
        return await acting.inject(self.fault, 1, self.resolved(target), self.cluster)

    async def heal(self, target: str) -> Proof:
        return await acting.heal(self.fault, 1, self.resolved(target), self.cluster)

    def resolved(self, target: str) -> Resolved:
        return acting.aimed(self.fault, self.fault.spec(target), self.view, Random(1))


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario())


def test_the_fake_is_what_systems_are() -> None:
    assert isinstance(FakeSystem(FakeReplicas((), [])), PlacesReplicas)
    able = {name for name in registry.SYSTEMS if isinstance(registry.system(name), PlacesReplicas)}
    assert able == {"nats"}


def test_more_replicas_are_there_when_their_servers_say_so_and_go_again() -> None:
    async def scenario() -> None:
        scene = Scene()
        injected = await scene.inject("more")
        assert injected.outcome is FaultOutcome.INSTALLED
        assert "n1 did it" in injected.text and "n1, n2, n3, n4, n5 say S on n1, n2, n3, n4, n5 (5)" in injected.text
        healed = await scene.heal("more")
        assert healed.outcome is FaultOutcome.HEALED and "each replica has all data" in healed.text
        assert scene.placed.asked == ["scale to 5 through n1", "scale to 3 through n1"]
        assert (await scene.heal("more")).outcome is FaultOutcome.HEALED
        assert len(scene.placed.asked) == 2

    play(scenario)


def test_a_replica_moves_away_from_the_leader() -> None:
    async def scenario() -> None:
        scene = Scene()
        injected = await scene.inject("leader")
        assert injected.outcome is FaultOutcome.INSTALLED
        assert scene.placed.holders == ["n2", "n3", "n4"]
        healed = await scene.heal("leader")
        assert healed.outcome is FaultOutcome.HEALED and "no node was asked" in healed.text

    play(scenario)


def test_a_node_without_a_replica_has_none_to_lose() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.placed.holders = ["n2", "n3", "n4"]
        assert (await scene.inject("n1")).outcome is FaultOutcome.SKIPPED
        assert scene.placed.asked == []

    play(scenario)


def test_a_refusal_is_kept_and_the_next_node_is_asked() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.placed.answers = ["no"]
        injected = await scene.inject("more")
        assert injected.outcome is FaultOutcome.INSTALLED
        assert "n1 refused (refused: not now), n2 did it" in injected.text

    play(scenario)


@pytest.mark.parametrize("trait", ["lingering", "mute"])
def test_what_not_every_server_confirms_is_not_proven(trait: str) -> None:
    async def scenario() -> None:
        scene = Scene()
        # n1 loses its replica and goes on telling of one; or n4 gets one and tells nothing.
        setattr(scene.placed, trait, {"n1"} if trait == "lingering" else {"n4"})
        injected = await scene.inject("leader")
        assert injected.outcome is FaultOutcome.INDETERMINATE
        assert "not seen within 15 s" in injected.text

    play(scenario)


def test_it_is_not_healed_while_a_replica_is_behind() -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.inject("more")
        scene.placed.behind = "S is to have 3 replicas; n3 is behind"
        healed = await scene.heal("more")
        assert healed.outcome is FaultOutcome.INDETERMINATE and "n3 is behind" in healed.text

    play(scenario)


@pytest.mark.parametrize(
    ("text", "nodes", "why"),
    [
        ("reassign:more", 5, ""),
        ("reassign:leader", 5, ""),
        ("reassign:more:to=5", 5, ""),
        ("reassign:leader", 3, "each of the 3 nodes has a replica"),
        ("reassign:more", 3, "5 replicas do not fit on 3 nodes"),
        ("reassign:fewer", 5, "a single replica has no group"),
        ("reassign:more:to=4", 5, "even number"),
        ("reassign:more:to=3", 5, "which is not more"),
        ("reassign:leader:to=5", 5, "a number of replicas"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, nodes: int, why: str) -> None:
    system = registry.system("nats")
    placement = Placement(nodes=nodes, system=system, system_options=system.profile.options())
    if not why:
        assert parse_faults(text, {"reassign": Reassign()}, placement)
        return
    with pytest.raises(UsageError, match=why):
        parse_faults(text, {"reassign": Reassign()}, placement)


def test_a_system_without_replicas_refuses_it() -> None:
    with pytest.raises(UsageError, match="etcd lacks the part replicas, which reassign needs"):
        parse_faults("reassign", {"reassign": Reassign()}, Placement(system=registry.system("etcd")))


def test_without_a_leader_the_number_is_not_changed() -> None:
    fault = Reassign()
    view = View(nodes=("n1", "n2", "n3"), leader=None, epoch=None)
    assert isinstance(fault.choose(fault.spec("more"), view, Random(1)), Skip)
    resolved = fault.choose(fault.spec("more", {"to": "5"}), replace(view, leader="n2"), Random(1))
    assert isinstance(resolved, Resolved) and (resolved.means, resolved.details["to"]) == ("more", 5)
    resolved = fault.choose(fault.spec("n3"), view, Random(1))
    assert isinstance(resolved, Resolved) and resolved.means is None
