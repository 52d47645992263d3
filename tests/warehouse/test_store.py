"""A warehouse that lasts: runs added to it once, by several at a time, and read back by night, system and run."""

import json
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from fencepost.harness.base.errors import UsageError
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.run.conclude import judge_stored
from fencepost.warehouse.adding import Added, _none_judged, add
from fencepost.warehouse.commands.warehouse import command
from fencepost.warehouse.data_source import register
from fencepost.warehouse.query import query
from fencepost.warehouse.spark_session import spark_failure
from fencepost.warehouse.warehouse import Warehouse
from tests.warehouse.commits import runs_of, tear

pytestmark = pytest.mark.spark

FOUND = Path(__file__).parents[1] / "histories" / "found"
SOURCES = ("zookeeper-3.9.5-stale-after-sync", "etcd-3.5.1-live-lease-revoked", "zookeeper-3.9.5-stale-after-sync")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three judged runs of two systems, on three days."""
    results = tmp_path_factory.mktemp("results")
    folders = []
    for number, source in enumerate(SOURCES):
        folder = results / source / f"2026112{number}T000000.000Z"
        shutil.copytree(FOUND / source, folder)
        started = f"2026-11-2{number}T00:00:00Z"
        run = {"format": 1, **store.read_json(folder / store.RUN), "run_id": f"{number:032x}", "started_at": started}
        store.write_json(folder / store.RUN, run)
        judge_stored(folder, progress=lambda _: None)
        folders.append(folder)
    return folders


@pytest.fixture(scope="module")
def root(runs: list[Path], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse to which the runs were added in two steps."""
    root = str(tmp_path_factory.mktemp("kept") / "warehouse")
    assert add(spark, runs[:2], root) == Added(runs=2, known=0, nights=0)
    assert add(spark, runs, root) == Added(runs=1, known=2, nights=0)
    return root


def ids(rows: Any) -> list[str]:
    return sorted(row["run_id"] for row in rows.collect())


def test_what_was_added_is_what_the_runs_wrote(runs: list[Path], root: str, spark: SparkSession) -> None:
    warehouse = Warehouse(spark, root)
    for name in ("run", "verdicts", "zombie_episodes", "reigns"):
        stored = [row for folder in runs for row in read_table(folder / FACTS / f"{name}.parquet").to_pylist()]
        rows = [row.asDict(recursive=True) for row in warehouse.table(name).collect()]
        assert sorted(map(str, rows)) == sorted(map(str, stored)), name


def test_adding_again_changes_no_file(runs: list[Path], root: str, spark: SparkSession) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(root).rglob("*")}
    assert add(spark, runs, root) == Added(runs=0, known=3, nights=0)
    assert {path: path.stat().st_mtime_ns for path in Path(root).rglob("*")} == before


@pytest.mark.parametrize("name", ["run", "reigns", "operations", "placed"])
def test_any_reader_of_delta_tables_opens_it(runs: list[Path], root: str, name: str) -> None:
    table = DeltaTable(f"{root}/{name}")
    assert table.metadata().partition_columns == ["night", "system"]
    rows = table.to_pyarrow_table().to_pylist()
    for number, folder in enumerate(runs):
        own = [row for row in rows if row["run_id"] == f"{number:032x}"]
        assert {(row["night"], row["system"]) for row in own} == {
            (f"2026-11-2{number}", "etcd" if number == 1 else "zookeeper")
        }
        if name != "placed":
            assert len(own) == len(read_table(folder / FACTS / f"{name}.parquet"))
    # A plain list of files is enough for Spark, where no add was killed.
    assert not table.to_pyarrow_table(filters=[("night", "=", "2026-11-20"), ("system", "=", "etcd")]).num_rows


def test_only_the_tables_that_a_query_names_become_views(root: str, spark: SparkSession) -> None:
    warehouse = Warehouse(spark, root)
    made: list[str] = []
    table = warehouse.table

    def noted(name: str) -> DataFrame:
        made.append(name)
        return table(name)

    warehouse.table = noted  # type: ignore[method-assign]
    assert warehouse.sql("select count(*) as n from Run join REIGNS using (run_id)").collect()[0]["n"] > 0
    assert made == ["run", "reigns"]


def test_several_may_add_the_same_run_at_once_and_it_counts_once(
    runs: list[Path], spark: SparkSession, tmp_path: Path
) -> None:
    root = str(tmp_path / "warehouse")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda which: add(spark, which, root), [runs[:2], runs[1:]]))
    warehouse = Warehouse(spark, root)
    assert ids(warehouse.table("run")) == [f"{number:032x}" for number in range(3)]
    operations = sum(len(read_table(folder / FACTS / "operations.parquet")) for folder in runs)
    assert warehouse.table("operations").count() == len(runs_of(root, "operations")) == operations


