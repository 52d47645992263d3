"""What NATS declares: what is refused before the start."""

import random
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import Resolved, Skip, View
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import members_alike


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (
            Plan(system="nats", workload="register", nemesis="none", seed=1, system_options={"replicas": 5}),
            "5 replicas does not fit on 3 nodes",
        ),
        (
            Plan(system="nats", workload="register", nemesis="none", seed=1, nodes=1),
            "3 replicas does not fit on 1 node",
        ),
        (
            Plan(system="nats", workload="log", nemesis="none", seed=1, workload_options={"acks": "1"}),
            "log-durable-unrepl",
        ),
    ],
)
def test_what_no_stream_can_do_is_refused(plan: Plan, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        check_plan(plan)
    assert refused.value.hint


def test_five_replicas_on_five_nodes_are_fine() -> None:
    plan = Plan(system="nats", workload="register", nemesis="none", seed=1, nodes=5, system_options={"replicas": 5})
    assert len(check_plan(plan).members) == 5


def view(**changes: Any) -> View:
    """The servers when n1 leads the stream and n2 the meta group."""
    members = members_alike(3)
    there = {"nodes": ("n1", "n2", "n3"), "leader": "n1", "epoch": 3, "members": members, "leader_names": ("stream",)}
    return View(**{**there, "other_leaders": {"meta": "n2"}, **changes})


@pytest.mark.parametrize("fault", ["kill", "pause", "partition"])
def test_faults_can_follow_the_leader_of_the_meta_group(fault: str) -> None:
    checked = check_plan(Plan(system="nats", workload="register", nemesis=f"{fault}:meta", seed=1))
    (spec,) = checked.request.specs
    kind = registry.faults()[fault]
    resolved = kind.resolve(spec, view(), random.Random(1))
    assert isinstance(resolved, Resolved) and resolved.nodes == ("n2",)
    nobody = kind.resolve(spec, view(other_leaders={"meta": None}), random.Random(1))
    assert isinstance(nobody, Skip) and "meta group" in nobody.why


def test_only_a_system_with_a_meta_group_has_that_target() -> None:
    with pytest.raises(UsageError, match="unknown target 'meta'"):
        check_plan(Plan(system="etcd", workload="register", nemesis="kill:meta", seed=1))
