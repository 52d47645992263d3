"""A table of transactions is judged as the history that it tells, however its rows and files lie."""

import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fencepost.checkers.tables.events import ended, events_of
from fencepost.checkers.tables.transactions import TableTransactions, TransactionTable, judged, renamed, rows_of
from fencepost.checkers.transactions.anomalies import check_list_append, check_register
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.history import History, OpEvent
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.checkers.tables.transaction_tables import (
    arrow_table,
    changed,
    in_time,
    longer,
    op,
    small_ones,
    table,
    wrong,
    wrongly_typed,
)
from tests.checkers.transactions.transaction_histories import columns, told


def facts(consistency: str = "strict-serializable") -> Facts:
    return Facts(system="", workload="", nodes=(), guarantees=(), required=(consistency,), read_guarantee=consistency)


def check(path: Path, facts: Facts) -> Verdict:
    return TransactionTable(path).check(facts)


@pytest.mark.parametrize("lists", [True, False])
def test_as_the_history_itself(tmp_path: Path, lists: bool) -> None:
    direct = check_list_append if lists else check_register
    seen = set()
    histories = [*small_ones(40, lists=lists), longer(1, 200, lists=lists, isolation="snapshot")]
    for number, history in enumerate(histories):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table(history, lists=lists, seed=number), path, row_group_size=7)
        for model in ("strict-serializable", "read-committed"):
            found, wanted = check(path, facts(model)), direct(columns(in_time(history)), model=model)
            assert (found.validity, found.counts, found.reason) == (wanted.validity, wanted.anomalies, wanted.reason)
            assert found.figures["ruled_out"] == wanted.ruled_out
            seen.add(found.validity)
    assert seen == set(Validity)


@pytest.mark.parametrize("lists", [True, False])
def test_written_and_read_again(lists: bool) -> None:
    for history in [[*small_ones(1, lists=lists)[0]], longer(2, 100, lists=lists)]:
        made = table(history, lists=lists)
        rows = rows_of(made, lists=lists, source="it")
        assert arrow_table(rows.columns, lists=lists) == made
        assert rows.columns.value.tolist() == [
            op.value if op.kind == 0 or (op.kind == 1 and not lists) else -(2**63)
            for txn in in_time(history)
            for op in txn.ops
        ]


@pytest.mark.parametrize("case", range(17))
def test_what_breaks_a_rule_is_told_by_its_number(tmp_path: Path, case: int) -> None:
    cases = wrong(table(longer(3, 20, lists=True), lists=True))
    assert len(cases) == 17
    made, said = cases[case]
    pq.write_table(made, tmp_path / "table.parquet")
    with pytest.raises(MalformedHistory) as caught:
        check(tmp_path / "table.parquet", facts())
    assert said in caught.value.message and str(tmp_path) in caught.value.message


@pytest.mark.parametrize("flags", [[], ["--also", "elle"]])
def test_a_part_file_that_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    pq.write_table(table(told("ax1", "rx1"), lists=True), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    assert main(["check", str(tmp_path), *flags]) == 254
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {tmp_path}: not a whole Parquet file: ") and "b.parquet" in error
    assert hint == "hint: write it again; a folder holds the whole part files of one table and nothing else"


def test_columns_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    for made, said in wrongly_typed(table(longer(3, 20, lists=True), lists=True)):
        pq.write_table(made, path)
        with pytest.raises(MalformedHistory, match=said):
            check(path, facts())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # A process may begin when it ends; of one value, the key counts too.
        (("ax1 @0-5 #1", "ax2 ay2 @5-9 #1", "ax2 @6-8"), "transaction 2: it writes 2 to key 0, as 1 does"),
        (("ax1", "ay1", "ay1"), "transaction 2: it writes 1 to key 1, as 1 does"),
        (("ax1 @0-5 #1", "ax1 @4-9 #1"), "transaction 1: process 1 invoked it before 0 was completed"),
    ],
)
def test_what_two_transactions_break(words: tuple[str, ...], said: str) -> None:
    rows = rows_of(table(told(*words), lists=True), lists=True, source="it")
    with pytest.raises(MalformedHistory) as caught:
        judged(rows, facts(), "it")
    assert said in caught.value.message


def test_a_process_may_begin_when_it_ends(tmp_path: Path) -> None:
    pq.write_table(table(told("ax1 @0-5 #1", "rx1 @5-9 #1"), lists=True), tmp_path / "table.parquet")
    found = check(tmp_path / "table.parquet", facts())
    assert found.validity is Validity.VALID


def test_what_failed_has_read_nothing(tmp_path: Path) -> None:
    pq.write_table(table(told("ax1", "rx1", "rx7,8 !fail", "rx1", "rx9 !info"), lists=True), tmp_path / "table.parquet")
    found = check(tmp_path / "table.parquet", facts())
    assert (found.validity, found.tested) == (Validity.VALID, 2)


