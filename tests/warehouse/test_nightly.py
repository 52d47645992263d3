"""The steps of the pages over all nights, against plain Python over drawn nights."""

import random
from collections import defaultdict
from statistics import mean
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.warehouse.findings import sightings
from fencepost.warehouse.night_tables import STORED, schema_of
from fencepost.warehouse.nightly import HOLES, night_matrix, night_runs, night_trends

pytestmark = pytest.mark.spark

Row = dict[str, Any]
_TABLES = ("run", "placed", "nights", "cells", "attempts", "anomalies", "faults", "recovery", "phases", "overlaps")


def _drawn(seed: int) -> dict[str, list[Row]]:
    """Two campaigns and a day of single runs; cells that ran, canaries, and cells that left no run."""
    draw = random.Random(seed)
    tables: dict[str, list[Row]] = {name: [] for name in (*_TABLES, "exposures")}
    for number, night in enumerate(("n1", "n2")):
        began = f"2026-11-0{number + 1}T22:00:00Z"
        register = {"night": night, "shard": 1, "shards": 1, "started_at": began, "folder": f"/{night}"}
        tables["nights"].append({**register, "policy": "release" if night == "n2" else None})
        for cell in range(8):
            run_class = draw.choice(("valid", "invalid", "known", "unknown-coverage", "harness", "lost", "not-run"))
            canary = cell == 0
            plan = {"system": draw.choice(("etcd", "zookeeper")), "workload": "register", "nemesis": "kill"}
            row = {"night": night, "shard": 1, "cell": f"c{cell}", "version": "", **plan}
            tables["cells"].append({**row, "canary": canary, "control": cell in (1, 2), "run_class": run_class})
            if run_class in ("lost", "not-run"):
                continue
            of_one = {"night": night, "shard": 1, "cell": f"c{cell}", "run": 1, "seconds": 30.0, "check_s": 0.5}
            number = 1
            if draw.random() < 0.5:
                # It was made again: only a violation that it showed still counts.
                first, outcome = draw.choice((("lost", "unknown"), ("valid", "valid"), ("invalid", "invalid")))
                folder = f"runs/c{cell}-1"
                tables["attempts"].append({**of_one, "folder": folder, "number": number, "run_class": first})
                _add_run(draw, tables, night, plan, outcome, cell=f"c{cell}", attempt=folder)
                number = 2
            attempt = f"runs/c{cell}"
            tables["attempts"].append({**of_one, "folder": attempt, "number": number, "run_class": run_class})
            outcome = {"known": "invalid", "unknown-coverage": "unknown", "harness": "unknown"}.get(
                run_class, run_class
            )
            _add_run(draw, tables, night, plan, outcome, cell=f"c{cell}", attempt=attempt)
    for _ in range(4):
        plan = {"system": "etcd", "workload": draw.choice(("set", "register")), "nemesis": "pause"}
        _add_run(draw, tables, "2026-11-05", plan, draw.choice(("valid", "invalid", "unknown")))
    return tables


def _add_run(
    draw: random.Random, tables: dict[str, list[Row]], night: str, plan: Row, outcome: str, **home: Any
) -> None:
    number = len(tables["run"])
    run_id = f"{number:03}"
    tables["run"].append(
        {
            **plan,
            "run_id": run_id,
            "folder": f"/runs/{run_id}",
            "version": draw.choice(("1.0", "2.0")),
            "started_at": f"2026-11-05T00:{number:02}:00Z",
            "outcome": outcome,
            "length_ns": 20_000_000_000,
            "machine": '{"kernel": "6.1", "architecture": "x86_64", "cores": 2, "git_commit": "abc"}',
        }
    )
    place = {"variant": draw.choice((None, "", "defect=x")), "expected": draw.choice((None, "", "", "invalid"))}
    tables["placed"].append({"run_id": run_id, "night": night, "day": "2026-11-05", "core": "0.1", **place, **home})
    if outcome == "invalid":
        anomaly = {"guarantee": "g", "anomaly": "a", "count": 1, "decides": True}
        tables["anomalies"].append({"run_id": run_id, "fingerprint": "s:g:a:1", "fingerprints": ["s:g:a:2"], **anomaly})
    for guarantee in ("g", "h"):
        for checker in ("one", "two"):
            exposure = draw.choice((None, 0, 3, 7))
            tables["exposures"].append(
                {"run_id": run_id, "guarantee": guarantee, "checker": checker, "exposure": exposure}
            )
    gap_ns = draw.randint(1, 9) * 10**9
    phase = {"from_ns": 10**9, "to_ns": 11 * 10**9, "ok": draw.randint(100, 200), "longest_without_ok_ns": gap_ns}
    tables["phases"].append({"run_id": run_id, "phase": "main", **phase})
    tables["phases"].append({"run_id": run_id, "phase": "warm-up", **phase, "longest_without_ok_ns": 99 * 10**9})
    for _ in range(draw.randint(0, 2)):
        tables["overlaps"].append({"run_id": run_id, "running_ns": draw.randint(1, 5) * 10**9})
    for fault_id in range(draw.randint(0, 3)):
        outcome = draw.choice(("installed", "skipped"))
        tables["faults"].append({"run_id": run_id, "fault_id": fault_id, "fault": "kill", "outcome": outcome})
        for node in (None, "n1"):
            times = {"new_leader_after_ns": draw.choice((None, 2 * 10**9)), "recovered_after_ns": 10**9}
            tables["recovery"].append({"run_id": run_id, "fault_id": fault_id, "node": node, **times})


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.slow)])
def drawn(request: pytest.FixtureRequest) -> dict[str, list[Row]]:
    return _drawn(request.param)


