"""Every kind of fault, alone and with others in any order: what it changes, and that nothing is left in the end.

On plain programs in a real lab, so that links, processes, clocks, tracers and disks are the kernel's; `long`: on etcd
and ZooKeeper.
"""

from typing import Any

import pytest

from fencepost.harness.plugins import registry
from fencepost.harness.runtime.clocks.process import why_not_here
from fencepost.harness.runtime.disks import availability
from fencepost.harness.runtime.provider import Placement
from tests.lab_scenario import refuse, run_scenario
from tests.nemesis.state_machine.machine import VARIANTS

#: Elsewhere only: requests; the controller of Kafka on ZooKeeper, and its move to KRaft; replicas of streams; proxies.
_ELSEWHERE = {"administer", "depose", "migrate", "reassign", "toxic"}
_ON_REAL_SERVERS = {"membership", "rolling"}

#: `alone`: gray nodes are proven by how often they are found stopped, slow links by when datagrams arrive.
pytestmark = [pytest.mark.cluster, pytest.mark.alone]


@pytest.fixture(autouse=True)
def _tools() -> None:
    refuse(availability.why_not(Placement()))
    refuse(why_not_here())


def play(scene: str, *, timeout_s: float = 240, **args: Any) -> Any:
    return run_scenario(f"tests.nemesis.state_machine.machine:{scene}", args, timeout_s=timeout_s)


def assert_each_alone(found: dict[str, Any], left_out: set[str]) -> None:
    """`left_out`: whatever there is of these."""
    for step in found["steps"]:
        assert step["injected"][0] == "installed", step
        assert step["changed"], f"the comparison does not see this fault: {step}"
        assert step["healed"][0] == "healed", step
        assert step["healed_again"][0] == "healed", step
        assert step["left"] == [], step
    assert set(found["left_out"]) == left_out & set(registry.NEMESES), found["left_out"]


@pytest.mark.timeout(300)
def test_each_fault_alone_changes_something_and_leaves_nothing() -> None:
    found = play("each_alone", system="plain")
    assert_each_alone(found, _ELSEWHERE | _ON_REAL_SERVERS)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_faults_in_any_order_leave_nothing() -> None:
    found = play("in_any_order", system="plain", examples=3, steps=8, seed=1)
    assert found["unproven"] == []
    assert found["counts"]["injected beside others"] > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_many_faults_in_any_order_leave_nothing(seed: int) -> None:
    found = play("in_any_order", system="plain", examples=60, steps=20, seed=seed, timeout_s=850)
    assert found["unproven"] == []
    met = {name for name, count in found["counts"].items() if count}
    assert met >= set(registry.NEMESES) - _ELSEWHERE - _ON_REAL_SERVERS, "a kind did not take part"
    assert met >= {"failed half-way", "cancelled", "deaths", "restarts", "tools killed", "healed", "healed again"}


@pytest.mark.long
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_each_fault_alone_leaves_nothing_on_real_servers(system: str) -> None:
    found = play("each_alone", system=system, timeout_s=400)
    assert_each_alone(found, _ELSEWHERE | {"damage"})


@pytest.mark.long
@pytest.mark.parametrize(("system", "examples"), [("etcd", 15), ("zookeeper", 5)])
def test_faults_in_any_order_leave_nothing_on_real_servers(system: str, examples: int) -> None:
    found = play("in_any_order", system=system, examples=examples, steps=12, seed=4, timeout_s=850)
    assert found["counts"]["injected beside others"] > 0


def test_every_kind_takes_part() -> None:
    assert set(VARIANTS) <= set(registry.NEMESES)