def test_what_breaks_the_model_is_shown_first(tmp_path: Path) -> None:
    words = ("rx ax1 @0-9", "rx ax2 @1-8", "rx1,2 @20-21", "ay1 rz1 @30-39", "az1 ry1 @31-38")
    pq.write_table(table(told(*words), lists=True), tmp_path / "table.parquet")
    found = check(tmp_path / "table.parquet", facts("read-committed"))
    assert [witness.anomaly for witness in found.witnesses] == ["G1c", "lost-update", "G-single"]


def test_a_register_may_not_hold_the_number_of_nothing(tmp_path: Path) -> None:
    made = table(told("wx-9223372036854775808"), lists=False)
    with pytest.raises(MalformedHistory, match="it writes null"):
        rows_of(made, lists=False, source="it")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Part files in a folder; transactions are named by their numbers in the table."""
    made = table(told("rx ay1 @0-9", "ry ax1 @1-8", "rx1 ry1 @20-30"), lists=True)
    numbers = made.column("transaction")
    made = made.set_column(0, "transaction", pc.add(numbers, 70))
    folder = tmp_path / "table"
    folder.mkdir()
    pq.write_table(made.slice(0, 1), folder / "part-0.parquet")
    pq.write_table(made.slice(1), folder / "part-1.parquet")
    assert main(["check", str(folder)]) == 1
    told_ = capsys.readouterr()
    assert "table of transactions, 3 transactions on 2 keys; model list-append, by native" in told_.err
    assert "T70 < T71 (rw): T70 read [] from key 0, without 1, which T71 appended" in told_.out
    assert main(["check", str(folder), "--consistency", "snapshot-isolation", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["validity"], document["model"], document["operations"]) == ("valid", "list-append", 3)
    for flags, said in (
        (["--consistency", "serialisable"], "unknown consistency model 'serialisable'"),
        (["--model", "register"], "is of the model list-append or rw-register, not register"),
        (["--model", "rw-register"], "have a field `list`, so it is list-append, not rw-register"),
    ):
        assert main(["check", str(folder), *flags]) == 254
        assert said in capsys.readouterr().err


def test_what_is_about_transactions_alone_is_read(tmp_path: Path) -> None:
    pq.write_table(table(longer(2, 50, lists=True), lists=True, seed=4), tmp_path / "table.parquet", row_group_size=9)
    file = TransactionTable(tmp_path / "table.parquet")
    whole, some = file.read(), file.read({3, 40, 17, 99})
    assert some.numbers.tolist() == [3, 17, 40] and len(file.read(())) == 0
    for row, number in enumerate(some.numbers.tolist()):
        assert whole.numbers[number] == number
        ops, same = (slice(*c.first[at : at + 2]) for c, at in ((some.columns, row), (whole.columns, number)))
        assert some.columns.value[ops].tolist() == whole.columns.value[same].tolist()


def test_a_table_as_events() -> None:
    """Invocations stand before answers of the same time; who goes on after an unknown outcome keeps the number."""
    words = ("wx1 @0-9 #4", "wx2 @1-0 #5 !info", "rx_ @9-12 #5", "wx3 @10-0 #4 !fail", "rx? @12-0 #5 !info")
    events = events_of(TableTransactions(rows_of(table(told(*words), lists=False), lists=False, source="it")))
    assert [(e.time_ns, e.process, e.type.value) for e in events if isinstance(e, OpEvent)] == [
        (0, 4, "invoke"),
        (1, 6, "invoke"),
        (9, 5, "invoke"),
        (9, 4, "ok"),
        (10, 4, "invoke"),
        (10, 4, "fail"),
        (12, 7, "invoke"),
        (12, 5, "ok"),
    ]
    every = History(ended(events)).operations
    assert [op.type.value for op in every] == ["ok", "info", "ok", "fail", "info"]
    assert [op.ended_ns for op in every] == [9, 12, 12, 10, 12] and ended([]) == []


def test_an_unanswered_read_returned_nothing_that_could_be_shown() -> None:
    made = changed(table(told("ax1", "rx1"), lists=True), "ops", 1, [op(2, 0), op(1, 0, None, [])])
    answer = events_of(TableTransactions(rows_of(made, lists=True, source="it")))[-1]
    assert isinstance(answer, OpEvent) and answer.value == [[":r", 0, None], [":r", 0, []]]


def test_only_transactions_are_renamed() -> None:
    numbers = np.array([5, 60])
    assert renamed("T1 < T0 (rw): key T2x", numbers) == "T60 < T5 (rw): key T2x"
    assert renamed("AT1", numbers) == "AT1"


def test_through_spark_nothing_changes_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(table(told("rx ay1 @0-9", "ry ax1 @1-8"), lists=True), path)
    assert main(["check", str(path)]) == 1
    here = capsys.readouterr()
    assert main(["check", str(path), "--spark"]) == 1
    there = capsys.readouterr()
    note = "Spark shares out keys, and a history of the model list-append must be judged as one"
    assert here.out == there.out and f"note: {path}: {note}: it is judged on this machine" in there.err
