"""Transactions through Spark: what one machine says of the same table, whatever the partitions and the batches."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fencepost.checkers.tables.transactions_file import check as check_here
from fencepost.checkers.tables.transactions_windows import UNRAISED
from fencepost.checkers.transactions.columns import OK
from fencepost.checkers.transactions.native import Assumed
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.verdict import Budget, Cause, Facts, Validity, Verdict
from fencepost.harness.verdict.tables import LIST_APPEND, RW_REGISTER
from fencepost.warehouse.by_spark import transactions as by_spark
from tests.checkers.tables.test_transactions_table import facts
from tests.checkers.tables.transaction_tables import MOTIFS, in_time, longer, small_ones, table, wrong, wrongly_typed
from tests.checkers.transactions.transaction_histories import Txn, told
from tests.warehouse.handle import handle_of

pytestmark = pytest.mark.spark

MODELS = ("strict-serializable", "strong-session-serializable", "snapshot-isolation", "read-committed")


@pytest.fixture(autouse=True)
def batches_cut_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.warehouse.by_spark.registers.BATCH_ROWS", 7)
    monkeypatch.setattr(by_spark, "PARTITION_TRANSACTIONS", 100)


def one_after_the_other(histories: list[list[Txn]]) -> list[Txn]:
    """Histories of keys, processes and times of their own, as one."""
    begin, joined = 0, list[Txn]()
    for number, history in enumerate(histories):
        for txn in in_time(history):
            ops = tuple(replace(op, key=f"{number}-{op.key}") for op in txn.ops)
            times = {"invoked": begin + txn.invoked, "completed": begin + txn.completed}
            joined.append(replace(txn, ops=ops, process=1000 * number + txn.process % 1000, **times))
        begin = 1 + max(txn.completed for txn in joined if txn.outcome == OK)
    return joined


def same(found: Verdict, expected: Verdict) -> None:
    """Witnesses may be others, but of what is there, and so may the way; an order may be found by one alone."""
    assert (found.validity, found.anomalies) == (expected.validity, expected.anomalies)
    assert found.figures.plain()["ruled_out"] == expected.figures.plain()["ruled_out"]
    assert set(found.allowed) == set(expected.allowed)
    assert (found.checker, found.guarantee, found.exposure) == (expected.checker, expected.guarantee, expected.exposure)
    for name in ("transactions", "micro_operations", "info_transactions", "keys"):
        assert found.figures.plain()[name] == expected.figures.plain()[name]
    assert found.rules == expected.rules
    assert {witness.anomaly for witness in found.witnesses} <= set(expected.anomalies)
    assert len(found.witnesses) == len(expected.witnesses)


def store(path: Path, history: list[Txn], *, lists: bool) -> Path:
    pq.write_table(table(history, lists=lists, seed=1), path, row_group_size=50)
    return path


@pytest.mark.parametrize(
    "lists", [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.long)]
)
def test_many_anomalies_in_one_table(spark: SparkSession, tmp_path: Path, lists: bool) -> None:
    """Each has the name and the count that one machine gives it."""
    histories = [*small_ones(30, lists=lists), longer(1, 100, lists=lists, isolation="read-uncommitted")]
    path = store(tmp_path / "table.parquet", one_after_the_other(histories), lists=lists)
    found = by_spark.check(spark, str(path), facts())
    same(found, check_here(path, facts()))
    assert found.validity is Validity.INVALID and len(found.anomalies) > 8
    assert found.figures.plain()["core_edges"] < found.figures.plain()["edges"]


@pytest.mark.long
def test_an_order_of_all_is_carried_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store(tmp_path / "table.parquet", longer(5, 300, lists=True), lists=True)
    masters: list[str] = []
    monkeypatch.setattr("fencepost.warehouse.spark_session.SparkHandle", handle_of(spark, masters))
    assert main(["check", str(path), "--spark", "--consistency", "serializable"]) == 0
    said = capsys.readouterr()
    assert "300 transactions on" in said.err and "model list-append, by spark" in said.err
    assert "no violation of serializable was found" in said.out and masters == ["local[*]"]


@pytest.mark.long
@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("name", ["serializable", "snapshot", "read-committed", "read-uncommitted", *MOTIFS])
def test_as_on_one_machine(spark: SparkSession, tmp_path: Path, name: str, lists: bool) -> None:
    if name in MOTIFS and not lists:
        pytest.skip("motifs are told of lists")
    isolation, motif = ("serializable", name) if name in MOTIFS else (name, "")
    path = store(tmp_path / "table.parquet", longer(7, 400, lists=lists, isolation=isolation, motif=motif), lists=lists)
    # The strongest and weaker ones, in turn.
    for model in {MODELS[0], MODELS[1 + len(name) % 3]}:
        same(by_spark.check(spark, str(path), facts(model)), check_here(path, facts(model)))


@pytest.mark.long
@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("number", range(8))
def test_small_ones_as_on_one_machine(spark: SparkSession, tmp_path: Path, number: int, lists: bool) -> None:
    history = small_ones(140, lists=lists)[100 + number]
    path = store(tmp_path / "table.parquet", history, lists=lists)
    model = MODELS[number % len(MODELS)]
    found, expected = by_spark.check(spark, str(path), facts(model)), check_here(path, facts(model))
    if found.validity is Validity.VALID and expected.validity is Validity.UNKNOWN:
        assert not lists and "certificate" in found.figures.plain()
    else:
        same(found, expected)


@pytest.mark.parametrize(
    "case",
    [0, 5, 11, *(pytest.param(case, marks=pytest.mark.long) for case in (1, 2, 3, 4, *range(6, 11), *range(12, 17)))],
)
def test_what_breaks_a_rule_is_told_by_its_number(spark: SparkSession, tmp_path: Path, case: int) -> None:
    made, said = wrong(table(longer(3, 20, lists=True), lists=True))[case]
    pq.write_table(made, tmp_path / "table.parquet")
    with pytest.raises(MalformedHistory) as caught:
        by_spark.check(spark, str(tmp_path / "table.parquet"), facts())
    assert said in caught.value.message and str(tmp_path) in caught.value.message


def test_columns_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    for number, (made, said) in enumerate(wrongly_typed(table(longer(3, 20, lists=True), lists=True))):
        pq.write_table(made, tmp_path / f"{number}.parquet")
        with pytest.raises(MalformedHistory, match=said):
            by_spark.check(spark, str(tmp_path / f"{number}.parquet"), facts())


def test_a_finding_that_is_not_found_again_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    path = store(tmp_path / "table.parquet", told("ax1", "rx1"), lists=True)
    judging = by_spark.Judging(spark, spark.read.parquet(str(path)), "it", facts(), LIST_APPEND)
    judging._counts = judging._look_over() | {"reads": 1, "keys": 1, "micro_operations": 2, "elements": 1}
    found = judging._confirmed(by_spark._Searched(anomalies={"G1a": 1}, keys={0}), Assumed())
    assert (found.validity, found.cause, found.anomalies) == (Validity.UNKNOWN, Cause.FAILED, {})
    assert "found G1a, and the search of keys [0] alone does not confirm it" in found.reason


@pytest.mark.parametrize(
    ("model", "wrong_keys", "said"), [(LIST_APPEND, [], ""), (RW_REGISTER, [], ""), (RW_REGISTER, [4], "was tried")]
)
def test_an_order_is_valid_once_it_is_carried_out(
    monkeypatch: pytest.MonkeyPatch, model: str, wrong_keys: list[int], said: str
) -> None:
    found = carried_out(monkeypatch, model, wrong_keys).verdict()
    assert found.validity is (Validity.UNKNOWN if wrong_keys else Validity.VALID)
    assert said in found.reason


def test_an_order_of_lists_that_does_not_explain_them_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their reads show the order of versions: without a cycle there is no other."""
    found = carried_out(monkeypatch, LIST_APPEND, [4]).verdict()
    assert (found.validity, found.cause) == (Validity.UNKNOWN, Cause.FAILED)
    assert "its replay does not explain key 4" in found.reason