def _frames(spark: SparkSession, tables: dict[str, list[Row]]) -> dict[str, DataFrame]:
    # Spark keeps a small table of Arrow's in the driver: a query of it has no task for each partition.
    return {
        name: spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema_of(STORED[name])))
        for name, rows in tables.items()
    }


def _runs(tables: dict[str, list[Row]]) -> list[Row]:
    """Every run with its place, its variant, and whether it was made to fail."""
    canaries = {(row["night"], row["cell"]) for row in tables["cells"] if row["canary"]}
    home = {row["run_id"]: row for row in tables["placed"]}
    runs = []
    for row in tables["run"]:
        own = home[row["run_id"]]
        made = bool(own["expected"]) or (own["night"], own.get("cell")) in canaries
        runs.append({**own, **row, "cell": own.get("cell"), "variant": own["variant"] or "", "made_to_fail": made})
    return runs


def test_nights_are_those_of_plain_python(spark: SparkSession, drawn: dict[str, list[Row]]) -> None:
    rows = {row["night"]: row for row in night_runs(_frames(spark, drawn)).collect()}
    assert set(rows) == {"n1", "n2", "2026-11-05"}
    for night, row in rows.items():
        runs = [run for run in _runs(drawn) if run["night"] == night]
        own = [run["outcome"] for run in runs if not run["made_to_fail"]]
        failing = [run["outcome"] for run in runs if run["made_to_fail"]]
        assert (row["expected"], row["missed"]) == (len(failing), len(failing) - failing.count("invalid"))
        assert [row["runs"], row["valid"], row["invalid"], row["unknown"]] == [
            len(own),
            *(own.count(outcome) for outcome in ("valid", "invalid", "unknown")),
        ]
    assert (rows["n1"]["day"], rows["n1"]["folder"], rows["2026-11-05"]["folder"]) == ("2026-11-01", "/n1", None)


def test_the_matrix_is_that_of_plain_python(spark: SparkSession, drawn: dict[str, list[Row]]) -> None:
    classes = {(row["night"], row["folder"]): row["run_class"] for row in drawn["attempts"]}
    last = {(row["night"], row["cell"]): row["folder"] for row in drawn["attempts"]}
    least: dict[str, int] = {}
    for run in drawn["run"]:
        most: dict[str, int] = defaultdict(int)
        for row in drawn["exposures"]:
            if row["run_id"] == run["run_id"]:
                most[row["guarantee"]] = max(most[row["guarantee"]], row["exposure"] or 0)
        least[run["run_id"]] = min((count for count in most.values() if count), default=0)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    versions: dict[str, tuple[str, str]] = {}
    for run in _runs(drawn):
        home = (run["night"], run["cell"])
        place = (run["system"], run["version"], run["variant"], run["workload"], run["nemesis"])
        run_class = classes.get((run["night"], run.get("attempt")), run["outcome"])
        if run["cell"]:
            versions[run["cell"]] = (run["version"], run["variant"])
            if run["attempt"] != last[home] and run_class != "invalid":
                continue
        counts = expected[run["night"], *place, run["made_to_fail"], run_class]
        counts[0] += 1
        counts[1] += least[run["run_id"]]
    ran = {(run["night"], run["cell"]) for run in _runs(drawn)}
    for cell in drawn["cells"]:
        home = (cell["night"], cell["cell"])
        if cell["run_class"] in HOLES and home not in ran:
            version = versions.get(cell["cell"], ("default release", ""))
            place = (cell["system"], *version, cell["workload"], cell["nemesis"])
            expected[cell["night"], *place, cell["canary"], cell["run_class"]] = [0, 0]
    keys = ("night", "system", "version", "variant", "workload", "nemesis", "canary", "run_class")
    rows = night_matrix(_frames(spark, drawn)).collect()
    assert {tuple(row[key] for key in keys): [row["runs"], row["exposure"]] for row in rows} == expected


