"""Kafka on ZooKeeper: a controller that is superseded goes on trying, and what refuses it is proven from the disks."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.history import AttemptEvent
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import assert_nothing_left, only_folder, run, without_rows

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]


def judged(results: Path, *arguments: str) -> dict[str, Any]:
    require_lab()
    done = run(
        "run", "--system", "kafka-zk", "--workload", "metadata", *arguments,
        "--json", "--results", str(results), timeout_s=250,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr + done.stdout
    assert_nothing_left(results)
    document = json.loads(done.stdout)
    verdicts = {(v["checker"], v["guarantee"]): v for v in document["verdicts"]}
    for guarantee in ("metadata-log-agrees", "metadata-durable"):
        assert verdicts["ground-truth", guarantee]["validity"] == "valid"
    assert verdicts["zombie-controllers", "superseded-leader-does-not-act"]["figures"]["acted"]["value"] == 0
    return {guarantee: v["figures"] for (checker, guarantee), v in verdicts.items() if checker == "zombie-controllers"}


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2"])
def test_one_deposed_within_its_session_is_fenced_by_the_controller_epoch(tmp_path: Path, version: str) -> None:
    # A session that outlives the fault on a busy machine, too.
    figures = judged(
        tmp_path, "--version", version, "--nemesis", "depose", "-O", "zk_session=6s", "--time-limit", "12s",
    )["superseded-leader-does-not-act"]  # fmt: skip
    assert figures["fenced_by"].get("controller-epoch", 0) >= 1
    fenced = [row for row in figures["attempts"] if row.get("refused_by") == "controller-epoch"]
    assert all(row["epoch"] < row["superseded_by"] for row in fenced)
    # On the ZooKeepers' disks, and in its own words.
    assert any("zxid" in row and row["what"]["rows"] for row in fenced)
    events = read_history(only_folder(tmp_path)).events
    assert {type(events[index]) for row in fenced for index in row["what"]["rows"]} == {AttemptEvent}


def test_one_paused_beyond_its_session_is_fenced_by_that(tmp_path: Path) -> None:
    # Topics are asked for all the time through every node, so that some wait for it when it wakes.
    own = judged(
        tmp_path, "--nemesis", "pause:controller:for=7s", "-o", "window=1s", "-o", "create_every=200ms",
        "--time-limit", "25s",
    )  # fmt: skip
    assert own["superseded-leader-does-not-act"]["controllers"] >= 2
    assert [row for figures in own.values() for row in figures["attempts"]]
    figures = own["client-changes-are-fenced"]
    figures = without_rows(figures)
    assert figures["attempted_but_fenced"] + figures["unfenced_changes_for_clients"] == len(figures["attempts"])
