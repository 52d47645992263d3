"""The warehouse of three stored runs: what spans runs against plain Python over the runs' own tables, and the command.

The three are of two systems; one of them is there twice, under another id and with a stored verdict of another kind.
"""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.run.conclude import judge_stored
from fencepost.warehouse.adding import _tasks, build, deal
from fencepost.warehouse.commands.warehouse import command
from fencepost.warehouse.query import query
from fencepost.warehouse.sources import RunSource, sources_below
from fencepost.warehouse.warehouse import Warehouse
from tests.warehouse.commits import runs_of, tear

pytestmark = pytest.mark.spark

FOUND = Path(__file__).parents[1] / "histories" / "found"
Row = dict[str, Any]


class Built:
    """A folder of results and the warehouse that was made of it."""

    def __init__(self, results: Path, warehouse: Warehouse, folders: list[Path]) -> None:
        self.results, self.warehouse, self.folders = results, warehouse, folders

    def stored(self, name: str) -> list[Row]:
        """The rows that the runs themselves wrote."""
        return [row for folder in self.folders for row in read_table(folder / FACTS / f"{name}.parquet").to_pylist()]

    def rows(self, name: str) -> list[Row]:
        return [row.asDict(recursive=True) for row in self.warehouse.table(name).collect()]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    results = tmp_path_factory.mktemp("results")
    sources = ("zookeeper-3.9.5-stale-after-sync", "zookeeper-3.9.5-stale-after-sync", "etcd-3.5.1-live-lease-revoked")
    folders = []
    for number, source in enumerate(sources):
        folder = results / source / f"2026112{number}T000000.000Z"
        shutil.copytree(FOUND / source, folder)
        run = store.read_json(folder / store.RUN)
        started = f"2026-11-2{number}T00:00:00Z"
        store.write_json(folder / store.RUN, {"format": 1, **run, "run_id": f"{number:032x}", "started_at": started})
        judge_stored(folder, progress=lambda _: None)
        folders.append(folder)
    (results / "broken").mkdir()
    shutil.copy(folders[0] / store.PLAN, results / "broken" / store.PLAN)
    (results / "broken" / store.HISTORY).write_bytes(b"no history")
    document = json.loads((folders[1] / store.VERDICT).read_text()) | {"validity": "valid"}
    (folders[1] / store.VERDICT).write_text(json.dumps(document))
    root = str(results / "warehouse")
    build(spark, [results], root)
    return Built(results, Warehouse(spark, root), folders)


@pytest.mark.parametrize("name", ["run", "zombie_episodes", "operations", "verdicts", "recovery", "cuts"])
def test_it_holds_what_the_runs_wrote(built: Built, name: str) -> None:
    key = str
    assert sorted(built.rows(name), key=key) == sorted(built.stored(name), key=key)


def test_episodes_changes_and_failures_are_told(built: Built) -> None:
    episodes = list(built.warehouse.episodes())
    acting = [e for e in episodes if e["acted"]]
    assert [(e["run_id"], e["node"], e["epoch"], e["acted"]) for e in acting] == [
        (f"{number:032x}", "n2", 2, 8) for number in range(2)
    ]
    assert len(episodes) == len(built.stored("zombie_episodes"))
    looked_at = built.rows("rebuilt")
    assert [(row["run_id"], change) for row in looked_at for change in row["changes"]] == [
        (f"{1:032x}", {"guarantee": None, "before": "valid", "after": "invalid"})
    ]
    assert [row["folder"] for row in looked_at if row["error"]] == [str(built.results / "broken")]


def by_release(built: Built) -> dict[str, tuple[str, str]]:
    return {run["run_id"]: (run["system"], run["version"]) for run in built.stored("run")}


def test_zombies_and_rates_are_those_of_plain_python(built: Built) -> None:
    release = by_release(built)
    runs = defaultdict(set)
    for run_id, which in release.items():
        runs[which].add(run_id)
    episodes = built.stored("zombie_episodes")
    for row in built.rows("zombie_episodes_by_version"):
        which = (row["system"], row["version"])
        own = [e for e in episodes if release[e["run_id"]] == which]
        assert row["runs"] == len(runs[which])
        assert row["runs_with_episodes"] == len({e["run_id"] for e in own})
        assert row["runs_in_which_one_acted"] == len({e["run_id"] for e in own if e["acted"]})
        for name in ("claims", "asked", "reached", "served", "fenced", "unknown", "acted"):
            assert row[name] == sum(e[name] for e in own)
    anomalies = built.stored("anomalies")
    rates = {(r["system"], r["version"], r["fingerprint"]): r for r in built.rows("anomaly_rates")}
    assert rates.keys() == {(*release[a["run_id"]], a["fingerprint"]) for a in anomalies}
    for (system, version, fingerprint), row in rates.items():
        of = (system, version, fingerprint)
        showing = {a["run_id"] for a in anomalies if (*release[a["run_id"]], a["fingerprint"]) == of}
        assert (row["runs"], row["of"]) == (len(showing), len(runs[system, version]))
        assert row["rate"] == row["runs"] / row["of"]


