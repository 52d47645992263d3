"""The index of many runs: links that work from where it stands, values that stay text, and cuts that are said."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.report import index
from fencepost.harness.report.index import index_page

HOSTILE = "</td><script>alert(1)</script>"


def run(folder: Path, **fields: Any) -> dict[str, Any]:
    known = {"run_id": "ab" * 16, "started_at": "2026-11-23T00:00:00Z", "system": "zookeeper", "version": "3.9.5"}
    known |= {"workload": "register", "nemesis": "pause:leader", "headline": "eight stale reads"}
    return {**known, "folder": str(folder), "operations": 12_345, "outcome": "invalid", **fields}


def episode(folder: Path, **fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"run_id": "ab" * 16, "folder": str(folder), "system": "zookeeper", "version": "3.9.5"}
    known |= {
        "node": "n2",
        "subject": "leader",
        "anomalies": ["stale-answer-by-superseded-leader"],
        "evidence": [3857, 5738],
    }
    counts = dict.fromkeys(("claims", "asked", "served", "fenced", "unknown", "acted"), 8)
    times = {"epoch": 2, "superseded_by": 3, "superseded_ns": 14_972_000_000, "running_ns": 460_000_000}
    return {**known, **counts, **times, **fields}


def test_it_links_to_each_run_from_where_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "zookeeper-register" / "20261123"
    page = index_page([run(folder)], [episode(folder)], {}, tmp_path / "results")
    assert '<a href="zookeeper-register/20261123/report.html">' in page
    assert '<a href="zookeeper-register/20261123/report.html#leadership">abababab</a>' in page
    for part in ("eight stale reads", "stale-answer-by-superseded-leader", "3857, 5738", "14.972 s", "460 ms"):
        assert part in page


def test_what_spans_runs_stands_below(tmp_path: Path) -> None:
    rates = [{"system": "zookeeper", "version": "3.9.5", "runs": 7, "of": 9, "rate": 7 / 9}]
    page = index_page([], [], {"anomaly_rates": rates, "recovery_by_fault": []}, tmp_path)
    assert "None was seen." in page
    assert "anomaly rates" in page
    assert "0.7778" in page


def test_values_stay_text(tmp_path: Path) -> None:
    page = index_page(
        [run(tmp_path, headline=HOSTILE)], [episode(tmp_path, node=HOSTILE)], {"t": [{"a": HOSTILE}]}, tmp_path
    )
    assert "<script" not in page


def test_more_rows_than_it_shows_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "ROWS_MAX", 2)
    page = index_page([run(tmp_path) for _ in range(3)], [], {}, tmp_path)
    assert page.count("eight stale reads") == 2
    assert "The first 2 rows of each table are shown." in page