def carried_out(monkeypatch: pytest.MonkeyPatch, model: str, wrong_keys: list[int]) -> by_spark.Judging:
    """A table in which nothing was found, but that its order does not explain these keys; it fits into no memory."""
    held = facts().required
    budget = Budget(memory_bytes=0)
    given = Facts(system="", workload="", nodes=(), guarantees=(), required=held, budget=budget)
    judging = by_spark.Judging(MagicMock(), MagicMock(), "it", given, model)
    counts = {"transactions": 9, "micro_operations": 9, "elements": 0, "reads": 3, "keys": 2}
    monkeypatch.setattr(judging, "_look_over", lambda: counts)
    monkeypatch.setattr(judging, "_search", lambda assumed: by_spark._Searched(points=UNRAISED))
    micro = MagicMock()
    micro.mapInArrow().limit().collect.return_value = [{"key": key} for key in wrong_keys]
    monkeypatch.setattr(judging, "_micro", lambda: micro)
    return judging


@pytest.mark.long
def test_what_does_not_fit_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    """A cycle in real time says nothing of plain serializability, and no order is looked for beyond the memory."""

    def within(memory_bytes: int) -> Facts:
        held = "strong-session-serializable"
        budget = Budget(memory_bytes=memory_bytes)
        return Facts(system="", workload="", nodes=(), guarantees=(), required=(held,), budget=budget)

    path = store(tmp_path / "table.parquet", longer(2, 60, lists=True, motif="stale"), lists=True)
    found = by_spark.check(spark, str(path), within(30_000))
    assert (found.validity, found.anomalies) == (Validity.UNKNOWN, {})
    assert found.reason.startswith(
        "no anomaly was found, and no order keeps real time; an order that proves it is looked for on one"
    )
    found = by_spark.check(spark, str(path), within(200))
    assert (found.validity, found.anomalies) == (Validity.UNKNOWN, {})
    assert "more than 1 dependencies may lie on a cycle" in found.reason