def test_a_canary_of_two_shards_keeps_the_class_that_each_of_them_gave_it(spark: SparkSession) -> None:
    tables = _drawn(0)
    for name in ("run", "placed", "attempts", "cells"):
        tables[name] = []
    plan = {"system": "example", "workload": "register", "nemesis": "kill"}
    for shard, (run_class, outcome) in enumerate((("invalid", "invalid"), ("harness", "unknown")), 1):
        cell = {"night": "n1", "shard": shard, "cell": "c0"}
        tables["cells"].append({**cell, **plan, "version": "", "canary": True, "run_class": run_class})
        tables["attempts"].append({**cell, "run": 1, "number": 1, "folder": "runs/c0-1-1", "run_class": run_class})
        _add_run(random.Random(shard), tables, "n1", plan, outcome, cell="c0", attempt="runs/c0-1-1", shard=shard)
    rows = night_matrix(_frames(spark, tables)).collect()
    assert sorted((row["run_class"], row["runs"]) for row in rows) == [("harness", 1), ("invalid", 1)]


def test_trends_are_those_of_plain_python(spark: SparkSession, drawn: dict[str, list[Row]]) -> None:
    gates = {row["night"] for row in drawn["nights"] if row["policy"]}
    runs = [run for run in _runs(drawn) if not run["made_to_fail"] and run["night"] not in gates]
    keys = ("night", "system", "variant")
    rows = {tuple(row[key] for key in keys): row for row in night_trends(_frames(spark, drawn)).collect()}
    assert set(rows) == {tuple(run[key] for key in keys) for run in runs}
    installed = {(row["run_id"], row["fault_id"]) for row in drawn["faults"] if row["outcome"] == "installed"}
    for key, row in rows.items():
        night = key[0]
        own = {run["run_id"] for run in runs if tuple(run[name] for name in keys) == key}
        main = [phase for phase in drawn["phases"] if phase["phase"] == "main" and phase["run_id"] in own]
        tested = [
            sum(e["exposure"] or 0 for e in drawn["exposures"] if e["run_id"] == run)
            for run in own
            if any(e["exposure"] is not None for e in drawn["exposures"] if e["run_id"] == run)
        ]
        healed = [
            r
            for r in drawn["recovery"]
            if r["node"] is None and (r["run_id"], r["fault_id"]) in installed and r["run_id"] in own
        ]
        assert row["runs"] == len(own)
        assert row["throughput"] == pytest.approx(sum(p["ok"] for p in main) / (10 * len(main)))
        assert row["unavailable_s"] == pytest.approx(mean(p["longest_without_ok_ns"] for p in main) / 1e9)
        dual_ns = sum(o["running_ns"] for o in drawn["overlaps"] if o["run_id"] in own)
        assert row["dual_s"] == pytest.approx(dual_ns / 1e9 / len(own))
        assert row["exposure"] == (pytest.approx(mean(tested)) if tested else None)
        assert row["recovery_s"] == (1.0 if healed else None)
        assert row["new_leader_s"] == (2.0 if any(r["new_leader_after_ns"] for r in healed) else None)
        assert row["beyond_s"] == (None if night == "2026-11-05" else pytest.approx(10.0))
        assert row["check_s"] == (None if night == "2026-11-05" else 0.5)
        controls = [run for run in runs if run["run_id"] in own and run["cell"] in ("c1", "c2")]
        alarms = sum(run["outcome"] == "invalid" for run in controls)
        assert (row["controls"], row["false_alarms"]) == (len(controls), alarms if controls else None)
        assert (row["commits"], row["machines"], row["cores"]) == (["abc"], ["6.1 x86_64 2"], ["0.1"])


def test_what_is_made_to_fail_is_no_finding_and_a_second_fingerprint_is_one(
    spark: SparkSession, drawn: dict[str, list[Row]]
) -> None:
    seen = sum(run["outcome"] == "invalid" and not run["made_to_fail"] for run in _runs(drawn))
    rows = sightings(_frames(spark, drawn)).collect()
    for fingerprint in ("s:g:a:1", "s:g:a:2"):
        assert sum(row["seen"] for row in rows if row["fingerprint"] == fingerprint) == seen
