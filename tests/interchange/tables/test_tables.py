"""A table is judged as the history that it tells, however its rows and files lie."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.transactions.anomalies import check_list_append, check_register
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.history import History, Operation
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.interchange.formats.tables import UNKNOWN
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.figures import values
from tests.checkers.transactions.transaction_histories import columns, told
from tests.histories.language import cases, parse
from tests.interchange.tables.operations_tables import (
    arrow,
    from_operations,
    generate,
    joined,
    known_tables,
    shuffled,
    store,
)
from tests.interchange.tables.transaction_tables import (
    changed,
    in_time,
    longer,
    op,
    small_ones,
    table,
    wrong,
    wrongly_typed,
)

FACTS = Facts(system="", workload="cas-register", nodes=(), guarantees=())
VALID = "a:w1 b:r1 a:w2 b:r2"
STALE = "a:w1 a:w2 b:r1"


def check(path: Path, consistency: str | None = None) -> Verdict:
    (verdict,) = judge_foreign(read_foreign(path), str(path), consistency).verdicts
    return verdict


def operations_of(made: Any, path: Path) -> list[Operation]:
    pq.write_table(made, path)
    return read_foreign(path).history.operations


@pytest.mark.parametrize("case", cases("register"), ids=lambda case: case.name)
def test_a_kept_history_as_a_table(case: Any, tmp_path: Path) -> None:
    rows = from_operations(case.history.operations)
    if not len(rows.key):
        return
    # A table has no operations that failed.
    kept = [o for o in case.history.operations if o.type != "fail" and o.f in ("read", "write", "cas")]
    (expected,) = linearizable.check(case.history.with_operations(kept), FACTS)
    found = check(Path(store(shuffled(rows, 3), tmp_path / "table.parquet")))
    assert (found.validity, found.tested, found.rules) == (expected.validity, expected.tested, expected.rules)
    assert sum(found.counts.values()) == sum(expected.counts.values())
    for name in ("keys", "operations", "info_operations"):
        assert values(found.figures)[name] == values(expected.figures)[name]
    assert len(found.witnesses) == len(expected.witnesses)


def test_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    rows = joined(known_tables())
    first, *others = (check(Path(store(shuffled(rows, n), tmp_path / f"{n}.parquet"))) for n in range(3))
    assert first.validity is Validity.INVALID
    for other in others:
        assert (other.counts, other.rules, other.witnesses) == (first.counts, first.rules, first.witnesses)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("f", 3, "f is 3; expected 0 read, 1 write or 2 cas"),
        ("f", -1, "f is -1; expected 0 read"),
        ("a", -1, "a is -1; expected a number from 0 to 2^32 - 1"),
        ("a", 2**32, "a is 4294967296; expected a number"),
        ("b", 5, "b is 5; expected 0, since only a cas has a second value"),
        ("invoked", -7, "invoked is -7; expected 0 or more"),
        ("returned", -2, "returned is -2; expected -1 where it is unknown"),
        ("returned", 0, "returned at 0, before it was invoked at"),
        ("returned", 2**63 - 1, "returned at 9223372036854775807; expected less, or -1"),
    ],
)
def test_a_row_that_means_nothing_is_named(tmp_path: Path, capsys: Any, column: str, value: int, said: str) -> None:
    rows = joined([from_operations(parse(VALID).operations) for _ in range(3)])
    bent = getattr(rows, column).copy()
    bent[[11, 7]] = value  # of keys 2 and 1: the first by key is told
    path = store(rows._replace(**{column: bent}), tmp_path / "table.parquet")
    assert main(["check", path]) == 254
    told_ = capsys.readouterr().err
    assert f"{path}: key 1, process" in told_ and said in told_ and "hint: docs/reference/operations-table.md" in told_


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns(["returned"]), "column 'returned' is missing; a table of operations has key int64"),
        (lambda t: t.set_column(1, "f", pa.array(["r"] * len(t))), "a column is of another type"),
        (
            lambda t: t.set_column(6, "returned", pa.array([None] * len(t), pa.int64())),
            "column 'returned' is null in 4 rows",
        ),
    ],
)
def test_columns_that_are_not_so_are_refused(tmp_path: Path, capsys: Any, change: Any, said: str) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(change(arrow(from_operations(parse(VALID).operations))), path)
    assert main(["check", str(path)]) == 254
    assert said in capsys.readouterr().err


def test_further_columns_and_narrower_numbers(tmp_path: Path) -> None:
    made = arrow(from_operations(parse(VALID).operations))
    made = made.set_column(0, "key", made["key"].cast(pa.int32()))
    made = made.append_column("node", pa.array(["n1"] * len(made))).select(["node", *reversed(made.column_names)])
    pq.write_table(made, tmp_path / "table.parquet")
    assert check(tmp_path / "table.parquet").validity == "valid"


@pytest.mark.parametrize(("words", "code"), [(VALID, 0), (STALE, 1), ("a:w1", 2), ("a(r", 2)])
def test_a_file_and_a_folder_of_part_files(tmp_path: Path, capsys: Any, words: str, code: int) -> None:
    rows = from_operations(parse(words).operations)
    path = store(rows, tmp_path / "table.parquet")
    assert main(["check", path]) == code
    assert f"{path}: operations, " in capsys.readouterr().err
    folder = tmp_path / "parts"
    folder.mkdir()
    for at in range(len(rows.key)):
        store(rows.at([at]), folder / f"part-{at}.parquet")
    if len(rows.key):
        assert main(["check", str(folder), "--json"]) == code
        document = json.loads(capsys.readouterr().out)
        assert (document["exit_code"], document["form"], document["operations"]) == (code, "operations", len(rows.key))


def test_what_is_wrong_is_drawn(tmp_path: Path, capsys: Any) -> None:
    store(joined([from_operations(parse(text).operations) for text in (VALID, STALE)]), tmp_path / "table.parquet")
    assert main(["check", str(tmp_path / "table.parquet"), "--report", str(tmp_path / "out.html")]) == 1
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Witness 1 of linearizable: stale-read." in html and "--format operations --model cas-register" in html
    assert "The file has its answer in key 1, process 498, invoked at " in html and 'class="failed"' not in html


def test_other_models_are_refused(tmp_path: Path, capsys: Any) -> None:
    path = store(from_operations(parse(VALID).operations), tmp_path / "table.parquet")
    assert main(["check", path, "--model", "set"]) == 254
    assert "is of the model cas-register, not set" in capsys.readouterr().err
    assert main(["check", path, "--format", "transactions"]) == 254
    assert "it is a table of operations, by its columns" in capsys.readouterr().err
    (tmp_path / "history.edn").write_text("[]")
    assert main(["check", str(tmp_path / "history.edn"), "--spark"]) == 254
    assert (
        "only a table of operations and a history of ours in Parquet are judged through Spark"
        in capsys.readouterr().err
    )


def test_a_witness_tells_why(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 4_000, 80, bad=(5, 70))
    verdict = check(path)
    assert (verdict.validity, verdict.counts) == ("invalid", {"stale-read": 2})
    assert sorted(witness.key or "" for witness in verdict.witnesses) == ["key 5", "key 70"]
    assert verdict.witnesses[0].steps[0].startswith("read of key ")


def test_a_read_of_unknown_outcome_makes_no_key(tmp_path: Path) -> None:
    rows = joined([from_operations(parse(VALID).operations), from_operations(parse(VALID).operations)])
    unknown = rows.returned.copy()
    unknown[[1, 5]] = -1
    figures = values(check(Path(store(rows._replace(returned=unknown), tmp_path / "table.parquet"))).figures)
    assert (figures["keys"], figures["operations"], figures["info_operations"]) == (2, 6, 0)
    alone = rows._replace(returned=unknown).at([1])
    found = check(Path(store(alone, tmp_path / "alone.parquet")))
    assert (found.validity, found.reason) == ("unknown", "no read, write or cas in this history")


def test_processes_of_a_table_that_overlap_themselves_become_several(tmp_path: Path) -> None:
    rows = from_operations(parse("a:w1 a:w2 b:r2").operations)
    together = rows._replace(process=rows.process * 0, returned=rows.returned * 0 + 100)
    together.returned[2] = UNKNOWN
    history = read_foreign(Path(store(together, tmp_path / "table.parquet"))).history
    assert len({o.process for o in history.operations}) == 3
    # As our rules want it: one open operation at a time.
    assert len(History(list(history.events)).operations) == 3


# --- transactions


@pytest.mark.parametrize("lists", [True, False])
def test_transactions_as_the_history_itself(tmp_path: Path, lists: bool) -> None:
    direct = check_list_append if lists else check_register
    seen = set()
    histories = [*small_ones(40, lists=lists), longer(1, 200, lists=lists, isolation="snapshot")]
    for number, history in enumerate(histories):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table(history, lists=lists, seed=number), path, row_group_size=7)
        for model in ("strict-serializable", "read-committed"):
            found, wanted = check(path, model), direct(columns(in_time(history)), model=model)
            assert (found.validity, found.counts, found.reason) == (wanted.validity, wanted.anomalies, wanted.reason)
            assert found.figures["ruled_out"] == wanted.ruled_out
            seen.add(found.validity)
    assert seen == set(Validity)


@pytest.mark.parametrize("case", range(17))
def test_what_breaks_a_rule_is_told_by_its_number(tmp_path: Path, case: int) -> None:
    made, said = wrong(table(longer(3, 20, lists=True), lists=True))[case]
    pq.write_table(made, tmp_path / "table.parquet")
    with pytest.raises(MalformedHistory) as caught:
        check(tmp_path / "table.parquet")
    assert said in caught.value.message and str(tmp_path) in caught.value.message


def test_a_part_file_that_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(table(told("ax1", "rx1"), lists=True), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    assert main(["check", str(tmp_path)]) == 254
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {tmp_path}: not a whole Parquet file: ") and "b.parquet" in error
    assert hint == "hint: write it again; a folder holds the whole part files of one table and nothing else"


def test_columns_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    for made, said in wrongly_typed(table(longer(3, 20, lists=True), lists=True)):
        pq.write_table(made, path)
        with pytest.raises(MalformedHistory, match=said):
            check(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # A process may begin when it ends; of one value, the key counts too.
        (("ax1 @0-5 #1", "ax2 ay2 @5-9 #1", "ax2 @6-8"), "transaction 2: it writes 2 to key 0, as transaction 1 does"),
        (("ax1", "ay1", "ay1"), "transaction 2: it writes 1 to key 1, as transaction 1 does"),
        (("ax1 @0-5 #1", "ax1 @4-9 #1"), "transaction 1: process 1 invoked it before 0 was completed"),
    ],
)
def test_what_two_transactions_break(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    pq.write_table(table(told(*words), lists=True), tmp_path / "table.parquet")
    with pytest.raises(MalformedHistory) as caught:
        check(tmp_path / "table.parquet")
    assert said in caught.value.message


def test_what_failed_has_read_nothing(tmp_path: Path) -> None:
    pq.write_table(table(told("ax1", "rx1", "rx7,8 !fail", "rx1", "rx9 !info"), lists=True), tmp_path / "table.parquet")
    found = check(tmp_path / "table.parquet")
    assert (found.validity, found.tested) == (Validity.VALID, 2)


def test_transactions_in_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Transactions are named in the order of their invocations; the last step says which of the table they are."""
    made = table(told("rx ay1 @0-9", "ry ax1 @1-8", "rx1 ry1 @20-30"), lists=True)
    made = made.set_column(0, "transaction", pc.add(made.column("transaction"), 70))
    folder = tmp_path / "table"
    folder.mkdir()
    pq.write_table(made.slice(0, 1), folder / "part-0.parquet")
    pq.write_table(made.slice(1), folder / "part-1.parquet")
    assert main(["check", str(folder), "--report", str(tmp_path / "out.html")]) == 1
    said = capsys.readouterr()
    assert "transactions, 6 events; model list-append" in said.err
    assert "T0 < T1 (rw): T0 read [] from key 0, without 1, which T1 appended" in said.out
    assert "In the table T1 is transaction 71, T0 is transaction 70." in said.out
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "A cycle: T1 rw T0; T0 rw T1." in html and 'class="failed"' not in html
    assert main(["check", str(folder), "--consistency", "snapshot-isolation", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["validity"], document["model"], document["operations"]) == ("valid", "list-append", 3)
    for flags, wanted in (
        (["--consistency", "serialisable"], "unknown consistency model 'serialisable'"),
        (["--model", "rw-register"], "have a field `list`, so it is list-append, not rw-register"),
    ):
        assert main(["check", str(folder), *flags]) == 254
        assert wanted in capsys.readouterr().err


def test_who_goes_on_after_an_unknown_outcome(tmp_path: Path) -> None:
    """Invocations stand before answers of the same time; the first of a process keeps its number."""
    words = ("wx1 @0-9 #4", "wx2 @1-0 #5 !info", "rx_ @9-12 #5", "wx3 @10-0 #4 !fail", "rx? @12-0 #5 !info")
    operations = operations_of(table(told(*words), lists=False), tmp_path / "table.parquet")
    assert [(o.invoked_ns, o.process, o.type.value) for o in operations] == [
        (0, 4, "ok"),
        (1, 5, "info"),
        (9, 6, "ok"),
        (10, 4, "fail"),
        (12, 7, "info"),
    ]
    assert [o.ended_ns for o in operations] == [9, None, 12, 10, None]


def test_an_unanswered_read_returned_nothing_that_could_be_shown(tmp_path: Path) -> None:
    made = changed(table(told("ax1", "rx1"), lists=True), "ops", 1, [op(2, 0), op(1, 0, None, [])])
    assert operations_of(made, tmp_path / "table.parquet")[-1].result == [[":r", 0, None], [":r", 0, []]]


def test_through_spark_nothing_changes_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(table(told("rx ay1 @0-9", "ry ax1 @1-8"), lists=True), path)
    assert main(["check", str(path)]) == 1
    here = capsys.readouterr()
    assert main(["check", str(path), "--spark"]) == 1
    there = capsys.readouterr()
    note = "Spark shares out keys, and a history of the model list-append must be judged as one"
    assert here.out == there.out and f"note: {path}: {note}: it is judged on this machine" in there.err
