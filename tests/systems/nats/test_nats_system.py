"""What NATS declares: what is refused before the start."""

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plan.plan import Plan


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
