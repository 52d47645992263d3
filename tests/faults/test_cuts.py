"""Cuts of the leader: which faults are some, how long they hold, and what a plan asks for because of them."""

from typing import Any

import pytest

from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.faults.kind import FaultSpec, cuts_off_leader, may_cut_off_leader, with_holds
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.plan import Phases, Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member, members_alike
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import LeadershipBound, Standing
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.server.options import KraftOptions

FAULTS = registry.faults()
SEPARATE = KRAFT.members(3, KraftOptions(brokers=3))
COMBINED = KRAFT.members(3, KraftOptions(combined=True))
ALIKE = members_alike(3)
FIVE = members_alike(5)
#: B = 1.5 s, as KRaft's default: judged from 3.25 s on.
BOUND = LeadershipBound(bound_ns=1_500_000_000, source="a test", standing=Standing.PROMISED, one_leader_per_epoch=True)


def specs_of(text: str, members: tuple[Member, ...]) -> list[FaultSpec]:
    return parse_faults(text, FAULTS, Placement(nodes=len(members), members=members))


@pytest.mark.parametrize(
    ("text", "members", "may", "does"),
    [
        ("partition:controller", SEPARATE, True, True),
        ("partition:leader", SEPARATE, True, True),
        ("partition:total:of=controller", SEPARATE, True, True),
        ("partition:leader", ALIKE, True, True),
        ("partition:controller", COMBINED, True, True),
        ("partition:one", SEPARATE, True, False),
        ("partition:minority", SEPARATE, True, False),
        ("partition:majority", SEPARATE, True, False),
        ("partition:n2", SEPARATE, True, False),
        ("partition:controller:direction=out", SEPARATE, False, False),
        ("partition:leader:direction=in", SEPARATE, False, False),
        ("partition:leader:links=client", SEPARATE, False, False),
        ("partition:follower", SEPARATE, False, False),
        ("partition:b1", SEPARATE, False, False),
        ("partition:broker", SEPARATE, False, False),
        ("partition:broker", COMBINED, True, False),
        ("partition:broker-broker", SEPARATE, False, False),
        ("partition:broker-metadata", SEPARATE, False, False),
        ("partition:ring", FIVE, False, False),
        ("partition:bridge", FIVE, False, False),
        ("kill:controller", SEPARATE, False, False),
        ("pause:leader", SEPARATE, False, False),
    ],
)
def test_which_faults_cut_off_the_leader(text: str, members: tuple[Member, ...], may: bool, does: bool) -> None:
    (spec,) = specs_of(text, members)
    fault = FAULTS[spec.fault]
    assert may_cut_off_leader(spec, fault, members, ("raft", "controller")) is may
    assert cuts_off_leader(spec, fault, members, ("raft", "controller")) is does


def holds_of(text: str, *, limit_s: float = 60, bound: LeadershipBound = BOUND) -> list[float]:
    """Seconds of each fault."""
    specs = with_holds(
        specs_of(text, SEPARATE),
        FAULTS,
        members=SEPARATE,
        leader_names=("raft", "controller"),
        bound=bound,
        time_limit_ns=round(limit_s * 1e9),
        quiet_ns=4_000_000_000,
    )
    return [spec.duration_ns / 1e9 for spec in specs]


@pytest.mark.parametrize(
    ("text", "limit_s", "holds"),
    [
        ("partition:controller", 60, [9.75]),
        ("partition:controller:for=2s", 60, [2]),
        ("partition:one", 60, [5]),
        ("partition:controller,kill,partition:leader:direction=out", 60, [9.75, 2, 5]),
        # 2 s before it, and the rest of the time.
        ("partition:controller", 10, [8]),
        # Never below the default, which is then cut short as any other fault.
        ("partition:controller", 5, [5]),
        # 2 s before the first, at most 4.8 s between two, 2 s of the kill: 11.2 s and 8 s are left for the cuts.
        ("partition:controller,kill", 20, [11.2, 2]),
        ("partition:controller,kill", 18, [9.2, 2]),
        ("partition:controller,partition:leader", 22.8, [8, 8]),
    ],
)
def test_a_cut_of_the_leader_is_held_for_three_times_the_limit(text: str, limit_s: float, holds: list[float]) -> None:
    bound = LeadershipBound(bound_ns=2_000_000_000, source="", standing=Standing.PROMISED, one_leader_per_epoch=True)
    given: dict[str, Any] = {"bound": bound} if holds[0] == 11.2 else {}
    assert holds_of(text, limit_s=limit_s, **given) == pytest.approx(holds)


def test_without_a_bound_the_fault_s_default_stays() -> None:
    none = LeadershipBound(bound_ns=None, source="", standing=Standing.MEASURED, one_leader_per_epoch=False)
    assert holds_of("partition:controller", bound=none) == [5]


@pytest.mark.parametrize(
    ("nemesis", "asked"),
    [
        ("partition:controller", True),
        ("partition:controller,kill", True),
        ("kill,partition:one", True),
        ("kill:controller", False),
        ("pause:controller", False),
        ("partition:broker-metadata", False),
        ("partition:controller:direction=out", False),
        ("none", False),
    ],
)
def test_self_fencing_is_asked_of_faults_that_can_show_it(nemesis: str, asked: bool) -> None:
    checked = check_plan(Plan(system="kraft", workload="metadata", seed=1, nemesis=nemesis))
    assert checked.plan.require == (("leader-self-fencing",) if asked else ())


@pytest.mark.parametrize("version", ["3.6.0", "latest", "/a/folder/of/jars"])
def test_a_plan_is_checked_before_anybody_knows_the_release(version: str) -> None:
    assert (
        check_plan(Plan(system="kraft", workload="metadata", seed=1, nemesis="none", version=version)).plan.phases.watch
        == "30s"
    )


def test_who_names_it_gets_it_asked_whatever_the_faults() -> None:
    plan = Plan(system="kraft", workload="metadata", seed=1, nemesis="kill", require=("leader-self-fencing",))
    assert check_plan(plan).plan.require == ("leader-self-fencing",)


@pytest.mark.parametrize(
    ("system", "workload", "watch_s"),
    [("kraft", "metadata", 30), ("kafka-zk", "log", 30), ("etcd", "register", 2), ("zookeeper", "register", 2)],
)
def test_how_long_nodes_are_watched_is_the_systems_matter(system: str, workload: str, watch_s: int) -> None:
    checked = check_plan(Plan(system=system, workload=workload, seed=1, nemesis="none"))
    assert parse_duration_ns(checked.plan.phases.watch) == watch_s * 10**9
    asked = check_plan(Plan(system=system, workload=workload, seed=1, nemesis="none", phases=Phases(watch="3s")))
    assert asked.plan.phases.watch == "3s"
