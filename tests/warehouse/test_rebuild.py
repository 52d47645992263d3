"""One task of the warehouse, without Spark: the tables of its runs, and the verdicts that differ now."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from fencepost.harness.judging.run_facts import stored_tables
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table, write_table
from fencepost.harness.run.conclude import judge_stored
from fencepost.harness.verdict.fact_tables import VERSION_KEY
from fencepost.warehouse.rebuild import DEALT, DONE, rebuild, task
from fencepost.warehouse.sources import RunSource, sources_of

FOUND = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "results" / "run"
    shutil.copytree(FOUND, copy)
    store.write_json(copy / store.RUN, {"format": 1, "run_id": "cd" * 16, "system_version": "3.9.5", "seed": 5})
    return copy


def source(folder: Path) -> RunSource:
    (known,) = sources_of([folder])
    return known


def judge_all(folders: list[Path], target: Path, *, again: bool = True) -> list[dict[str, Any]]:
    """Carry out one task over `folders` and return its rows."""
    rows = [{"task": 0, "number": n, **msgspec.structs.asdict(source(f))} for n, f in enumerate(folders)]
    work = task(str(target), "add", again=again)
    (batch,) = list(work(iter(pa.Table.from_pylist(rows, schema=DEALT).to_batches())))
    assert batch.schema.equals(DONE)
    judged: list[dict[str, Any]] = batch.to_pylist()
    named = sorted(f"{target}/{file['table']}/{file['path']}" for file in judged[0]["files"])
    assert named == sorted(map(str, target.rglob("*.parquet")))
    return judged


def parts(target: Path, name: str) -> list[Path]:
    return sorted((target / name).rglob("*.parquet"))


def runs(judged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table `run`, which no task writes."""
    rows: list[dict[str, Any]] = pa.ipc.open_stream(judged[0]["runs"]).read_all().to_pylist()
    return rows


def copy_of(folder: Path, run_id: str) -> Path:
    copy = folder.with_name(run_id[:4])
    shutil.copytree(folder, copy)
    store.write_json(copy / store.RUN, {**store.read_json(folder / store.RUN), "run_id": run_id})
    return copy


@pytest.mark.parametrize("again", [True, False])
def test_it_writes_what_the_run_itself_wrote(folder: Path, tmp_path: Path, again: bool) -> None:
    judge_stored(folder, progress=lambda _: None)
    (row,) = judged = judge_all([folder], tmp_path / "out", again=again)
    assert (row["run_id"], row["outcome"], row["error"], row["changes"]) == ("cd" * 16, "invalid", None, [])
    for name in stored_tables():
        of_run = read_table(folder / FACTS / f"{name}.parquet").to_pylist()
        in_files = [row for path in parts(tmp_path / "out", name) for row in read_table(path).to_pylist()]
        kept = runs(judged) if name == "run" else in_files
        assert [{**row, "added": "add"} for row in of_run] == [
            {key: value for key, value in row.items() if key in (*of_run[0], "added")} for row in kept
        ], name
    (placed,) = read_table(parts(tmp_path / "out", "placed")[0]).to_pylist()
    assert (placed["run_id"], placed["cell"]) == ("cd" * 16, None)
    # Only who judged a run knows by which core.
    assert (placed["core"] is not None) is again


def test_tables_of_another_form_are_derived_again(folder: Path, tmp_path: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    of_old = read_table(folder / FACTS / "run.parquet").replace_schema_metadata({VERSION_KEY: b"0"})
    write_table(of_old.set_column(1, "folder", pa.array(["of old"])), folder / FACTS / "run.parquet")
    (row,) = runs(judge_all([folder], tmp_path / "out", again=False))
    assert row["folder"] == str(folder)


def test_a_task_writes_one_file_of_a_table_for_all_of_its_runs(folder: Path, tmp_path: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    own = len(read_table(folder / FACTS / "operations.parquet"))
    judge_all([folder, copy_of(folder, "ab" * 16)], tmp_path / "out")
    (part,) = parts(tmp_path / "out", "operations")
    assert read_table(part).group_by("run_id").aggregate([([], "count_all")]).to_pydict() == {
        "run_id": ["cd" * 16, "ab" * 16],
        "count_all": [own, own],
    }


def test_a_large_part_is_written_before_the_task_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.warehouse.parts._PART_BYTES", 1)
    judge_all([folder, copy_of(folder, "ab" * 16)], tmp_path / "out")
    each = [read_table(path)["run_id"].unique().to_pylist() for path in parts(tmp_path / "out", "operations")]
    assert sorted(each) == [["ab" * 16], ["cd" * 16]]


def test_a_verdict_that_differs_now_is_named(folder: Path) -> None:
    judge_stored(folder, progress=lambda _: None)
    document = json.loads((folder / store.VERDICT).read_text())
    document["validity"] = "valid"
    document["guarantees"] = [g for g in document["guarantees"] if g["name"] != "coverage"]
    document["guarantees"].append({"name": "of-old", "validity": "unknown"})
    (folder / store.VERDICT).write_text(json.dumps(document))
    assert rebuild(source(folder))[0]["changes"] == [
        {"guarantee": None, "before": "valid", "after": "invalid"},
        {"guarantee": "of-old", "before": "unknown", "after": None},
        {"guarantee": "coverage", "before": None, "after": "valid"},
    ]


def test_a_run_that_was_never_judged_has_no_changes(folder: Path) -> None:
    assert rebuild(source(folder))[0]["changes"] == []


def test_an_unreadable_stored_verdict_is_an_error_of_its_run(folder: Path) -> None:
    (folder / store.VERDICT).write_text("{half a document")
    row, tables = rebuild(source(folder))
    assert "not JSON" in row["error"]
    assert tables == {}


def test_a_run_that_cannot_be_judged_costs_itself_only(folder: Path, tmp_path: Path) -> None:
    broken = folder.with_name("broken")
    shutil.copytree(folder, broken)
    (broken / store.HISTORY).write_bytes(b"PAR1 and no more")
    bad, good = judged = judge_all([broken, folder], tmp_path / "out")
    assert bad["outcome"] is None
    assert "not a whole Parquet file" in bad["error"]
    assert (good["outcome"], good["error"]) == ("invalid", None)
    assert [row["run_id"] for row in runs(judged)] == ["cd" * 16]
