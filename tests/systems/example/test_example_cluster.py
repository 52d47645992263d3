"""The example in the lab: right without a defect, and each defect is found by the guarantee that it breaks."""

import json
from pathlib import Path

import pytest

from tests.lab_scenario import require_lab
from tests.run_command import only_folder, run_undisturbed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400), pytest.mark.long]

_FAULTS = "partition:leader,kill"


def outcome(
    tmp_path: Path, nemesis: str, defect: str, workload: str = "register", time_limit: str = "20s"
) -> dict[str, object]:
    require_lab()
    _, results = run_undisturbed(
        tmp_path, "--system", "example", "--workload", workload, "--nemesis", nemesis, "--time-limit", time_limit,
        "--quiet", "1s", "-O", f"defect={defect}", "--seed", "5",
    )  # fmt: skip
    document: dict[str, object] = json.loads((only_folder(results) / "verdict.json").read_text())
    return document


def test_without_a_defect_it_is_valid(tmp_path: Path) -> None:
    assert outcome(tmp_path, _FAULTS, "none")["validity"] == "valid"


@pytest.mark.parametrize(
    ("defect", "nemesis", "workload", "time_limit", "broken"),
    [
        ("stale-reads", "partition:leader", "register", "8s", "linearizable"),
        ("stale-reads", "partition:leader", "register", "20s", "linearizable"),
        ("early-ack", "partition:leader", "register", "8s", "linearizable"),
        ("keeps-leading", "partition:leader:for=9s", "register", "20s", "leader-self-fencing"),
        ("skips", "kill", "register", "8s", "replicas-agree"),
        ("stuck", "kill:all", "register", "8s", "writes-resume"),
        ("stays-away", "kill", "register", "8s", "servers-return"),
        ("forgets", "kill:all", "set", "10s", "no-lost-acknowledged-writes"),
    ],
)
def test_every_defect_is_found(
    tmp_path: Path, defect: str, nemesis: str, workload: str, time_limit: str, broken: str
) -> None:
    document = outcome(tmp_path, nemesis, defect, workload, time_limit)
    assert document["validity"] == "invalid", document["headline"]
    guarantees = document["guarantees"]
    assert isinstance(guarantees, list)
    assert broken in [one["name"] for one in guarantees if one["validity"] == "invalid"]


@pytest.mark.parametrize(("more", "validity"), [((), "unknown"), (("[thresholds]", "away_share_max = 1.0"), "valid")])
def test_a_server_that_ends_by_itself_is_told_first(tmp_path: Path, more: tuple[str, ...], validity: str) -> None:
    require_lab()
    plan = tmp_path / "plan.toml"
    lines = ['system = "example"', 'workload = "set"', 'nemesis = "pause:n1"', 'time_limit = "15s"', "seed = 5"]
    plan.write_text("\n".join([*lines, 'quiet = "1s"', *more, "[system_options]", 'defect = "ends"']))
    run, results = run_undisturbed(tmp_path, str(plan))
    folder = only_folder(results)
    document = json.loads((folder / "verdict.json").read_text())
    assert document["validity"] == validity, document["headline"]
    told = "n3 ended by itself with exit status 10 at "
    assert told in document["headline"] and "no fault explains it" in document["headline"]
    assert told in run.stdout.partition("Guarantees:")[0].replace("\n", " ")
    assert told in (folder / "report.html").read_text()
    assert told in (folder / "junit.xml").read_text()
