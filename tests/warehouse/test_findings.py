"""The steps of findings, against plain Python over drawn runs."""

import random
from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost.warehouse.findings import examples, sightings
from tests.warehouse.test_nightly import _frames

pytestmark = pytest.mark.spark

Row = dict[str, Any]


_SEARCH = "/runs/shrink-etcd-register/20261101T000000.000Z"


def _drawn(seed: int) -> dict[str, list[Row]]:
    """Runs of two systems over three nights, some of which show one or two anomalies."""
    draw = random.Random(seed)
    tables: dict[str, list[Row]] = defaultdict(list, cells=[])
    for number in range(60):
        run_id, system = f"{number:03}", draw.choice(("etcd", "zookeeper"))
        night = f"2026-11-0{draw.randint(1, 3)}"
        tables["run"].append(
            {
                "run_id": run_id,
                "folder": f"{_SEARCH if number >= 50 else '/runs'}/{run_id}",
                "started_at": f"{night}T00:{number:02}:00Z",
                "system": system,
                "version": draw.choice(("1.0", "2.0")),
                "workload": "register",
                "nemesis": draw.choice(("kill", "pause")),
                "operations": draw.randint(1, 5),
                "planned_ns": draw.randint(1, 5),
            }
        )
        variant, expected = draw.choice(("", "", "defect=x")), draw.choice((None, "", "", "invalid"))
        place = {"variant": variant or None, "expected": expected}
        tables["placed"].append({"run_id": run_id, "night": night, "day": night, **place})
        for anomaly in draw.sample(("stale-read", "lost-update"), draw.choice((0, 0, 1, 2))):
            fingerprint = f"{system}:linearizable:{anomaly}:read"
            what = {"guarantee": "linearizable", "anomaly": anomaly, "fingerprint": fingerprint}
            tables["anomalies"].append({"run_id": run_id, **what, "count": draw.randint(1, 9), "decides": True})
        for fault_id in range(draw.randint(0, 2)):
            outcome = draw.choice(("installed", "skipped"))
            fault = draw.choice(("kill", "pause"))
            tables["faults"].append({"run_id": run_id, "fault_id": fault_id, "fault": fault, "outcome": outcome})
    return tables


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.slow)])
def drawn(request: pytest.FixtureRequest) -> dict[str, list[Row]]:
    return _drawn(request.param)


def _ordinary(drawn: dict[str, list[Row]]) -> dict[str, Row]:
    """Runs by id, with their variant, without searches and those that were made to fail."""
    placed = {row["run_id"]: row for row in drawn["placed"]}
    return {
        row["run_id"]: {**row, "variant": placed[row["run_id"]]["variant"] or ""}
        for row in drawn["run"]
        if not row["folder"].startswith(_SEARCH) and not placed[row["run_id"]]["expected"]
    }


def test_sightings_are_those_of_plain_python(spark: SparkSession, drawn: dict[str, list[Row]]) -> None:
    nights = {row["run_id"]: row["night"] for row in drawn["placed"]}
    runs = _ordinary(drawn)
    places = defaultdict(set)
    showing = defaultdict(set)
    for row in drawn["anomalies"]:
        if row["run_id"] not in runs:
            continue
        run = runs[row["run_id"]]
        places[row["fingerprint"]].add((run["system"], run["variant"], run["workload"], run["nemesis"]))
        showing[row["fingerprint"]].add(row["run_id"])
    expected: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for fingerprint, where in places.items():
        for run in runs.values():
            if (run["system"], run["variant"], run["workload"], run["nemesis"]) in where:
                counts = expected[fingerprint, nights[run["run_id"]], run["version"], run["variant"]]
                counts[0] += run["run_id"] in showing[fingerprint]
                counts[1] += 1
    rows = sightings(_frames(spark, drawn)).collect()
    found = {(r["fingerprint"], r["night"], r["version"], r["variant"]): [r["seen"], r["runs"]] for r in rows}
    assert found == expected


def test_examples_are_those_of_plain_python(spark: SparkSession, drawn: dict[str, list[Row]]) -> None:
    runs = {row["run_id"]: row for row in drawn["run"]}
    rows = {row["fingerprint"]: row for row in examples(_frames(spark, drawn)).collect()}
    for fingerprint in {row["fingerprint"] for row in drawn["anomalies"]}:
        all_ = [runs[row["run_id"]] for row in drawn["anomalies"] if row["fingerprint"] == fingerprint]
        own = [run for run in all_ if run["run_id"] in _ordinary(drawn)]
        row = rows.pop(fingerprint)
        assert row["runs"] == len(own)
        assert row["oldest"] == min(own, key=lambda r: r["started_at"])["folder"]
        assert row["newest"] == max(own, key=lambda r: r["started_at"])["folder"]
        assert row["clearest"] == min(own, key=lambda r: (r["operations"], r["started_at"]))["folder"]
        assert row["fastest"] == min(own, key=lambda r: (r["planned_ns"], r["started_at"]))["folder"]
        held = {
            fault["fault"]
            for fault in drawn["faults"]
            if fault["outcome"] == "installed" and fault["run_id"] in {run["run_id"] for run in all_}
        }
        searched = any(run["folder"].startswith(_SEARCH) for run in all_)
        assert row["searches"] == ([_SEARCH] if searched else None)
        assert row["faults"] == (sorted(held) or None)
    assert not rows
