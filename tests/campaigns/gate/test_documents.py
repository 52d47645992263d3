"""The page, gate.json and JUnit say what the decision says, and open in a browser."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow
import pyarrow.parquet
import pytest

from fencepost.campaigns.gate.documents import files_of
from fencepost.campaigns.gate.evidence import GateEvidence, MeasureFiles
from fencepost.campaigns.gate.policy import BudgetMeasure
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.documents import write_each
from fencepost.campaigns.night.night import NightState, RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from tests.campaigns.gate.made import (
    YESTERDAY,
    baseline_cell,
    budget,
    clean,
    evidence,
    exception,
    linearizable,
    policy,
    violation,
)
from tests.campaigns.night.made import OTHER, attempt, cell
from tests.campaigns.night.test_page_in_browser import assert_readable
from tests.report.test_browser import browser, opened  # noqa: F401  # a fixture


def facts(folder: Path, made: RunAttempt, recovered_ns: list[int | None], gap_ns: int) -> None:
    """Write the two tables that a run's measures come from."""
    home = folder / made.folder / "plan" / "time" / "facts"
    home.mkdir(parents=True)
    rows: list[dict[str, Any]] = [{"node": None, "recovered_after_ns": ns} for ns in recovered_ns]
    rows.append({"node": "n1", "recovered_after_ns": 99_000_000_000})
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), home / "recovery.parquet")
    phases = [{"phase": "settle", "longest_without_ok_ns": 7}, {"phase": "main", "longest_without_ok_ns": gap_ns}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(phases), home / "phases.parquet")


def mixed(folder: Path) -> GateEvidence:
    """One requirement of each status and kind."""
    attempts = [violation("<bad>", reason="it is <stale>"), attempt("lost", RunClass.LOST, reason="never reported")]
    cells: list[NightCell] = [cell(name, required=True) for name in ("c0", "<bad>", "lost")]
    for run in range(1, 6):
        attempts += [clean(run=run, report=f"runs/c0-{run}/report.html"), clean("c0-baseline", run=run)]
        facts(folder, attempts[-2], [200_000_000], 5)
        facts(folder, attempts[-1], [1_000_000, 100_000_000], 5)
    made = policy(
        runs={"c0": 1, "<bad>": 1, "lost": 1},
        guarantees=(linearizable(200), linearizable(201)),
        budgets=(budget(factor=3.0),),
        exceptions=(
            exception(fingerprint=OTHER, expires=YESTERDAY),
            exception(cell="lost", link="javascript:alert(1)"),
        ),
    )
    return evidence(attempts, made, cells=[*cells, baseline_cell()])


def written(folder: Path, made: GateEvidence) -> Path:
    warnings: list[str] = []
    write_each(files_of(MeasureFiles(folder).evidence(made.policy, made.night), folder), folder, warnings.append)
    assert warnings == []
    return folder


def test_all_three_tell_the_same_decision(tmp_path: Path) -> None:
    written(tmp_path, mixed(tmp_path))
    data = json.loads((tmp_path / "gate.json").read_text())
    assert (data["format"], data["exit_code"], data["green"], data["stopped_early"]) == (1, 1, False, True)
    by_status = {r["name"]: r["status"] for r in data["requirements"]}
    assert by_status["<bad>"] == "failed" and by_status["lost"] == "excepted" and by_status["c0"] == "met"
    (compared,) = (r["comparison"] for r in data["requirements"] if r["comparison"])
    assert compared["ratio_median"] == 2.0 and compared["pairs"] == [[200_000_000, 100_000_000]] * 5
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert len(suite.findall("testcase")) == len(data["requirements"])
    assert len(suite.findall("testcase/failure")) == sum(r["status"] == "failed" for r in data["requirements"])
    assert len(suite.findall("testcase/error")) == sum(r["status"] == "missing" for r in data["requirements"])
    text = (tmp_path / "gate.html").read_text()
    assert "<h1>Red: the candidate failed</h1>" in text and "<bad>" not in text and "<script" not in text
    assert 'href="runs/c0-1/report.html"' in text and 'href="javascript' not in text
    assert "stopped early" in text and "expired on 2026-11-22" in text and "2.00" in text


def test_a_running_gate_is_not_green_and_its_page_asks_for_itself_again(tmp_path: Path) -> None:
    written(tmp_path, evidence([clean()], state=NightState.RUNNING))
    data = json.loads((tmp_path / "gate.json").read_text())
    assert (data["exit_code"], data["green"], data["state"]) == (0, False, "running")
    text = (tmp_path / "gate.html").read_text()
    assert '<meta http-equiv="refresh" content="10">' in text and "<h1>Running</h1>" in text


def test_a_fault_after_which_nothing_recovered_has_no_recovery_time(tmp_path: Path) -> None:
    made = evidence([clean()], policy(budgets=(budget(),)))
    (own,) = (o for o in made.night.cells if o.cell.id == "c0")
    facts(tmp_path, own.attempts[0], [5, None], 6)
    measures = MeasureFiles(tmp_path).evidence(made.policy, made.night).measures
    assert measures[own.attempts[0].folder] == {BudgetMeasure.UNAVAILABILITY: 6}


def test_a_torn_table_is_no_measure(tmp_path: Path) -> None:
    made = evidence([clean()], policy(budgets=(budget(),)))
    (own,) = (o for o in made.night.cells if o.cell.id == "c0")
    facts(tmp_path, own.attempts[0], [5], 6)
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:20])
    assert MeasureFiles(tmp_path).evidence(made.policy, made.night).measures[own.attempts[0].folder] == {}


@pytest.mark.browser
@pytest.mark.parametrize("size", ["1280,900", "500,900"])
def test_everything_on_the_page_can_be_read(browser: str, tmp_path: Path, size: str) -> None:  # noqa: F811
    assert_readable(browser, written(tmp_path, mixed(tmp_path)) / "gate.html", size)
