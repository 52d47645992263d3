"""One task of the warehouse, without Spark: the run's tables, and what reads otherwise than the stored verdict."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.harness.results import run_folder as store
from fencepost.harness.results.fact_files import FACTS, read_table
from fencepost.harness.run.conclude import judge_stored
from fencepost.harness.verdict.run_tables import TABLES
from fencepost.harness.warehouse.rebuild import REBUILT, rebuild, task

FOUND = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "results" / "run"
    shutil.copytree(FOUND, copy)
    store.write_json(copy / store.RUN, {"format": 1, "run_id": "cd" * 16, "system_version": "3.9.5", "seed": 5})
    return copy


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name in TABLES:
        (tmp_path / "tables" / name).mkdir(parents=True)
    return tmp_path / "tables"


def test_it_writes_what_the_run_itself_wrote(folder: Path, tables: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    row = rebuild(folder, tables)
    assert (row["run_id"], row["outcome"], row["error"], row["changes"]) == ("cd" * 16, "invalid", None, [])
    for name in TABLES:
        of_run, written = read_table(folder / FACTS / f"{name}.parquet"), tables / name / f"{'cd' * 16}.parquet"
        assert read_table(written).equals(of_run) if len(of_run) else not written.exists(), name


def test_a_verdict_that_reads_otherwise_now_is_named(folder: Path, tables: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    document = json.loads((folder / store.VERDICT).read_text())
    document["validity"] = "valid"
    document["guarantees"] = [g for g in document["guarantees"] if g["name"] != "coverage"]
    document["guarantees"].append({"name": "of-old", "validity": "unknown"})
    (folder / store.VERDICT).write_text(json.dumps(document))
    assert rebuild(folder, tables)["changes"] == [
        {"guarantee": None, "before": "valid", "after": "invalid"},
        {"guarantee": "of-old", "before": "unknown", "after": None},
        {"guarantee": "coverage", "before": None, "after": "valid"},
    ]


def test_a_run_that_was_never_judged_has_no_changes(folder: Path, tables: Path) -> None:
    assert rebuild(folder, tables)["changes"] == []


def test_a_stored_verdict_that_nobody_can_read_is_said(folder: Path, tables: Path) -> None:
    (folder / store.VERDICT).write_text("{half a document")
    assert "not JSON" in rebuild(folder, tables)["error"]
    assert list((tables / "run").iterdir()) == []


def test_a_run_that_cannot_be_judged_costs_itself_only(folder: Path, tables: Path) -> None:
    broken = folder.with_name("broken")
    shutil.copytree(folder, broken)
    (broken / store.HISTORY).write_bytes(b"PAR1 and no more")
    folders = [str(broken), str(folder)]
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    (batch,) = list(task(folders, str(tables))(iter([numbers])))
    assert batch.schema.equals(REBUILT)
    bad, good = batch.to_pylist()
    assert bad["outcome"] is None
    assert "not a whole Parquet file" in bad["error"]
    assert (good["outcome"], good["error"]) == ("invalid", None)
