"""Policies: what a file becomes, and each wrong one with file, line, key and remedy, before anything is written."""

from pathlib import Path

import pytest

from fencepost.campaigns.gate.planned import Candidate, build_keys, plan_gate
from fencepost.campaigns.night.pool import seed_of
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from tests.docs.pages import DOCS

CANARY = """
[[cell]]
canary = true
anomaly = "stale-read"
system_options = { defect = "stale-reads" }
"""
PLAN = """name = "p"
[plan]
system = "example"
workload = "register"
nemesis = "partition:leader"
time_limit = "8s"
"""
CELL = """
[[cell]]
name = "cut"
"""
BUDGET = '[[budget]]\ncell = "cut"\nmeasure = "recovery"\nfactor = 2\n'
EXCEPTION = '[[exception]]\nlink = "https://x"\nowner = "me"\nexpires = 2027-01-01\n'


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return path


def test_the_documented_policy_makes_a_gate() -> None:
    gate = plan_gate(DOCS / "how-to" / "policy.toml", Candidate(name="1.0.0", baseline="1.0.0"))
    cells = {cell.name: cell for cell in gate.checked.cells}
    assert list(cells) == ["leader cut off", "leader paused", "canary: stale reads", "leader cut off (baseline)"]
    cut, baseline = cells["leader cut off"], cells["leader cut off (baseline)"]
    assert gate.policy.runs == {cut.id: 2, cells["leader paused"].id: 1}
    assert baseline.seeds_of == cut.id and baseline.plan == cut.plan and baseline.id != cut.id
    assert [budget.cell for budget in gate.policy.budgets] == [cut.id]
    assert set(gate.checked.plans) == {cell.id for cell in gate.checked.cells}


def test_candidate_options_reach_the_candidate_alone(tmp_path: Path) -> None:
    path = write(tmp_path, PLAN + CELL + CANARY + BUDGET)
    gate = plan_gate(path, Candidate(name="1.0.0", baseline="1.0.0", options={"defect": "stale-reads"}))
    options = {cell.name: cell.plan.system_options for cell in gate.checked.cells}
    assert options["cut"] == {"defect": "stale-reads"} and options["cut (baseline)"] == {}


def test_a_pair_has_one_seed() -> None:
    gate = plan_gate(DOCS / "how-to" / "policy.toml", Candidate(name="1.0.0", baseline="1.0.0"))
    (side,) = (cell for cell in gate.checked.cells if cell.seeds_of)
    (other,) = (cell for cell in gate.checked.cells if cell.id == gate.policy.budgets[0].cell)
    assert seed_of(7, side, 2) == seed_of(7, other, 2)


def test_a_name_is_a_release_a_path_or_an_image(tmp_path: Path) -> None:
    assert build_keys("3.5.1", "lab") == {"version": "3.5.1"}
    assert build_keys("3.5.1", "containers") == {"version": "3.5.1"}
    assert build_keys("registry/etcd:nightly", "containers") == {"image": "registry/etcd:nightly"}
    (tmp_path / "etcd").touch()
    assert build_keys(str(tmp_path / "etcd"), "lab") == {"version": str(tmp_path / "etcd")}


WRONG = [
    ("name = 'p'", "requires no cell"),
    (PLAN + CANARY, "requires no cell"),
    (PLAN + CELL, "it has no canary"),
    (PLAN + "sytem = 1\n" + CELL + CANARY, "line 7: plan, sytem: unknown key"),
    (PLAN + CELL + 'nemesis = "quake"\n' + CANARY, "line 8: cell 1: unknown fault 'quake'"),
    (PLAN + CELL + 'workload = "txn"\n' + CANARY, "line 8: cell 1"),
    (PLAN + CELL + 'version = "1"\n' + CANARY, "line 10: cell 1, version: the candidate decides it"),
    (PLAN + CELL + "required = true\n" + CANARY, "line 10: cell 1, required"),
    (PLAN + CELL + CANARY + '[[cell]]\nsystem = "etcd"\n', "one candidate, and so one system"),
    (PLAN + CELL + CANARY + '[[guarantee]]\nname = "linear"\ntested = 1\n', "unknown guarantee of example 'linear'"),
    (PLAN + CELL + CANARY + '[[guarantee]]\nname = "linearizable"\n', "'tested' is missing"),
    (PLAN + CELL + CANARY + '[[guarantee]]\nname = "linearizable"\ntested = 0\n', "tested: expected 1 or more, got 0"),
    (PLAN + CELL + CANARY + '[[guarantee]]\nname = "linearizable"\ntested = 1\nruns = 21\n', "runs_max = 20 allows 20"),
    (PLAN + CELL + CANARY + BUDGET + "pairs = 4\n", "line 19: budget 1, pairs: 4 pairs can decide nothing"),
    (PLAN + CELL + CANARY + BUDGET + "factr = 4\n", "unknown key"),
    (PLAN + CELL + CANARY + BUDGET.replace("= 2", "= 0.5"), "factor: expected 1 or more, got 0.5"),
    (PLAN + CELL + CANARY + BUDGET.replace("cut", "cat"), "no required cell has the name 'cat'"),
    (PLAN + CELL + CANARY + BUDGET.replace("recovery", "speed"), "measure"),
    (PLAN + CELL + CANARY + BUDGET + BUDGET, "have a budget before"),
    (PLAN + CELL + CANARY + EXCEPTION, "an exception is about a fingerprint or about a cell"),
    (PLAN + CELL + CANARY + EXCEPTION + 'cell = "cat"\n', "no required cell has the name 'cat'"),
    (PLAN + CELL + CANARY + EXCEPTION + 'fingerprint = "x"\n', "'x' is no fingerprint"),
    (PLAN + CELL + CANARY + EXCEPTION + 'fingerprint = "etcd:a:b:c"\n', "it is about etcd"),
    (PLAN + CELL + CANARY + EXCEPTION.replace('"me"', '""') + 'cell = "cut"\n', "owner: it is empty"),
    (PLAN + CELL + CANARY + EXCEPTION.replace("expires = 2027-01-01\n", "") + 'cell = "cut"\n', "'expires' is missing"),
    ("format = 2\n" + PLAN + CELL + CANARY, "reads format 1, not 2"),
    ("runs_max = 1\n" + PLAN + CELL + "runs = 2\n" + CANARY, "runs: 2 is more than runs_max = 1"),
    (PLAN.replace('"p"', '"a/b"') + CELL + CANARY, "cannot name a folder"),
    (PLAN + CELL + CELL + CANARY, "its plan is that of the cell"),
    ("name = ", "policy.toml"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_policy_is_refused_and_nothing_is_written(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, results = write(tmp_path, text), tmp_path / "results"
    words = ["gate", str(path), "--candidate", "1.0.0", "--results", str(results)]
    assert main([*words, *(["--baseline", "1.0.0"] if "[[budget]]" in text else [])]) == 254
    assert message in capsys.readouterr().err
    assert not results.exists()


def test_budgets_and_a_baseline_belong_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 15: budget 1: a budget compares with a baseline"):
        plan_gate(write(tmp_path, PLAN + CELL + CANARY + BUDGET), Candidate(name="1.0.0"))
    with pytest.raises(UsageError, match="the policy has no budget"):
        plan_gate(write(tmp_path, PLAN + CELL + CANARY), Candidate(name="1.0.0", baseline="1.0.0"))
