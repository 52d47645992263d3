"""The tables that are kept of a run: all of them, with its id in each row, and what the page makes of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.judging import judge as judging
from fencepost.harness.judging import run_facts
from fencepost.harness.judging.judge import judge, resolved_of
from fencepost.harness.judging.judgement import conclude as conclude_verdicts
from fencepost.harness.judging.run_facts import facts_of_run, run_id_of, stored_tables
from fencepost.harness.plan import read_plan
from fencepost.harness.plan.checked_plan import resolve_plan
from fencepost.harness.plugins import registry
from fencepost.harness.report import documents, page
from fencepost.harness.report.overview import lanes
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.results.reader import read_history
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run import conclude
from fencepost.harness.run.conclude import ChildEnd, conclude_run, judge_stored
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.fact_tables import VERSION_KEY
from tools.facts_page import PAGE, render

FOUND = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stored run whose `run.json` knows its id."""
    copy = tmp_path / "zookeeper-register-pause" / "20261123T000000.000Z"
    shutil.copytree(FOUND, copy)
    store.write_json(copy / store.RUN, {"format": 1, "run_id": "ab" * 16, "system_version": "3.9.5", "seed": 5})
    return copy


def test_every_table_is_kept_with_the_runs_id(folder: Path) -> None:
    result = judge_stored(folder, progress=lambda _: None)
    assert result.warnings == ()
    assert {path.stem for path in (folder / FACTS).iterdir()} == set(stored_tables())
    for name, table in stored_tables().items():
        kept = read_table(folder / FACTS / f"{name}.parquet")
        assert kept.schema.equals(table.stored_schema), name
        assert pq.read_schema(folder / FACTS / f"{name}.parquet").metadata[VERSION_KEY] == str(table.version).encode()
        assert set(kept["run_id"].to_pylist()) <= {"ab" * 16}
    (run,) = read_table(folder / FACTS / "run.parquet").to_pylist()
    history = read_history(folder)
    assert (run["system"], run["version"], run["workload"]) == ("zookeeper", "3.9.5", "register")
    assert (run["outcome"], run["exit_class"], run["faults"]) == ("invalid", 1, ["pause:leader"])
    assert (run["events"], run["length_ns"]) == (len(history.events), history.end_ns)
    anomaly, *_ = [a for a in read_table(folder / FACTS / "anomalies.parquet").to_pylist() if a["decides"]]
    assert anomaly["fingerprint"] == result.document["fingerprint"]
    verdicts = read_table(folder / FACTS / "verdicts.parquet").to_pylist()
    assert [v["guarantee"] for v in verdicts] == [v.guarantee for v in result.judgement.verdicts]


def test_the_tables_say_of_a_contradiction_what_the_exit_code_and_verdict_json_say(folder: Path) -> None:
    history, judgement = judge(folder)
    accused, kept = (
        Verdict(checker=checker, guarantee="fresh-after-sync", validity=validity, reason="so it ended", complete=True)
        for checker, validity in (("one", Validity.INVALID), ("another", Validity.VALID))
    )
    judgement = conclude_verdicts(history, judgement.facts, (accused, kept))
    resolved = resolve_plan(read_plan(folder / store.PLAN, seed=0))
    tables = facts_of_run(resolved, folder, store.read_json(folder / store.RUN), history, judgement, {})
    (run,), (guarantee,) = tables["run"].to_pylist(), tables["guarantees"].to_pylist()
    assert judgement.exit_code is ExitCode.INTERNAL
    assert (run["outcome"], run["exit_class"], guarantee["validity"]) == ("unknown", 255, "unknown")


def test_the_page_shows_the_episode_and_the_service(folder: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    page = (folder / store.REPORT).read_text()
    for part in ("Superseded leaders that went on", "Two leaders at once, certainly", "By phase", "new leader after"):
        assert part in page
    assert "stale-answer-by-superseded-leader" in page


def test_run_json_says_when_the_phases_were(folder: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    phases = store.read_json(folder / store.RUN)["phases"]
    assert phases == {
        phase.value: {"from_ns": start, "to_ns": end} for phase, (start, end) in read_history(folder).phases.items()
    }
    assert store.read_json(folder / store.RUN)["run_id"] == "ab" * 16


def test_the_facts_come_first_and_verdict_and_lanes_are_made_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    derive, judge_history, document = registry.derive(), judging.judge_history, documents.verdict_document
    write = documents.write_verdict

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            order.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(registry, "derive", lambda: noted("facts", derive))
    monkeypatch.setattr(conclude, "judge_history", noted("verdict", judge_history))
    monkeypatch.setattr(documents, "verdict_document", noted("document", document))
    monkeypatch.setattr(documents, "write_verdict", noted("verdict.json", write))
    monkeypatch.setattr(page, "lanes", noted("lanes", lanes))
    result = judge_stored(folder, progress=lambda _: None)
    assert order == ["facts", "verdict", "document", "verdict.json", "lanes"]
    assert json.loads(json.dumps(result.document)) == documents.read_verdict(folder / store.VERDICT)


def test_facts_that_cannot_be_derived_cost_neither_verdict_nor_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(run_facts, "facts_of_run", fail)
    result = conclude_run(
        resolved_of(folder),
        RunRecord.read(folder),
        ChildEnd(finished=True, recorded=True),
        progress=lambda _: None,
        stop=StopRequest(),
    )
    assert result.judgement.validity == "invalid"
    assert any("the facts could not be derived: ZeroDivisionError: planted" in w for w in result.warnings)
    assert "The facts of this run could not be derived" in (folder / store.REPORT).read_text()


def test_a_run_from_before_there_were_ids_keeps_one(folder: Path) -> None:
    run = {"seed": 5, "started_at": "2026-11-20T00:00:00Z"}
    assert run_id_of(folder, run) == run_id_of(folder, dict(run))
    assert run_id_of(folder, run) != run_id_of(folder, {**run, "seed": 6})
    assert len(run_id_of(folder, run)) == 32


def test_the_reference_page_is_that_of_the_schemas() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python tools/facts_page.py"
