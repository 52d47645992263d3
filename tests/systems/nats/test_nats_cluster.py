"""NATS in the lab, as a user runs it: a superseded leader answers gets, and reads that are confirmed are right."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab_scenario import require_lab
from tests.run_command import only_folder, run_undisturbed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def outcome(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    require_lab()
    _, results = run_undisturbed(tmp_path, "--system", "nats", *arguments, "--seed", "5", timeout_s=300)
    document: dict[str, Any] = json.loads((only_folder(results) / "verdict.json").read_text())
    return document


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["validity"] for one in document["guarantees"]}


@pytest.mark.slow
def test_confirmed_reads_are_linearizable_while_servers_are_killed(tmp_path: Path) -> None:
    document = outcome(tmp_path, "--workload", "register", "--nemesis", "kill:leader", "--time-limit", "16s")
    assert verdicts(document)["linearizable"] == "valid", document["headline"]
    assert verdicts(document)["one-leader-per-epoch"] == "valid"


@pytest.mark.long
def test_a_superseded_leader_answers_gets(tmp_path: Path) -> None:
    document = outcome(
        tmp_path, "--workload", "register", "--reads", "leader", "--require", "fresh-from-leader",
        "--nemesis", "partition:leader:for=11s", "--time-limit", "75s",
    )  # fmt: skip
    assert verdicts(document)["fresh-from-leader"] == "invalid", document["headline"]


@pytest.mark.long
def test_no_acknowledged_element_of_a_set_is_lost(tmp_path: Path) -> None:
    document = outcome(tmp_path, "--workload", "set", "--nemesis", "kill,partition:leader", "--time-limit", "30s")
    assert verdicts(document)["no-lost-acknowledged-writes"] == "valid", document["headline"]


@pytest.mark.long
def test_listeners_hear_every_change_while_servers_are_killed(tmp_path: Path) -> None:
    document = outcome(tmp_path, "--workload", "watch", "--nemesis", "kill:one:for=2s", "--time-limit", "16s")
    judged = verdicts(document)
    for name in ("watch-reliable", "watch-ordered", "watch-resumable", "watch-truthful", "groups-keep-their-size"):
        assert judged[name] == "valid", document["headline"]


@pytest.mark.long
def test_replicas_of_a_stream_come_go_and_move(tmp_path: Path) -> None:
    arguments = ("--nodes", "5", "--workload", "register", "--nemesis", "reassign:more,reassign:leader")
    judged = verdicts(outcome(tmp_path, *arguments, "--time-limit", "30s"))
    assert judged["linearizable"] == judged["one-leader-per-epoch"] == judged["groups-keep-their-size"] == "valid"


@pytest.mark.long
def test_a_stream_of_five_replicas_changes_its_leader_on_request(tmp_path: Path) -> None:
    arguments = ("--nodes", "5", "-O", "replicas=5", "--workload", "register", "--nemesis", "churn")
    judged = verdicts(outcome(tmp_path, *arguments, "--time-limit", "16s"))
    assert judged["linearizable"] == judged["one-leader-per-epoch"] == "valid"
