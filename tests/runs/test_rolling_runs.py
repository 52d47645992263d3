"""Settings of the servers and rolling restarts on real clusters: taken, proven, repeated, and nothing left behind."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultSpan, FaultStage
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import assert_nothing_left, only_folder, run, run_undisturbed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _lab() -> None:
    require_lab()


def parts_of(folder: Path) -> tuple[list[FaultSpan], list[FaultEvent]]:
    """The restarts, and what was proven when each was over."""
    history = read_history(folder)
    parts = [fault for fault in history.faults if "part_of" in fault.details]
    numbers = {part.fault_id for part in parts}
    over = [
        event
        for event in history.events
        if isinstance(event, FaultEvent)
        and (event.action, event.stage) == (FaultAction.HEAL, FaultStage.END)
        and event.fault_id in numbers
    ]
    return parts, over


def assert_proven(folder: Path, nodes: set[str], version: str) -> None:
    parts, over = parts_of(folder)
    assert {part.nodes[0] for part in parts} == nodes
    assert {part.outcome for part in parts} == {FaultOutcome.INSTALLED}, [part.proof for part in parts]
    assert {event.outcome for event in over} == {FaultOutcome.HEALED}, [event.proof for event in over]
    assert {event.details["says_version"] for event in over} == {version}


def taken(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "run.json").read_text())["settings"]["taken"]
    return found


@pytest.mark.slow
def test_etcd_takes_a_snapshot_count_and_goes_through_a_rolling_restart(tmp_path: Path) -> None:
    done, results = run_undisturbed(
        tmp_path, "--system", "etcd", "--workload", "register", "--set", "etcd.snapshot-count=100",
        "--nemesis", "rolling:order=leader-last:pause=300ms:for=11s", "--quiet", "1s", "--time-limit", "12s",
        "--seed", "2", "--json",
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    assert "--set etcd.snapshot-count=100" in done.stderr
    folder = only_folder(results)
    assert json.loads(done.stdout)["settings"] == {"etcd": {"snapshot-count": "100"}}
    assert {(t["node"], t["says"]) for t in taken(folder)} == {("n1", "100"), ("n2", "100"), ("n3", "100")}
    assert_proven(folder, {"n1", "n2", "n3"}, "3.5.1")
    parts, _ = parts_of(folder)
    # Who leads may change meanwhile, as etcd is free to elect anew at any time.
    assert [part for part in parts[:-1] if part.nodes[0] == part.leader] == []
    logs = [(folder / "nodes" / name / "server.log").read_text() for name in ("n1", "n2", "n3")]
    assert any('"msg":"saved snapshot"' in log for log in logs), "what the setting is for"


@pytest.mark.long
def test_etcd_is_upgraded_under_load_and_its_replay_does_the_same(tmp_path: Path) -> None:
    done = run(
        "run", "--system", "etcd", "--version", "3.4.23", "--workload", "register",
        "--set", "etcd.snapshot-count=100", "--nemesis", "rolling:to=3.5.1:pause=500ms:for=12s", "--quiet", "1s",
        "--time-limit", "15s", "--seed", "3", "--results", str(tmp_path / "first"),
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    first = only_folder(tmp_path / "first")
    assert_proven(first, {"n1", "n2", "n3"}, "3.5.1")
    again = run("replay", str(first), "--times", "1", "--results", str(tmp_path / "again"))
    assert again.returncode in (0, 2), again.stderr + again.stdout
    (second,) = [plan.parent for plan in (tmp_path / "again").glob("replay-*/*/*/*/plan.toml")]
    assert_proven(second, {"n1", "n2", "n3"}, "3.5.1")
    assert [p.nodes for p in parts_of(first)[0]] == [p.nodes for p in parts_of(second)[0]]
    assert {t["says"] for t in taken(second)} == {"100"}
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_zookeeper_goes_to_an_older_release_and_back_again(tmp_path: Path) -> None:
    done = run(
        "run", "--system", "zookeeper", "--workload", "register", "--set", "zookeeper.snapCount=100",
        "--nemesis", "rolling:to=3.8.4:back=yes:pause=0ms:for=30s", "--quiet", "1s", "--time-limit", "32s",
        "--seed", "4", "--results", str(tmp_path), timeout_s=280,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    parts, over = parts_of(only_folder(tmp_path))
    assert {event.outcome for event in over} == {FaultOutcome.HEALED}, [event.proof for event in over]
    assert [event.details["says_version"] for event in over] == ["3.8.4"] * 3 + ["3.9.5"] * 3
    assert {part.details["to_version"] for part in parts} == {"3.8.4", "3.9.5"}
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_kafka_with_its_own_quorum_is_upgraded_to_another_major_release(tmp_path: Path) -> None:
    done = run(
        "run", "--system", "kraft", "--version", "3.9.2", "--workload", "metadata",
        "--set", "kraft.num.network.threads=2", "--nemesis", "rolling:to=4.3.1:pause=500ms:for=45s", "--quiet", "1s",
        "--time-limit", "47s", "--seed", "5", "--results", str(tmp_path), timeout_s=280,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    folder = only_folder(tmp_path)
    assert_proven(folder, {"n1", "n2", "n3", "b1"}, "4.3.1")
    assert {(t["says"], t["by"]) for t in taken(folder)} == {("2", "DescribeConfigs")}
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_brokers_and_their_zookeepers_are_restarted_one_by_one(tmp_path: Path) -> None:
    done = run(
        "run", "--system", "kafka-zk", "--workload", "metadata", "--set", "zookeeper.snapCount=100",
        "--set", "kafka-zk.num.network.threads=2", "--nemesis", "rolling:pause=0ms:for=70s", "--quiet", "1s",
        "--time-limit", "72s", "--seed", "6", "--results", str(tmp_path), timeout_s=290,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    folder = only_folder(tmp_path)
    parts, over = parts_of(folder)
    assert {part.nodes[0] for part in parts} == {"z1", "z2", "z3", "b1", "b2", "b3"}
    assert {event.outcome for event in over} == {FaultOutcome.HEALED}, [event.proof for event in over]
    told = {event.nodes[0]: event.details["says_version"] for event in over}
    assert {told[name] for name in ("b1", "b2", "b3")} == {"3.9.2"}
    assert len({told[name] for name in ("z1", "z2", "z3")}) == 1
    assert {t["setting"] for t in taken(folder)} == {"zookeeper.snapCount", "kafka-zk.num.network.threads"}
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_a_misspelt_setting_ends_the_command_before_a_cluster_starts(tmp_path: Path) -> None:
    for system, setting, near in [
        ("etcd", "etcd.snapshot-cuont=5", "-snapshot-cuont"),
        ("zookeeper", "zookeeper.snapCuont=5", "did you mean snapCount"),
        ("kraft", "kraft.num.io.thread=5", "did you mean num.io.threads"),
    ]:
        workload = "metadata" if system == "kraft" else "register"
        done = run(
            "run", "--system", system, "--workload", workload, "--nemesis", "none", "--set", setting,
            "--results", str(tmp_path),
        )  # fmt: skip
        assert done.returncode == 254
        assert near in done.stderr
        assert not list(tmp_path.glob("*/*")), "no run was begun"
