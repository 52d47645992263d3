"""Disk faults in the lab: on real servers (etcd, and ZooKeeper's JVM), and as an ordinary user on plain programs."""

import os
from typing import Any

import pytest

from fencepost.harness.runtime.disks import availability
from fencepost.harness.runtime.provider import Placement
from tests.lab_scenario import User, refuse, run_scenario
from tests.runtime.lab.test_ordinary_user import user as lab_user

SCENES = "tests.runtime.disks.scenes"
#: Each proves itself on a server that is written to; those that end the server are undone by healing.
FAULTS = (
    "disk:n1:delay=30ms",
    "disk:n2:calls=write:delay=20ms",
    "lost-write:n3",
    "disk:n3:kind=full",
    "power-loss:all:track=1s",
    # The last one: a ZooKeeper that met such errors may never start again (see below).
    "disk:n2:kind=failing",
)

pytestmark = pytest.mark.cluster

user = lab_user


@pytest.fixture(autouse=True)
def _strace() -> None:
    refuse(availability.why_not(Placement()))


def play(scene: str, nodes: int = 3, **args: Any) -> Any:
    return run_scenario(f"{SCENES}:{scene}", args, nodes=nodes, timeout_s=110)


@pytest.mark.parametrize("system", ["etcd", pytest.param("zookeeper", marks=pytest.mark.long)])
def test_every_fault_is_proven_and_healed(system: str) -> None:
    # What is lost is not asked here: the packaged etcd 3.5.1 is known to lose acknowledged writes under kills.
    found = play("faults", system=system, faults=FAULTS)
    for step in found["steps"]:
        assert step["outcome"] == "installed", step
        assert step["healed"] == "healed", step
        assert step["left"] == [], step
        assert len(set(step["limits_mib"])) == 1, step
    assert found["added"] > 100


@pytest.mark.long
def test_a_loss_of_power_catches_an_etcd_that_does_not_sync() -> None:
    found = play("faults", system="etcd", faults=["power-loss:all"], more=["--unsafe-no-fsync"])
    (step,) = found["steps"]
    assert step["outcome"] == "installed", step
    assert step["healed"] == "healed", step
    assert "of 0 syncs" in step["proof"]
    assert found["lost"] > 0


@pytest.mark.long
@pytest.mark.parametrize("round_", range(3))
def test_a_loss_of_power_never_catches_one_that_does(round_: int) -> None:
    found = play("faults", system="etcd", version="3.4.23", faults=["power-loss:all"] * 3)
    assert [step["outcome"] for step in found["steps"]] == ["installed"] * 3
    assert found["lost"] == 0


@pytest.mark.long
@pytest.mark.parametrize(("version", "loses"), [("3.5.1", True), ("3.4.23", False)])
def test_lost_writes_catch_a_single_member_that_answers_too_early(version: str, loses: bool) -> None:
    """etcd issue 14370, mended in 3.4.21 and 3.5.5."""
    found = play("faults", nodes=1, system="etcd", version=version, faults=["lost-write:n1"] * 4)
    assert [step["outcome"] for step in found["steps"]] == ["installed"] * 4
    assert (found["lost"] > 0) is loses


@pytest.mark.long
@pytest.mark.parametrize("kind", ["flip", "truncate", "tail"])
@pytest.mark.parametrize(("system", "files"), [("etcd", "*.wal"), ("zookeeper", "*/log.*")])
def test_damage_of_one_node_leaves_a_cluster_that_is_healthy_again(system: str, files: str, kind: str) -> None:
    found = play("faults", system=system, faults=[f"damage:n2:kind={kind}:files={files}"])
    (step,) = found["steps"]
    assert step["outcome"] == "installed", step
    assert step["healed"] == "healed", step


@pytest.mark.long
def test_a_zookeeper_that_rejoined_after_an_error_of_its_disk_may_never_start_again() -> None:
    """ZOOKEEPER-4882, unmended in 3.9.5: what it had in memory but not in its log is never asked for again."""
    for _ in range(8):
        found = play("started_after_an_error", seconds=2)
        assert found["outcomes"] == ["installed", "healed"], found
        assert found["starts_before"] == 0, "it does not end over the error"
        assert found["has_a_hole"] == (found["state"] == "dead"), found
        if found["has_a_hole"]:
            return
    pytest.fail("it started again eight times out of eight; measured were two out of five")


def _assert_made_by_hand(found: dict[str, Any]) -> None:
    assert found["slow_wrong"] is None
    assert found["slow"] >= 5
    # strace looks at the clock once the delay has begun: mostly within microseconds, on a busy machine not always.
    assert found["usual_s"] >= 0.0295
    assert (found["refused"], found["refused_after"], found["limit_kept"]) == (True, False, True)
    assert found["missed"] == []
    assert found["n1_lines"] >= found["n1_told"], "what was told was synced before"
    assert found["n2_lines"] < found["n2_told"], "what was never synced is lost"


def test_what_faults_are_made_of_works_in_the_lab() -> None:
    _assert_made_by_hand(run_scenario(f"{SCENES}:by_hand", {}, nodes=2, timeout_s=60))


def test_what_faults_are_made_of_works_for_an_ordinary_user(user: User | None) -> None:
    if user is None:
        assert os.geteuid() != 0, "the test before was it"
        return
    _assert_made_by_hand(run_scenario(f"{SCENES}:by_hand", {}, nodes=2, timeout_s=60, user=user))