@pytest.mark.parametrize("count", [1, 2, 5, 6, 9])
def test_of_runs_none_of_which_could_be_judged_several_are_named_and_the_others_counted(count: int) -> None:
    said = _none_judged([(f"/results/{i}", f"reason {i}") for i in range(count)], 0).message
    assert said.startswith(f"none of {count} runs could be judged: /results/0: reason 0")
    named = [i for i in range(count) if f"/results/{i}: reason {i}" in said]
    assert named == list(range(min(count, 5)))
    assert (f"and {count - 5} more" in said) is (count > 5)


def test_a_run_that_could_not_be_judged_is_tried_again(runs: list[Path], spark: SparkSession, tmp_path: Path) -> None:
    broken = tmp_path / "results" / "broken"
    shutil.copytree(runs[0], broken)
    whole = (broken / store.HISTORY).read_bytes()
    (broken / store.HISTORY).write_bytes(b"PAR1")
    root = str(tmp_path / "warehouse")
    for _ in range(2):
        with pytest.raises(UsageError, match="none of 1 runs could be judged"):
            add(spark, [broken], root)
        assert runs_of(root) == runs_of(root, "rebuilt") == []
    assert ids(Warehouse(spark, root).table("run")) == []
    (broken / store.HISTORY).write_bytes(whole)
    assert add(spark, [broken], root) == Added(runs=1, known=0, nights=0)


def test_the_data_source_gives_the_same_rows(root: str, spark: SparkSession) -> None:
    register(spark)
    whole = spark.read.format("fencepost").option("table", "reigns").load(root)
    assert whole.columns[-2:] == ["night", "system"]
    expected = Warehouse(spark, root).table("reigns")
    assert sorted(map(str, whole.drop("night", "system").collect())) == sorted(map(str, expected.collect()))


@pytest.mark.parametrize("order", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_data_frame_answers_any_sequence_of_questions(root: str, spark: SparkSession, order: int) -> None:
    """Spark keeps the partitions of a Python data source for the next query: none may depend on a filter."""
    register(spark)
    runs = spark.read.format("fencepost").option("table", "run").load(root)
    pandas: Any = runs.toPandas()
    questions = [
        "true",
        "system = 'etcd'",
        "system = 'etcd' or system = 'zookeeper'",
        "night in ('2026-11-20', '2026-11-22')",
        "night >= '2026-11-21'",
        "system = 'etcd' and night = '2026-11-20'",
    ]
    expected = {
        question: len(pandas.query(question.replace(" = ", " == "))) if question != "true" else len(pandas)
        for question in questions
    }
    assert len(set(expected.values())) > 2
    asked = [question for question in questions for _ in range(2)] + random.Random(order).sample(questions, 3)
    assert [(question, runs.where(question).count()) for question in asked] == [(q, expected[q]) for q in asked]


def test_a_python_without_fencepost_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "false")
    with pytest.raises(UsageError, match="run false, which cannot import fencepost") as caught:
        register(spark)
    assert "PYSPARK_PYTHON=" in (caught.value.hint or "")


def test_the_data_source_finds_the_warehouse_below_results(
    runs: list[Path], spark: SparkSession, tmp_path: Path
) -> None:
    add(spark, runs[:1], str(tmp_path / "results" / "warehouse"))
    register(spark)
    assert ids(spark.read.format("fencepost").load(str(tmp_path / "results"))) == [f"{0:032x}"]


@pytest.mark.parametrize("words", [["query", "select 1 from run"], ["show"], ["show", "run"], ["pages"], ["add"]])
def test_a_torn_part_ends_every_command_with_the_file_and_the_remedy(
    runs: list[Path], torn: Path, spark: SparkSession, words: list[str]
) -> None:
    part = min((torn / "run").rglob("*.parquet"))
    tear(part, "wrong magic")
    words = [*words, *(map(str, runs) if words == ["add"] else ())]
    words += ["--out", str(torn / "pages")] if words == ["pages"] else []
    done = CliRunner().invoke(command, [*words, "--warehouse", str(torn)])
    assert isinstance(done.exception, UsageError) and done.exception.exit_code == 254
    assert f"{part.name}: missing, or no whole Parquet file" in done.exception.message
    assert "warehouse build" in (done.exception.hint or "")


@pytest.fixture
def torn(root: str, tmp_path: Path) -> Path:
    """A copy of the warehouse, to be torn."""
    shutil.copytree(root, tmp_path / "warehouse")
    return tmp_path / "warehouse"


