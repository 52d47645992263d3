"""Registers through Spark: key by key what the single machine says, whatever the partitions and the batches."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fencepost.checkers.tables.operations import ORDER, UNKNOWN, Deal, judge
from fencepost.checkers.tables.operations_file import TableFile
from fencepost.checkers.tables.operations_file import check as check_here
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.verdict import Budget, Facts, Thresholds, Verdict
from fencepost.warehouse.by_spark import registers as by_spark
from tests.checkers.tables.operations_tables import (
    arrow,
    from_operations,
    generate,
    joined,
    known_tables,
    shuffled,
    store,
)
from tests.checkers.tables.test_operations_table import STALE, VALID, direct, hard
from tests.histories.language import parse
from tests.warehouse.handle import handle_of

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
FACTS = Facts(system="", workload="cas-register", nodes=(), guarantees=(), thresholds=Thresholds(exposure_min=0))


def same(found: Verdict, expected: Verdict) -> None:
    """But for who found it. Steps are left out: calls of other sizes deal the budget out in other rounds."""

    def plain(verdict: Verdict) -> Verdict:
        own = ("engine", "partitions", "steps")
        kept = {name: value for name, value in verdict.figures.plain().items() if name not in own}
        return msgspec.structs.replace(verdict, figures=kept)

    assert plain(found) == plain(expected)


@pytest.mark.parametrize(
    ("batch_rows", "partition_operations"),
    [
        pytest.param(97, 5_000, marks=pytest.mark.slow),
        pytest.param(7, 10_000, marks=pytest.mark.long),
        pytest.param(100_000, 1_000, marks=pytest.mark.long),
    ],
)
def test_every_history_has_the_verdict_of_one_machine(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_rows: int,
    partition_operations: int,
) -> None:
    monkeypatch.setattr(by_spark, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(by_spark, "PARTITION_OPERATIONS", partition_operations)
    rows = joined(known_tables())
    path = store(shuffled(rows, 4), tmp_path / "table.parquet")
    own = by_spark.tuned(spark)
    found = by_spark.judge_table(by_spark.read_table(own, path), Budget(), path)
    expected = {key: said for key, said in direct(rows).items() if said[0] != "valid"}
    assert {one.key: (one.verdict, one.failed_process, one.failed_invoked) for one in found.others} == expected
    here = TableFile(Path(path)).search(Budget())
    assert (found.keys, found.operations, found.info_operations, found.exposure) == (
        here.keys,
        here.operations,
        here.info_operations,
        here.exposure,
    )
    same(by_spark.check(spark, path, FACTS), check_here(Path(path), FACTS))


@pytest.mark.long
def test_a_partition_holds_whole_keys_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 3_000, 60)
    table = by_spark.by_key(by_spark.read_table(spark, str(path)), 3_000_000)
    parts = [[tuple(row[name] for name in ORDER) for row in part] for part in table.rdd.glom().collect()]
    assert len(parts) == 3 and sum(map(len, parts)) == 3_000
    keys = [{row[0] for row in part} for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 60
    assert all(part == sorted(part, key=lambda row: row[0]) for part in parts)


@pytest.mark.long
def test_a_spent_budget_is_told_in_part(spark: SparkSession, tmp_path: Path) -> None:
    easy = [from_operations(parse(VALID).operations) for _ in range(9)]
    path = store(joined([*easy, hard()]), tmp_path / "table.parquet")
    facts = msgspec.structs.replace(FACTS, budget=Budget(steps=3_000))
    found = [by_spark.check(spark, path, facts) for _ in range(2)]
    assert found[0].reason == "9 of 10 keys checked, none invalid; the budget of steps is spent"
    assert found[0] == found[1]


@pytest.mark.long
def test_what_other_partitions_leave_is_used(spark: SparkSession, tmp_path: Path) -> None:
    """The hard key's own part is a fraction of what it needs; a second round gives it what the others left."""
    path = tmp_path / "easy.parquet"
    generate(path, 8_000, 160)
    easy = TableFile(path).read()
    path = Path(store(joined([easy, hard()]), tmp_path / "table.parquet"))
    own = by_spark.tuned(spark)
    table = by_spark.read_table(own, str(path))
    own_operations = len(hard().key)
    deal = Deal(steps=10**9, operations=own_operations, memory_bytes=10**9, wall_s=60.0)
    alone = judge(hard(), deal)[0].steps
    rounds = []
    original = by_spark.judged

    def counted(frame: Any, deal: Any) -> Any:
        rounds.append(deal)
        return original(frame, deal)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_spark, "judged", counted)
        assert not by_spark.judge_table(table, Budget(steps=50_000 + 2 * alone), str(path)).others
    assert [deal.operations for deal in rounds] == [8_000 + own_operations, own_operations]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("returned", 0, "key 1, process 1, invoked at 4: returned at 0, before it was invoked at 4"),
        pytest.param(
            "f", 9, "key 1, process 1, invoked at 4: f is 9; expected 0 read, 1 write or 2 cas", marks=pytest.mark.long
        ),
        pytest.param(
            "a", 2**40, "key 1, process 1, invoked at 4: a is 1099511627776; expected a number", marks=pytest.mark.long
        ),
    ],
)
def test_a_row_that_means_nothing_is_named(
    spark: SparkSession, tmp_path: Path, column: str, value: int, said: str
) -> None:
    rows = joined([from_operations(parse(VALID).operations) for _ in range(3)])
    rows = rows._replace(process=np.ones_like(rows.process))
    bent = getattr(rows, column).copy()
    bent[[10, 6]] = value
    path = store(rows._replace(**{column: bent}), tmp_path / "table.parquet")
    with pytest.raises(MalformedHistory) as there:
        by_spark.check(spark, path, FACTS)
    with pytest.raises(MalformedHistory) as here:
        check_here(Path(path), FACTS)
    assert there.value.message == here.value.message
    assert here.value.message.startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns(["returned"]), "column 'returned' is missing; a table of operations has key int64"),
        pytest.param(
            lambda t: t.set_column(1, "f", t["f"].cast(pa.string())),
            "column 'f' has type string, expected int8",
            marks=pytest.mark.long,
        ),
        (lambda t: t.set_column(2, "a", t["a"].cast(pa.float64())), "column 'a' has type double, expected int64"),
        (
            lambda t: t.set_column(6, "returned", pa.array([None] * len(t), pa.int64())),
            "column 'returned' is null in",
        ),
    ],
)
def test_columns_that_are_not_so_are_refused(spark: SparkSession, tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(change(arrow(from_operations(parse(VALID).operations))), path)
    with pytest.raises(MalformedHistory) as refused:
        by_spark.check(spark, str(path), FACTS)
    assert said in refused.value.message and str(path) in refused.value.message


@pytest.mark.long
def test_an_empty_table_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    rows = from_operations(parse(VALID).operations).at([])
    for table in (rows, from_operations(parse(VALID).operations).at([1])._replace(returned=np.array([UNKNOWN]))):
        path = store(table, tmp_path / "table.parquet")
        verdict = by_spark.check(spark, path, FACTS)
        assert (verdict.validity, verdict.reason) == ("unknown", "no read, write or cas in this table")


def test_the_command_asks_spark(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("fencepost.warehouse.spark_session.SparkHandle", handle_of(spark, asked))
    path = store(from_operations(parse(STALE).operations), tmp_path / "table.parquet")
    assert main(["check", path, "--spark", "--spark-master", "local[3]"]) == 1
    said = capsys.readouterr()
    assert "linearizable is violated: 1 stale read" in said.out and "by spark" in said.err
    assert asked == ["local[3]"]
    monkeypatch.setattr(by_spark, "judge_batches", _without_core)
    assert main(["check", path, "--spark"]) == 255
    said = capsys.readouterr()
    assert "Spark at local[*] gave no verdict: ModuleNotFoundError: No module named 'checkers'" in said.err
    assert "hint: executors need fencepost" in said.err


@pytest.mark.long
def test_a_file_with_a_hole_ends_with_its_reason(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a Parquet file says what it holds; its pages are looked at by the executors."""
    monkeypatch.setattr("fencepost.warehouse.spark_session.SparkHandle", handle_of(spark, []))
    path = tmp_path / "table.parquet"
    generate(path, 5_000, 100)
    whole = bytearray(path.read_bytes())
    whole[100 : len(whole) // 2] = bytes(len(whole) // 2 - 100)
    path.write_bytes(whole)
    assert main(["check", str(path)]) == 254
    assert f"{path}: not a whole Parquet file" in capsys.readouterr().err
    assert main(["check", str(path), "--spark"]) == 255
    said = capsys.readouterr().err
    assert f"error: {path}: Spark at local[*] gave no verdict: " in said and "Traceback" not in said


def _without_core(deal: Any, batches: Any) -> Any:
    raise ModuleNotFoundError("No module named 'checkers'")


@pytest.mark.long
def test_the_command_with_a_jvm_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 2_000_000, 40_000, bad=(11, 39_999))
    command = [sys.executable, "-m", "fencepost.harness.cli", "check", str(path), "--json"]
    here, there = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        for more in ((), ("--spark", "--spark-master", "local[2]"))
    )
    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    documents = [msgspec.json.decode(done.stdout) for done in (here, there)]
    verdicts = [msgspec.convert(document["verdicts"][0], Verdict) for document in documents]
    same(verdicts[1], verdicts[0])
    assert verdicts[0].anomalies == {"stale-read": 2}