def test_recovery_availability_and_latency_are_those_of_plain_python(built: Built) -> None:
    release = by_release(built)
    faults = {(f["run_id"], f["fault_id"]): f["fault"] for f in built.stored("faults") if f["outcome"] == "installed"}
    recovery = [r for r in built.stored("recovery") if r["node"] is None and (r["run_id"], r["fault_id"]) in faults]
    for row in built.rows("recovery_by_fault"):
        of = (row["system"], row["version"], row["fault"])
        own = [r for r in recovery if (*release[r["run_id"]], faults[r["run_id"], r["fault_id"]]) == of]
        assert row["faults"] == len(own)
        assert row["new_leader_after_ns_max"] == max(r["new_leader_after_ns"] for r in own)
        total = sum(r["ok"] + r["fail"] + r["info"] for r in own)
        assert row["availability"] == pytest.approx(sum(r["ok"] for r in own) / total)
    latencies = defaultdict(list)
    for op in built.stored("operations"):
        if op["type"] == "ok":
            fault = faults.get((op["run_id"], op["fault_id"]), "none")
            latencies[*release[op["run_id"]], fault, op["f"]].append(op["latency_ns"])
    rows = {(r["system"], r["version"], r["fault"], r["f"]): r for r in built.rows("latency_by_fault")}
    assert rows.keys() == latencies.keys()
    for key, waits in latencies.items():
        assert (rows[key]["operations"], rows[key]["latency_ns_max"]) == (len(waits), max(waits))
        assert rows[key]["latency_ns_p50"] == sorted(waits)[-(-len(waits) // 2) - 1]


def test_a_query_gives_a_data_frame(built: Built, spark: SparkSession) -> None:
    frame = query(built.warehouse.root, "select system, runs, acted from zombie_episodes_by_version", spark=spark)
    assert {(row.system, row.runs, row.acted) for row in frame.itertuples()} >= {("zookeeper", 2, 16)}
    with pytest.raises(UsageError, match="the query was refused"):
        query(built.warehouse.root, "select nothing from nowhere", spark=spark)
    with pytest.raises(UsageError, match="no warehouse is here"):
        query(built.results, "select 1", spark=spark)


def test_the_command_says_each_episode_with_run_epoch_and_rows(
    built: Built, spark: SparkSession, tmp_path: Path
) -> None:
    words = ["build", str(built.results), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.return_value == 2, done.output
    assert done.output.startswith("1 run could not be judged; 1 verdict changed; 3 of 4 runs judged again; tables in ")
    for part in (
        "n2, leader of epoch 2",
        "acted 8 times (stale-answer-by-superseded-leader)",
        "after epoch 3 had begun\n",
        f" of {shorten(str(built.folders[1]))}\n",
        "the run: valid before, invalid now",
        "runs that could not be judged:",
    ):
        assert part in done.output


def test_it_takes_the_place_of_a_warehouse_and_of_nothing_else(
    built: Built, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    with pytest.raises(UsageError, match="no warehouse is here, but something else"):
        build(spark, built.folders[:1], str(out))
    assert (out / "precious").read_text() == "mine"
    (out / "precious").rename(out / "warehouse.json")
    with pytest.raises(UsageError, match="an earlier fencepost made this warehouse"):
        Warehouse(spark, str(out))
    for number in range(2):
        build(spark, built.folders[number : number + 1], str(out))
        assert [row["run_id"] for row in Warehouse(spark, str(out)).table("run").collect()] == [f"{number:032x}"]
        assert set(runs_of(str(out), "operations")) == {f"{number:032x}"}
    assert not (out / "warehouse.json").exists()
    (part,) = (out / "operations").rglob(f"{DeltaTable(str(out / 'operations')).file_uris()[0].rpartition('/')[2]}")
    tear(part, "truncated")
    build(spark, built.folders[:1], str(out))
    assert set(runs_of(str(out), "operations")) == {f"{0:032x}"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_copy_of_a_run_counts_once(built: Built, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(built.folders[0], tmp_path / name)
    assert [source.folder for source in sources_below(tmp_path)] == [str((tmp_path / "one").resolve())]


@pytest.mark.parametrize(
    ("runs", "cores", "tasks"),
    [
        (1, 2, 1),
        (7, 2, 7),
        (9, 2, 8),
        (100, 2, 8),
        (1_000, 2, 63),
        (10_000, 2, 64),
        (1_000, 64, 256),
        (10_000, 64, 625),
    ],
)
def test_tasks_are_few_and_fill_every_core(runs: int, cores: int, tasks: int) -> None:
    assert _tasks(runs, cores) == tasks


def test_a_run_that_is_much_larger_than_the_others_has_a_task_of_its_own() -> None:
    def source(number: int, size: int) -> RunSource:
        return RunSource(folder=f"{number}", run_id=f"{number}", night="n", day="d", size=size)

    dealt = deal([*(source(number, 200_000) for number in range(30)), source(30, 50_000_000)], 4).to_pylist()
    by_task: dict[int, list[str]] = {}
    for row in dealt:
        by_task.setdefault(row["task"], []).append(row["folder"])
    assert ["30"] in by_task.values()
    assert sorted(len(own) for own in by_task.values()) == [1, 10, 10, 10]
    assert sorted(row["number"] for row in dealt) == list(range(31))


def test_a_task_has_runs_of_few_nights() -> None:
    sources = [
        RunSource(folder=f"{n}", run_id=f"{n}", night=f"2026-11-{1 + n % 14:02}", day="d", size=200_000)
        for n in range(1000)
    ]
    dealt = deal(sources, 63).to_pylist()
    assert len({(row["task"], row["night"]) for row in dealt}) <= 63 + 14
    each = [sum(row["task"] == task for row in dealt) for task in range(63)]
    assert max(each) - min(each) <= 1


def test_runs_none_of_which_can_be_judged_make_no_warehouse(built: Built, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of 1 runs could be judged"):
        build(spark, [built.results / "broken"], str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="no run is kept here"):
        sources_below(tmp_path)
