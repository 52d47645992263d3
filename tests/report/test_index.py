"""The index of many runs: links that work from where it stands, values that stay text, and cuts that are said."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.warehouse import index
from fencepost.warehouse.index import index_page

HOSTILE = "</td><script>alert(1)</script>"


#: The widest tables over runs.
_WIDE = {
    "zombie_episodes_by_version": "system version variant expected runs runs_with_episodes runs_in_which_one_acted "
    "episodes claims asked reached served fenced unknown acted running_ns_max",
    "anomaly_rates": "system version variant expected guarantee anomaly fingerprint runs count decides of rate",
    "recovery_by_fault": "system version variant expected fault faults new_leaders new_leader_after_ns_p50 "
    "new_leader_after_ns_p99 recovered_after_ns_p50 recovered_after_ns_max longest_without_ok_ns availability",
}


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


def crowded_index(place: Path) -> str:
    """An index whose every column is full: long names of faults, releases and anomalies, and large figures."""
    words = ("system", "version", "variant", "expected", "fault", "guarantee", "anomaly", "fingerprint")
    across = {
        name: [{column: "a-long-name:of=many-parts" if column in words else 10**10 for column in columns.split()}]
        for name, columns in _WIDE.items()
    }
    long = run(
        place,
        nemesis="partition:leader:direction=out,pause:leader+clock-skew:one:offset=2s",
        workload="group-membership",
    )
    return page_of([long], [episode(place, evidence=list(range(10_000, 10_020)))], across, place)


def page_of(
    runs: list[dict[str, Any]], episodes: list[dict[str, Any]], across: dict[str, list[dict[str, Any]]], place: Path
) -> str:
    return index_page(runs, episodes, across, place, outcomes={"invalid": len(runs)}, episode_count=len(episodes))


def test_it_links_to_each_run_from_where_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "zookeeper-register" / "20261123"
    page = page_of([run(folder)], [episode(folder)], {}, tmp_path / "results")
    assert '<a href="zookeeper-register/20261123/report.html">2026-11-23 00:00:00Z</a>' in page
    assert '<a href="zookeeper-register/20261123/report.html#leadership">abababab</a>' in page
    for part in ("eight stale reads", "stale-answer-by-superseded-leader", "3857, 5738", "14.972 s", "460 ms"):
        assert part in page


def test_what_spans_runs_stands_below_and_what_is_violated_first(tmp_path: Path) -> None:
    plain = {"system": "zookeeper", "version": "3.9.5"}
    rates = [{**plain, "runs": 7, "of": 9, "rate": 7 / 9, "first_at": "2026-11-23T00:00:00Z"}]
    outcomes = [{**plain, "variant": v, "guarantee": v, "invalid": n} for v, n in (("a", 0), ("x=1", 2), ("b", 0))]
    page = page_of([], [], {"anomaly_rates": rates, "t": outcomes, "recovery_by_fault": []}, tmp_path)
    assert "None was seen." in page and "recovery" not in page
    assert "anomaly rates: 1 row<" in page and "t: 3 rows<" in page
    assert "0.7778" in page
    assert (
        page.index(">zookeeper 3.9.5, x=1<") < page.index(">zookeeper 3.9.5, a<") < page.index(">zookeeper 3.9.5, b<")
    )


def test_values_stay_text(tmp_path: Path) -> None:
    row = {"system": HOSTILE, "version": "1", "a": HOSTILE}
    hostile = run(tmp_path / HOSTILE, headline=HOSTILE, started_at=HOSTILE)
    assert "<script" not in page_of([hostile], [episode(tmp_path, node=HOSTILE)], {HOSTILE: [row]}, tmp_path)


def test_more_rows_than_it_shows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "ROWS_MAX", 2)
    runs, outcomes = [run(tmp_path) for _ in range(3)], {"invalid": 1_203, "valid": 7}
    page = index_page(runs, [episode(tmp_path)] * 3, {}, tmp_path, outcomes=outcomes, episode_count=4)
    assert page.count("eight stale reads") == 2
    assert "<h1>1\u202f210 runs: " in page and "1\u202f203 invalid" in page
    assert "2 of 1\u202f210 rows shown." in page and "2 of 4 rows shown." in page
