"""Members of real clusters: removed, ended, wiped, added again; what they had is gone, and they have what all have."""

from typing import Any

import pytest

from fencepost.harness.plugins import registry
from tests.lab_scenario import run_scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def changes(system: str, *targets: str) -> list[dict[str, Any]]:
    members = registry.system(system).members(3, registry.system(system).profile.options())
    found: dict[str, Any] = run_scenario(
        "tests.systems.contract.membership_scenarios:changes",
        {"system": system, "targets": targets},
        nodes=members,
        timeout_s=360,
    )
    assert found["restarted"]
    for voters in found["restarted"].values():
        assert sorted(voters) == ["n1", "n2", "n3"]
    changed: list[dict[str, Any]] = found["changes"]
    return changed


def check(found: dict[str, Any], *, wiped: bool = True, renamed: bool = True) -> None:
    name = found["node"]
    others = sorted({"n1", "n2", "n3"} - {name})
    assert found["injected"][0] == "installed", found["injected"]
    assert found["healed"][0] == "healed", found["healed"]
    assert found["again"][0] == "healed"
    assert found["incarnation"] >= 1
    for voters in found["between"].values():
        assert sorted(voters) == others
    assert found["between"]
    assert found["after"]
    for voters in found["after"].values():
        assert sorted(voters) == ["n1", "n2", "n3"]
    (before,) = {voters[name] for voters in found["before"].values()}
    (after,) = {voters[name] for voters in found["after"].values()}
    assert (before != after) is renamed
    assert found["marked"] is not wiped
    assert before in found["injected"][1]
    assert after in found["healed"][1]
    assert found["read"] in (None, f"while {name} was out")


def test_etcd_gives_a_leader_that_was_removed_a_new_id() -> None:
    (leader,) = changes("etcd", "leader")
    assert leader["led"]
    assert "its server ended by itself" in leader["injected"][1]
    check(leader)
    # Each member tells of itself.
    assert set(leader["after"]) == {"n1", "n2", "n3"}


@pytest.mark.slow
def test_a_server_of_nats_comes_back_under_a_new_name() -> None:
    leader, follower = changes("nats", "leader", "follower")
    assert leader["led"]
    check(leader)
    check(follower)
    assert set(follower["after"]) == {"n1", "n2", "n3"}


@pytest.mark.long
def test_members_of_zookeeper_change_while_it_runs() -> None:
    leader, follower, keeping = changes("zookeeper", "leader", "follower", "follower:wipe=no")
    assert leader["led"]
    check(leader, renamed=False)
    check(follower, renamed=False)
    check(keeping, wiped=False, renamed=False)
    assert set(keeping["after"]) == {"n1", "n2", "n3"}


@pytest.mark.long
def test_voters_of_kraft_change_while_it_runs() -> None:
    leader, follower, keeping = changes("kraft", "leader", "follower", "follower:wipe=no")
    assert leader["led"]
    check(leader)
    check(follower)
    check(keeping, wiped=False, renamed=False)
