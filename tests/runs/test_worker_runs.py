"""Several workers on real clusters: faults in force together, the quorum kept, nothing left behind."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.history import FaultOutcome
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import assert_nothing_left, only_folder, run, run_undisturbed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _lab() -> None:
    require_lab()


def _kinds(folder: Path) -> dict[str, set[str]]:
    """Outcomes by kind, of whole faults and of parts."""
    found: dict[str, set[str]] = {}
    for fault in read_history(folder).faults:
        found.setdefault(fault.fault, set()).add(str(fault.outcome))
    return found


@pytest.mark.slow
def test_faults_of_two_workers_are_proven_beside_each_other_and_keep_the_quorum(tmp_path: Path) -> None:
    """Of the kill and the cut one waits for the other, or is skipped; the frozen client takes nothing from a quorum."""
    # Killed servers of 3.5.1 may differ from the others for ever (etcd#13766), and that rightly makes a run invalid.
    done, results = run_undisturbed(
        tmp_path, "--system", "etcd", "--version", "3.4.23", "--workload", "register", "--nemesis",
        "kill:leader:for=2s+partition:leader:for=2s+pause:client:for=2s", "--quorum", "keep", "--quiet", "2s",
        "--time-limit", "11s", "--seed", "2", "--json",
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["quorum"]["asked"] == "keep"
    assert document["quorum"]["lost_ns"] == 0
    folder = only_folder(results)
    history = read_history(folder)
    outcomes = {fault.outcome for fault in history.faults}
    assert FaultOutcome.INDETERMINATE not in outcomes, [f.proof for f in history.faults]
    proven = [f for f in history.faults if f.certain_from_ns is not None and f.certain_to_ns is not None]
    assert {f.fault for f in proven} == {"kill", "partition", "pause"}
    workers = {json.loads(line)["worker"] for line in (folder / "schedule.jsonl").read_text().splitlines()}
    assert workers == {0, 1, 2}


@pytest.mark.long
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_flapping_gray_and_churn_are_proven_on_real_servers(system: str, tmp_path: Path) -> None:
    done = run(
        "run", "--system", system, "--workload", "register", "--nemesis", "flapping:for=6s,gray:for=3s,churn:for=4s",
        "--quiet", "2s", "--time-limit", "28s", "--seed", "4", "--json", "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    folder = only_folder(tmp_path)
    assert _kinds(folder) == {kind: {"installed"} for kind in ("flapping", "gray", "churn")}
    assert sum("part_of" in f.details for f in read_history(folder).faults) >= 4
    assert_nothing_left(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("system", ["kraft", "kafka-zk"])
def test_leaders_of_topic_partitions_move_away_and_back(system: str, tmp_path: Path) -> None:
    done = run(
        "run", "--system", system, "--workload", "log", "--nemesis", "churn:partitions:for=25s", "--quiet", "3s",
        "--time-limit", "32s", "--seed", "4", "--json", "--results", str(tmp_path), timeout_s=200,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    parts = [f for f in read_history(only_folder(tmp_path)).faults if "part_of" in f.details]
    proven = {f.details["by"] for f in parts if f.outcome is FaultOutcome.INSTALLED}
    assert proven == {"restart", "ask"}
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_a_frozen_holder_of_a_lock_without_fencing_loses_updates(tmp_path: Path) -> None:
    """On etcd. ZooKeeper refuses what a frozen client sends later: the session of its writes has expired as well."""
    done = run(
        "run", "--system", "etcd", "--workload", "lock", "--fencing", "off", "-o", "stall_one_in=1000000",
        "--nemesis", "pause:client:for=3200ms", "--quiet", "1s", "--time-limit", "45s", "--seed", "5",
        "--json", "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    assert {a["anomaly"] for a in document["anomalies"]} >= {"lost-update"}
    assert _kinds(only_folder(tmp_path)) == {"pause": {"installed"}}
    assert_nothing_left(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_the_mixture_runs_through_with_a_proof_for_every_kind(system: str, tmp_path: Path) -> None:
    done = run(
        "run", "--system", system, "--workload", "register", "--nemesis", "all", "--time-limit", "120s",
        "--seed", "6", "--json", "--results", str(tmp_path), timeout_s=280,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    folder = only_folder(tmp_path)
    planned = json.loads((folder / "run.json").read_text())["nemesis"]
    found = _kinds(folder)
    assert set(planned["kinds"]) - set(planned["without_time"]) == set(found)
    assert all("installed" in outcomes for outcomes in found.values()), found
    assert all(item["why"] for item in planned["left_out"])
    assert_nothing_left(tmp_path)
