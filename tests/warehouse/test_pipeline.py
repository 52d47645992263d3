"""The whole pipeline against its plain-Python twin on random histories, and the histories that have nothing to say."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from fencepost.harness.history import BeliefEvent, Claim, Event, History, NoteEvent
from fencepost.harness.warehouse import pipeline
from fencepost.harness.warehouse.results import Analysis
from tests.warehouse import twin
from tests.warehouse.histories import random_history, store

pytestmark = pytest.mark.spark

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_equals_the_plain_twin(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    events = random_history(seed)
    found = pipeline.analyse(spark, store(events, tmp_path / "history.parquet"))
    expected = twin.analyse(History(events))
    for field in Analysis.__struct_fields__:
        assert getattr(found, field) == getattr(expected, field), field


def test_the_random_histories_reach_every_part() -> None:
    """Else equality would say little."""
    analyses = [twin.analyse(History(random_history(seed))) for seed in SEEDS]
    for field in ("stale_reads", "overlaps", "superseded", "faults", "phases"):
        assert sum(bool(getattr(analysis, field)) for analysis in analyses) >= 3, field
    assert {of for analysis in analyses for of in analysis.regressions} == {"value", "session"}
    assert any(not reign.exact for analysis in analyses for reign in analysis.reigns)
    assert any(fault.new_epoch for analysis in analyses for fault in analysis.faults)
    assert any(fault.ended_ns is None for analysis in analyses for fault in analysis.faults)
    rows = [row for analysis in analyses for row in analysis.superseded]
    assert any(row.refused for row in rows)
    assert any(row.unknown for row in rows)


def test_compiled_plans_say_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = random_history(99, operations=600, keys=9)
    monkeypatch.setattr(pipeline, "SMALL_EVENTS", 0)
    assert pipeline.analyse(spark, store(events, tmp_path / "history.parquet")) == twin.analyse(History(events))


@pytest.mark.parametrize("events", [[], [NoteEvent(index=0, time_ns=5, topic="stopped", text="early")]])
def test_a_history_without_operations(spark: SparkSession, tmp_path: Path, events: list[Event]) -> None:
    found = pipeline.analyse(spark, store(events, tmp_path / "history.parquet"))
    assert found == twin.analyse(History(events))
    assert (found.functions, found.reigns, found.faults, found.stale_reads) == ((), (), (), 0)


def test_results_are_plain_json(spark: SparkSession, tmp_path: Path) -> None:
    found = pipeline.analyse(spark, store(random_history(1), tmp_path / "history.parquet"))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Analysis) == found


def test_long_tables_are_cut_but_their_totals_are_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = random_history(3, operations=300, keys=10)
    whole = twin.analyse(History(events))
    assert len(whole.stale_reads_worst) > 6
    monkeypatch.setattr(pipeline, "ROWS_MAX", 6)
    found = pipeline.analyse(spark, store(events, tmp_path / "history.parquet"))
    assert found.stale_reads_worst == whole.stale_reads_worst[:6]
    assert (found.stale_reads, found.regressions) == (whole.stale_reads, whole.regressions)


def test_several_subjects_need_a_name(spark: SparkSession, tmp_path: Path) -> None:
    common: dict[str, Any] = {
        "node": "n1",
        "incarnation": 0,
        "claims": Claim.YES,
        "asked_ns": 0,
        "source": "poll",
        "epoch": 1,
    }
    events = [
        BeliefEvent(index=i, time_ns=i, answered_ns=i, subject=subject, **common)
        for i, subject in enumerate(("controller", "t-0"))
    ]
    uri = store(events, tmp_path / "history.parquet")
    with pytest.raises(ValueError, match=r"several subjects \(controller, t-0\)"):
        pipeline.analyse(spark, uri)
    assert [reign.subject for reign in pipeline.analyse(spark, uri, subject="t-0").reigns] == ["controller", "t-0"]
