"""The partitions of KIP-500 as named shapes: exactly which links each one cuts, and where there is no such shape."""

import asyncio
import random

import msgspec
import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import Resolved, Skip, View, choose_nodes
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member, members_alike
from fencepost.harness.runtime.provider import Placement
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of

FAULTS = registry.faults()
KRAFT = (
    *(Member(f"n{i}", ("controller",), serves=False) for i in (1, 2, 3)),
    *(Member(f"b{i}", ("broker",), votes=False) for i in (1, 2, 3)),
)
KAFKA_ZK = (
    *(Member(f"z{i}", ("zookeeper",), serves=False) for i in (1, 2, 3)),
    *(Member(f"b{i}", ("broker",), votes=False) for i in (1, 2, 3)),
)
COMBINED = tuple(Member(f"n{i}", ("controller", "broker")) for i in (1, 2, 3))
ETCD = members_alike(3)


def _placement(members: tuple[Member, ...]) -> Placement:
    system = registry.system("etcd" if members is ETCD else "kraft")
    return Placement(nodes=len(members), members=members, system=system)


def _view(members: tuple[Member, ...], leader: str | None) -> View:
    names = ("raft", "controller")
    return View(nodes=tuple(m.name for m in members), leader=leader, epoch=4, members=members, leader_names=names)


def _resolve(text: str, members: tuple[Member, ...], leader: str | None, seed: int = 0) -> Resolved | Skip:
    (spec,) = parse_faults(text, FAULTS, _placement(members))
    return FAULTS["partition"].choose(spec, _view(members, leader), random.Random(seed))


def _cut(text: str, members: tuple[Member, ...], leader: str | None) -> set[str]:
    resolved = _resolve(text, members, leader)
    assert isinstance(resolved, Resolved)
    return {str(link) for link in resolved.links}


def _nodes(text: str, members: tuple[Member, ...], seed: int) -> tuple[str, ...]:
    resolved = _resolve(text, members, None, seed)
    assert isinstance(resolved, Resolved)
    return resolved.nodes


def _both(inner: str, outer: str) -> set[str]:
    return {f"{inner}>{other}" for other in outer.split()} | {f"{other}>{inner}" for other in outer.split()}


@pytest.mark.parametrize(
    ("text", "members", "leader", "cut"),
    [
        ("partition:controller", KRAFT, "n2", _both("n2", "n1 n3")),
        ("partition:controller:direction=out", KRAFT, "n2", {"n2>n1", "n2>n3"}),
        ("partition:controller:direction=in", KRAFT, "n2", {"n1>n2", "n3>n2"}),
        ("partition:controller", KAFKA_ZK, "b3", _both("b3", "z1 z2 z3")),
        ("partition:controller", COMBINED, "n1", _both("n1", "n2 n3")),
        ("partition:broker-broker:of=b1", KRAFT, "n2", _both("b1", "b2 b3")),
        ("partition:broker-broker:of=b2:direction=in", KAFKA_ZK, "b2", {"b1>b2", "b3>b2"}),
        ("partition:broker-metadata:of=b1", KRAFT, "n2", _both("b1", "n1 n2 n3")),
        ("partition:broker-metadata:of=b3:direction=out", KAFKA_ZK, "b1", {"b3>z1", "b3>z2", "b3>z3"}),
        ("partition:broker-controller:of=b1", KRAFT, "n2", _both("b1", "n2")),
        ("partition:broker-controller:of=b2:direction=in", KRAFT, "n1", {"n1>b2"}),
        ("partition:broker-controller:of=b1", KAFKA_ZK, "b3", _both("b1", "b3")),
        ("partition:total:of=b1", KRAFT, "n2", _both("b1", "b2 b3 n1 n2 n3")),
        ("partition:total:of=controller", KRAFT, "n2", _both("n2", "n1 n3 b1 b2 b3")),
        ("partition:total:of=controller:links=all", KAFKA_ZK, "b1", _both("b1", "z1 z2 z3 b2 b3 client")),
        ("partition:total:of=leader", ETCD, "n3", _both("n3", "n1 n2")),
    ],
)
def test_a_shape_cuts_exactly(text: str, members: tuple[Member, ...], leader: str, cut: set[str]) -> None:
    assert _cut(text, members, leader) == cut


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("members", [KRAFT, KAFKA_ZK], ids=["kraft", "kafka-zk"])
def test_a_drawn_broker_keeps_its_links_to_the_other_side(members: tuple[Member, ...], seed: int) -> None:
    keepers = {m.name for m in members if m.votes}
    data = _resolve("partition:broker-broker", members, None, seed)
    metadata = _resolve("partition:broker-metadata", members, None, seed)
    assert isinstance(data, Resolved)
    assert isinstance(metadata, Resolved)
    assert data.nodes == metadata.nodes, "the same seed draws the same broker"
    assert {link.target for link in data.links} | {link.source for link in data.links} == {"b1", "b2", "b3"}
    assert {link.target for link in metadata.links} == {*keepers, *metadata.nodes}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("members", [KRAFT, KAFKA_ZK], ids=["kraft", "kafka-zk"])
def test_where_there_are_brokers_a_total_partition_draws_one(members: tuple[Member, ...], seed: int) -> None:
    resolved = _resolve("partition:total", members, None, seed)
    assert isinstance(resolved, Resolved)
    (broker,) = resolved.nodes
    others = " ".join(member.name for member in members if member.name != broker)
    assert broker.startswith("b") and {str(link) for link in resolved.links} == _both(broker, others)


