"""Which runs there are to add: not the half runs of lost attempts; and none of a format that we do not know."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.night.register import REGISTER, EndedRun, NightRegister, Registered
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.replay.recorded import read_recorded
from fencepost.harness.base.errors import UsageError
from fencepost.harness.judging.judge import judge
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table, write_table
from fencepost.harness.run.conclude import judge_stored
from fencepost.harness.verdict.fact_tables import VERSION_KEY
from fencepost.warehouse.index import index_of
from fencepost.warehouse.rebuild import rebuild
from fencepost.warehouse.sources import sources_below, sources_of
from tests.campaigns.night.made import attempt, cell, opened

FOUND = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"


@pytest.mark.parametrize(
    ("run_class", "is_sealed"), [*itertools.product((None, RunClass.LOST, RunClass.INVALID), (True, False))]
)
def test_a_half_run_of_an_attempt_that_never_reported_is_left_out(
    tmp_path: Path, run_class: RunClass | None, is_sealed: bool
) -> None:
    one = attempt("c1", run_class)
    with NightRegister(tmp_path / REGISTER) as register:
        register.append(opened([cell("c1")]))
        register.append(Registered(attempt=one))
        if run_class is not None:
            register.append(EndedRun(attempt=one, spent_s=1.0))
    run = tmp_path / one.folder / "example-register-kill" / "20261127T000000.000Z"
    run.mkdir(parents=True)
    (run / store.PLAN).write_text("")
    (run / (store.HISTORY if is_sealed else store.HISTORY_LINES)).write_text("")
    (source,) = sources_below(tmp_path)
    assert source.is_half is (run_class is not RunClass.INVALID and not is_sealed)


def test_a_single_run_without_an_end_is_no_half_run(tmp_path: Path) -> None:
    """Nobody else tells of it."""
    (tmp_path / store.PLAN).write_text("")
    (tmp_path / store.HISTORY_LINES).write_text("")
    assert [source.is_half for source in sources_below(tmp_path)] == [False]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "results" / "run"
    shutil.copytree(FOUND, copy)
    store.write_json(copy / store.RUN, {**store.read_json(FOUND / store.RUN), "format": 1, "run_id": "cd" * 16})
    judge_stored(copy, progress=lambda _: None)
    return copy


def torn_history(folder: Path) -> None:
    path = folder / store.HISTORY
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_history(folder: Path) -> None:
    (folder / store.HISTORY).write_bytes(b"")


def no_history(folder: Path) -> None:
    (folder / store.HISTORY).unlink()


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("spoil", [torn_history, empty_history, no_history])
@pytest.mark.parametrize("left", ["facts and verdict", "facts", "verdict"])
def test_a_run_whose_history_is_spoilt_cannot_be_judged(folder: Path, spoil: Any, again: bool, left: str) -> None:
    spoil(folder)
    if "facts" not in left:
        shutil.rmtree(folder / FACTS)
    if "verdict" not in left:
        (folder / store.VERDICT).unlink()
    (source,) = sources_below(folder.parent)
    row, tables = rebuild(source, again=again)
    assert tables == {}
    assert ("not a whole Parquet file" if spoil is not no_history else "neither history.parquet nor") in row["error"]


def test_a_run_whose_cluster_did_not_start_is_none(tmp_path: Path) -> None:
    for name in (store.PLAN, store.RUN):
        (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError, match="no run is kept here"):
        sources_below(tmp_path)


def newer_run(folder: Path) -> None:
    store.write_json(folder / store.RUN, {**store.read_json(folder / store.RUN), "format": 99})


def newer_verdict(folder: Path) -> None:
    document = json.loads((folder / store.VERDICT).read_text())
    (folder / store.VERDICT).write_text(json.dumps({**document, "format": 99}))


def newer_facts(folder: Path) -> None:
    path = folder / FACTS / "reigns.parquet"
    write_table(read_table(path).replace_schema_metadata({VERSION_KEY: b"99"}), path)


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("newer", [newer_run, newer_verdict, newer_facts])
def test_a_run_of_a_newer_format_is_not_judged(folder: Path, newer: Any, again: bool) -> None:
    newer(folder)
    row, tables = rebuild(sources_of([folder])[0], again=again)
    if newer is newer_facts and again:
        assert tables, "a build reads no facts"
        return
    assert tables == {}
    assert "newer format: 99, and this fencepost reads" in row["error"]
    assert "update fencepost" in row["error"]


@pytest.mark.parametrize("read", [judge, read_recorded, lambda folder: judge_stored(folder, progress=lambda _: None)])
def test_every_reader_refuses_a_run_of_a_newer_format(folder: Path, read: Any) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != store.RUN}
    newer_run(folder)
    with pytest.raises(UsageError, match="newer format: 99") as caught:
        read(folder)
    assert "update fencepost" in (caught.value.hint or "")
    assert all(path.read_bytes() == data for path, data in before.items())


@pytest.mark.parametrize("known", [0, "1", None, 1.5])
def test_a_format_that_never_was_is_refused(folder: Path, known: Any) -> None:
    store.write_json(folder / store.RUN, {**store.read_json(folder / store.RUN), "format": known})
    with pytest.raises(UsageError, match=r"format .*, and this fencepost reads 1"):
        store.read_run(folder)


@pytest.mark.parametrize(
    ("more", "variant"),
    [
        ("", ""),
        ('[system_options]\ntick = "7s"\n', "tick=7s"),
        ('[set.zookeeper]\nsnapCount = "100"\n', "zookeeper.snapCount=100"),
    ],
)
def test_a_variant_is_what_differs_from_the_plain_release(folder: Path, more: str, variant: str) -> None:
    plan = (folder / store.PLAN).read_text().partition("[system_options]")[0]
    (folder / store.PLAN).write_text(plan + more)
    for _ in range(2):
        _, tables = rebuild(sources_of([folder])[0])
        assert tables["placed"]["variant"].to_pylist() == [variant]


def test_an_own_build_and_an_expectation_are_kept(folder: Path) -> None:
    plan = (folder / store.PLAN).read_text()
    lines = [line for line in plan.splitlines() if not line.startswith("version =")]
    (folder / store.PLAN).write_text('version = "/opt/builds/zookeeper"\n' + "\n".join(lines))
    store.write_json(folder / store.RUN, {**store.read_json(folder / store.RUN), "expected": "invalid"})
    row, tables = rebuild(sources_of([folder])[0])
    assert row["error"] is None
    (placed,) = tables["placed"].to_pylist()
    assert placed["variant"].startswith("own build")
    assert placed["expected"] == "invalid"


def test_the_page_over_the_runs_of_a_night_stands_beside_the_page_of_the_night(tmp_path: Path) -> None:
    assert index_of(tmp_path).name == "index.html"
    (tmp_path / REGISTER).touch()
    assert index_of(tmp_path).name == "warehouse.html"
