"""A guarantee stands as it does with the settings in force: what they take the promise from cannot decide a run."""

import pytest

from fencepost.harness.judging.judge import facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Facts, Standing


def facts(system: str, workload: str, settings: dict[str, dict[str, str | int | float | bool]]) -> Facts:
    plan = Plan(system=system, workload=workload, seed=1, nemesis="none", server_settings=settings)
    return facts_of(check_plan(plan), registry.system(system).releases.default)


@pytest.mark.parametrize(
    ("system", "workload", "of", "key", "harmless", "harmful", "names"),
    [
        (
            "kraft",
            "log",
            "kraft",
            "unclean.leader.election.enable",
            False,
            True,
            # Who was superseded so goes on with its followers, and acknowledges (seen on 4.3.1).
            {"log-durable", "log-committed-reads", "log-leader-epochs"},
        ),
        (
            "kraft",
            "consumer-groups",
            "kraft",
            "unclean.leader.election.enable",
            False,
            True,
            {"group-commits-durable", "group-generations-fence", "group-one-owner"},
        ),
        ("kraft", "election", "kraft", "unclean.leader.election.enable", False, True, {"terms-grow"}),
        ("kafka-zk", "log", "kafka-zk", "unclean.leader.election.enable", False, True, {"log-durable"}),
        ("kafka-zk", "metadata", "zookeeper", "forceSync", "yes", "no", {"metadata-durable", "metadata-log-agrees"}),
        ("etcd", "set", "etcd", "unsafe-no-fsync", False, True, {"no-lost-acknowledged-writes", "log-agrees"}),
        ("zookeeper", "set", "zookeeper", "forceSync", "yes", "no", {"no-lost-acknowledged-writes", "log-agrees"}),
    ],
)
def test_what_a_setting_takes_the_promise_from_is_only_measured(
    system: str, workload: str, of: str, key: str, harmless: bool | str, harmful: bool | str, names: set[str]
) -> None:
    assert registry.system(system).unpromised is not None
    for name in names:
        kept = facts(system, workload, {of: {key: harmless}})
        assert kept.decides(name)
        lost = facts(system, workload, {of: {key: harmful}})
        guarantee = lost.guarantee(name)
        assert guarantee is not None
        assert guarantee.standing is Standing.MEASURED
        assert guarantee.source.startswith(f"not promised: {key}=")
        assert not lost.decides(name)
        assert lost.decides("leader-self-fencing") == kept.decides("leader-self-fencing"), (
            "what it does not touch stays"
        )