def test_where_no_node_is_a_broker_a_total_partition_draws_any_node() -> None:
    drawn = {_nodes("partition:total", ETCD, seed) for seed in range(20)}
    assert drawn == {(member.name,) for member in ETCD}


@pytest.mark.parametrize("seed", range(8))
def test_the_broker_that_is_cut_off_from_the_controller_is_never_the_controller(seed: int) -> None:
    resolved = _resolve("partition:broker-controller", KAFKA_ZK, "b2", seed)
    assert isinstance(resolved, Resolved)
    (broker,) = resolved.nodes
    assert broker in ("b1", "b3") and {str(link) for link in resolved.links} == _both(broker, "b2")
    assert resolved.details["controller"] == "b2"


@pytest.mark.parametrize(
    ("text", "leader", "why"),
    [
        ("partition:broker-controller", None, "no node was known"),
        ("partition:broker-controller:of=b2", "b2", "b2 is the active controller itself"),
    ],
)
def test_without_two_sides_there_is_nothing_to_cut(text: str, leader: str | None, why: str) -> None:
    skipped = _resolve(text, KAFKA_ZK, leader)
    assert isinstance(skipped, Skip) and why in skipped.why


@pytest.mark.parametrize(
    ("text", "members", "said"),
    [
        ("partition:controller", ETCD, "no node is a broker; choose from: total, one, minority"),
        ("partition:broker-metadata", ETCD, "no node is a broker"),
        (
            "partition:broker-broker",
            KRAFT[:4],
            "only one broker; choose from: total, broker-metadata, broker-controller",
        ),
        ("partition:broker-metadata", COMBINED, "broker and controller at once"),
        ("partition:broker-controller", COMBINED, "broker and controller at once"),
        ("partition:broker-controller", KAFKA_ZK[:4], "the only broker is the active controller"),
        ("partition:broker-controller", ETCD, "no node is a broker"),
        ("partition:broker-controller:links=all", KRAFT, "cuts links between nodes only"),
        ("partition:broker-controller:of=n1", KRAFT, "of='n1' is not a choice; choose from: b1, b2, b3"),
        ("partition:controller:links=all", KRAFT, "cuts links between nodes only"),
        ("partition:broker-broker:of=n1", KRAFT, "of='n1' is not a choice; choose from: b1, b2, b3"),
        ("partition:controller:of=n1", KRAFT, "of='n1' is not a choice; choose from: none"),
        ("partition:total:of=moon", KRAFT, "of='moon' is not a choice"),
        ("partition:leader:of=n1", ETCD, "of= goes only with total, broker-broker, broker-metadata"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused_with_the_choices(
    text: str, members: tuple[Member, ...], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, _placement(members))
    assert said in f"{caught.value.message}; {caught.value.hint}"


def test_the_choices_name_only_what_this_cluster_has() -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults("partition:moon", FAULTS, _placement(ETCD))
    assert (
        caught.value.hint
        == "choose from: one, minority, majority, leader, follower, restarted, returned, total, n1, n2, n3"
    )


def test_without_a_known_controller_the_shape_is_skipped() -> None:
    assert isinstance(_resolve("partition:controller", KRAFT, None), Skip)


@pytest.mark.parametrize("members", [KRAFT, KAFKA_ZK, COMBINED], ids=["kraft", "kafka-zk", "combined"])
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_for_other_faults_controller_is_the_active_one(fault: str, members: tuple[Member, ...]) -> None:
    (spec,) = parse_faults(f"{fault}:controller", FAULTS, _placement(members))
    leader = "b2" if members is KAFKA_ZK else "n2"
    view = _view(members, leader)
    assert {choose_nodes(spec.target, view, random.Random(seed)) for seed in range(5)} == {(leader,)}


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_cluster_without_brokers_has_no_controller(fault: str) -> None:
    with pytest.raises(UsageError, match="unknown target 'controller'"):
        parse_faults(f"{fault}:controller", FAULTS, _placement(ETCD))


def test_a_shape_is_proven_and_healed() -> None:
    (spec,) = parse_faults("partition:total:of=n1:direction=out", FAULTS, _placement(ETCD))
    fault, runtime = FAULTS["partition"], FakeRuntime()
    resolved = acting.aimed(fault, spec, _view(ETCD, "n2"), random.Random(1))

    async def scenario() -> tuple[FaultOutcome, FaultOutcome]:
        injected = await acting.inject(fault, 0, resolved, cluster_of(runtime))
        return injected.outcome, (await acting.heal(fault, 0, resolved, cluster_of(runtime))).outcome

    assert asyncio.run(scenario()) == (FaultOutcome.INSTALLED, FaultOutcome.HEALED)


def test_the_nodes_that_a_workload_wishes_for_count_when_a_fault_is_checked() -> None:
    """The log asks for three brokers where the default is one, which could not be parted."""
    plan = Plan(system="kraft", workload="log", seed=1, nemesis="partition:broker-broker")
    assert check_plan(plan).plan.system_options["brokers"] == 3
    with pytest.raises(UsageError, match="only one broker"):
        check_plan(msgspec.structs.replace(plan, system_options={"brokers": 1}, workload_options={"min_isr": 1}))
    with pytest.raises(UsageError, match="min_isr=2 is more than the number of nodes that keep the log, 1"):
        check_plan(msgspec.structs.replace(plan, system_options={"brokers": 1}))