def test_a_failure_of_spark_is_told_before_its_jvm_ends(root: str, torn: Path, spark: SparkSession) -> None:
    """A part that is torn in the middle passes the first look, and fails a task."""
    part = min((torn / "operations").rglob("*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:100] + bytes(len(whole) // 2) + whole[100 + len(whole) // 2 :])
    with pytest.raises(UsageError, match=rf"{part.name}: missing, or no whole Parquet file"):
        query(torn, "select max(latency_ns), max(key), max(node) from operations", spark=spark)
    with pytest.raises(UsageError, match="the query was refused"):
        query(root, "select raise_error('mine')", spark=spark)
    error = Exception("An error occurred while calling o1.x.\n: java.lang.Error: no room\n\tat a.b(c)")
    ours = spark_failure(error, root)
    assert (ours.exit_code, ours.message) == (255, "Spark failed: java.lang.Error: no room")


def test_a_query_takes_a_relative_path(root: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(root).parent)
    frame = query("warehouse", "select system, version, outcome, count(*) from run group by all", spark=spark)
    assert len(frame) == 2


def test_what_could_not_be_judged_and_what_changed_give_exit_code_2_each_time(
    runs: list[Path], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, root = tmp_path / "results", tmp_path / "warehouse"
    for name, run in zip(("good", "bad", "changed"), (runs[0], runs[1], runs[2]), strict=True):
        shutil.copytree(run, results / name)
    (results / "bad" / store.HISTORY).write_bytes(b"PAR1")
    shutil.rmtree(results / "bad" / FACTS)
    document = json.loads((results / "changed" / store.VERDICT).read_text())
    (results / "changed" / store.VERDICT).write_text(json.dumps({**document, "validity": "valid"}))

    def said(code: int) -> str:
        words = ["add", str(results), "--warehouse", str(root)]
        done = CliRunner().invoke(command, words, standalone_mode=False)
        assert done.return_value == code, (done.output, done.exception)
        return done.output.splitlines()[0]

    troubles = "1 run could not be judged; 1 verdict changed; "
    assert said(2).startswith(f"{troubles}2 runs and 0 nights added; 0 runs were there already; tables in ")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(2):
        assert said(2).startswith(f"{troubles}0 runs and 0 nights added; 2 runs were there already; tables in ")
    assert sorted(path for path in root.rglob("*") if path.is_file()) == files
    (results / "changed" / store.VERDICT).write_text(json.dumps(document))
    shutil.rmtree(results / "bad")
    assert said(0).startswith("0 runs and 0 nights added; 2 runs were there already; tables in ")


def test_a_warehouse_of_before_is_refused_and_left_as_it_is(
    tmp_path: Path, spark: SparkSession, runs: list[Path]
) -> None:
    (tmp_path / "warehouse.json").write_text('{"format": 2, "generation": "g-1"}')
    for words in (["query", "select 1"], ["show"], ["add", str(runs[0])], ["compact"], ["vacuum"]):
        done = CliRunner().invoke(command, [*words, "--warehouse", str(tmp_path)])
        assert isinstance(done.exception, UsageError) and done.exception.exit_code == 254
        assert "an earlier fencepost made this warehouse" in done.exception.message
        assert "fencepost warehouse build RESULTS" in (done.exception.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse.json"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path, spark: SparkSession, runs: list[Path]) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(UsageError, match="no warehouse is here, but something else"):
        add(spark, runs[:1], str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_commands(runs: list[Path], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = ["--warehouse", str(tmp_path / "warehouse")]

    def said(*words: str) -> str:
        done = CliRunner().invoke(command, [*words, *root])
        assert done.exit_code == 0, done.output
        return done.output

    assert "3 runs and 0 nights added; 0 runs were there already" in said("add", *map(str, runs))
    assert "0 runs and 0 nights added; 3 runs were there already" in said("add", *map(str, runs))
    shown = said("show")
    assert "3 runs of 3 nights in 1 add" in shown
    assert "reigns" in shown
    assert "zookeeper" in said("show", "run", "--rows", "3")
    assert "etcd" in said("query", "select system, count(*) from run group by system")
    assert re.match(r"\d+ files made \d+; tables in ", said("compact"))
    assert said("vacuum").startswith("0 files removed: ")
    assert "3 runs of 3 nights in 1 add" in said("show")


@pytest.mark.slow
def test_the_questions_of_the_how_to_have_answers(root: str, spark: SparkSession) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "many-runs-on-spark.md").read_text()
    questions = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(questions) == 2
    for question in questions:
        assert list(query(root, question, spark=spark).columns), question
