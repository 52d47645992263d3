"""Deposing a controller, without a cluster: whom, in which order, what proves it, and that healing always wakes it."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.coordination import Definite
from fencepost.harness.faults.kind import Cluster, Proof, Resolved, Skip, View
from fencepost.harness.faults.schedule import parse_faults, parse_nemesis
from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultStage, History
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import NodeState, Place
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.kafka.faults import depose
from fencepost.systems.kafka.faults.depose import Depose
from fencepost.systems.kafka.zookeeper_mode.administrator import ZnodeAdministrator
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of
from tests.fakes.profile import NoParts

FAULTS = registry.faults()


def placement(system: str) -> Placement:
    chosen = registry.system(system)
    members = chosen.members(3, chosen.profile.options())
    return Placement(nodes=len(members), members=members, system=chosen)


@dataclass
class FakeAdministrator:
    """ZooKeeper as the fault sees it: who holds the znode, and what happens when it is deleted."""

    runtime: FakeRuntime
    holder: str | None = "n2"
    successor_is: str | None = "n3"
    refuses: bool = False
    done: list[str] = field(default_factory=list)

    async def controller(self) -> tuple[str, int] | None:
        return None if self.holder is None else (self.holder, 4)

    async def make_topic(self, name: str) -> None:
        self.done.append(f"{name} while {self.runtime.nodes['n2'].state}")
        if self.refuses:
            raise Definite("node-exists")

    async def depose(self, version: int) -> None:
        self.done.append(f"delete version {version}")

    async def successor(self, deposed: str) -> tuple[str, int]:
        if self.successor_is is None:
            await asyncio.sleep(3600)
        return str(self.successor_is), 8

    def close(self) -> None:
        self.done.append("close")


class FakeSystem(NoParts):
    """A system whose controller can be deposed."""

    def __init__(self, administrator: FakeAdministrator) -> None:
        self._administrator = administrator

    async def open_administrator(self, running: Sequence[Place]) -> FakeAdministrator:
        return self._administrator


def deposing(administrator: FakeAdministrator) -> Cluster:
    system: Any = FakeSystem(administrator)
    return replace(cluster_of(administrator.runtime), system=system)


def inject(monkeypatch: pytest.MonkeyPatch, administrator: FakeAdministrator) -> tuple[Proof, Proof]:
    """The proofs of injecting and of healing; afterwards the node runs, whatever the first one said."""

    monkeypatch.setattr(depose, "_ELECTION_DEADLINE_S", 0.01)

    async def scenario() -> tuple[Proof, Proof]:
        fault, cluster = Depose(), deposing(administrator)
        resolved = Resolved(nodes=("n2",))
        return await acting.inject(fault, 5, resolved, cluster), await acting.heal(fault, 5, resolved, cluster)

    found = asyncio.run(scenario())
    assert administrator.runtime.nodes["n2"].state is NodeState.RUNNING
    assert found[1].outcome is FaultOutcome.HEALED
    assert administrator.done[-1] == "close"
    return found


def test_the_topic_is_made_while_it_is_paused_and_before_its_znode_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    administrator = FakeAdministrator(FakeRuntime())
    proof, _ = inject(monkeypatch, administrator)
    assert proof.outcome is FaultOutcome.INSTALLED
    assert proof.text == "n2: 2 of 2 threads stopped; /controller deleted; n3 elected in epoch 8"
    assert administrator.done == [f"deposed-5 while {NodeState.PAUSED}", "delete version 4", "close"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"holder": "n1"}, "/controller names n1, not n2"),
        ({"holder": None}, "/controller names nobody, not n2"),
        ({"refuses": True}, "ZooKeeper did not do it: node-exists"),
        ({"successor_is": None}, "ZooKeeper did not do it: in time"),
    ],
)
def test_what_is_not_proven_is_indeterminate(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], said: str
) -> None:
    proof, _ = inject(monkeypatch, FakeAdministrator(FakeRuntime(), **change))  # type: ignore[arg-type]
    assert proof == Proof(FaultOutcome.INDETERMINATE, said)


def test_a_node_that_does_not_stop_keeps_its_znode() -> None:
    administrator = FakeAdministrator(FakeRuntime())
    administrator.runtime.nodes["n2"].state = NodeState.DEAD

    async def scenario() -> Proof:
        return await acting.inject(Depose(), 5, Resolved(nodes=("n2",)), deposing(administrator))

    assert asyncio.run(scenario()).outcome is FaultOutcome.INDETERMINATE
    assert administrator.done == ["close"]


def test_only_kafka_on_zookeeper_has_such_a_controller() -> None:
    (spec,) = parse_faults("depose", FAULTS, placement("kafka-zk"))
    assert spec.text == "depose:controller"
    for system in ("kraft", "zookeeper", "etcd"):
        with pytest.raises(UsageError, match="lacks the part open-administrator, which depose needs"):
            parse_faults("depose", FAULTS, placement(system))
    drawn = [parse_nemesis("all", FAULTS, placement(system)).specs for system in ("kafka-zk", "zookeeper")]
    assert [spec in specs for specs in drawn] == [True, False]


def test_whom_it_deposes() -> None:
    (spec,) = parse_faults("depose", FAULTS, placement("kafka-zk"))
    view = View(nodes=("b1", "b2", "b3"), leader="b3", epoch=2, leader_names=("controller",))
    assert Depose().resolve(spec, view, random.Random(0)) == Resolved(nodes=("b3",))
    nobody = View(nodes=("b1", "b2", "b3"), leader=None, epoch=None, leader_names=("controller",))
    assert isinstance(Depose().resolve(spec, nobody, random.Random(0)), Skip)


def test_a_deposed_node_was_stopped_meanwhile() -> None:
    steps = [
        (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING),
        (FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED),
        (FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING),
        (FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED),
    ]
    events = [
        FaultEvent(
            index=i,
            time_ns=i,
            fault_id=0,
            fault="depose",
            action=action,
            stage=stage,
            outcome=outcome,
            target="controller",
            nodes=("b2",),
        )
        for i, (action, stage, outcome) in enumerate(steps)
    ]
    assert History(events).stopped("b2") == [(1, 2)]


def test_a_topic_has_one_partition_on_every_broker_as_the_old_tool_wrote_it() -> None:
    class Session:
        made: tuple[str, bytes] | None = None

        async def children(self, path: str) -> tuple[list[str], None]:
            assert path == "/brokers/ids"
            return ["5", "4", "10"], None

        async def make(self, path: str, data: bytes) -> None:
            self.made = (path, data)

    session = Session()
    asyncio.run(ZnodeAdministrator(session).make_topic("deposed-0"))  # type: ignore[arg-type]
    assert session.made == ("/brokers/topics/deposed-0", b'{"version":1,"partitions":{"0":[4,5,10]}}')
