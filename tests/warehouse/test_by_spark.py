"""One large history through Spark: the answer of one machine, however its keys are shared out."""

import json
import random
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

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.cli import main
from fencepost.harness.history import Event, OpEvent, Outcome, PhaseEvent
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.interchange.formats.tables import UNKNOWN
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.results.columns import write_parquet
from fencepost.harness.verdict import Cause, Facts, Thresholds, Validity, Verdict, without_rows
from fencepost.harness.verdict.figures import values
from fencepost.warehouse import by_spark
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
from tests.interchange.tables.test_tables import STALE, VALID
from tests.interchange.tables.test_tables import check as on_this_machine
from tests.warehouse.handle import handle_of

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
FACTS = Facts(system="", workload="cas-register", nodes=(), guarantees=(), thresholds=Thresholds(exposure_min=0))


def same(found: Verdict, expected: Verdict) -> None:
    """What is found; not the effort, since each share has a budget of its own, nor the words that count keys."""
    assert (found.validity, found.cause, found.tested) == (expected.validity, expected.cause, expected.tested)
    assert found.counts == expected.counts
    assert found.rules == expected.rules
    assert found.witnesses == expected.witnesses
    for name in ("keys", "operations", "info_operations"):
        assert values(found.figures)[name] == values(expected.figures)[name], name


@pytest.mark.parametrize(
    "share_rows", [5_000, pytest.param(500, marks=pytest.mark.long), pytest.param(30, marks=pytest.mark.long)]
)
def test_a_table_has_the_verdict_of_one_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_rows: int
) -> None:
    """Keys are skewed: some have more rows than a share should, most of them few."""
    monkeypatch.setattr(by_spark, "SHARE_ROWS", share_rows)
    tables = known_tables() if share_rows > 100 else known_tables()[:20]
    path = Path(store(shuffled(joined(tables), 4), tmp_path / "table.parquet"))
    found = by_spark.check(spark, path, "operations", FACTS)
    assert found.validity == "invalid" and found.reason.endswith(f" on {values(found.figures)['keys']} keys")
    expected = on_this_machine(path)
    # Witnesses of one anomaly have the order of time there, and that of keys on one machine.
    assert len(found.witnesses) == len(expected.witnesses)
    same(msgspec.structs.replace(found, witnesses=()), msgspec.structs.replace(expected, witnesses=()))


def test_a_spent_budget_is_told_in_part(tmp_path: Path) -> None:
    easy = on_this_machine(Path(store(from_operations(parse(VALID).operations), tmp_path / "table.parquet")))
    spent = {"validity": Validity.UNKNOWN, "cause": Cause.OUT_OF_BUDGET, "reason": "the budget of steps is spent"}
    plain = [without_rows(verdict) for verdict in (easy, msgspec.structs.replace(easy, **spent))]
    found = by_spark.added(plain, FACTS)
    assert (found.validity, found.cause) == (Validity.UNKNOWN, Cause.OUT_OF_BUDGET)
    assert found.reason == "1 of 2 shares of the keys were not finished, none is invalid: the budget of steps is spent"


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("returned", 0, "key 1, process 1, invoked at 4: returned at 0, before it was invoked at 4"),
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
    path = Path(store(rows._replace(**{column: bent}), tmp_path / "table.parquet"))
    with pytest.raises(MalformedHistory) as there:
        by_spark.check(spark, path, "operations", FACTS)
    with pytest.raises(MalformedHistory) as here:
        on_this_machine(path)
    assert (there.value.message, there.value.hint) == (here.value.message, here.value.hint)
    assert here.value.message.startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns(["returned"]), "column 'returned' is missing; a table of operations has key int64"),
        (lambda t: t.set_column(2, "a", pa.array(["x"] * len(t))), "a column is of another type"),
        (lambda t: t.set_column(6, "returned", pa.array([None] * len(t), pa.int64())), "column 'returned' is null in"),
    ],
)
def test_columns_that_are_not_so_are_refused(spark: SparkSession, tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(change(arrow(from_operations(parse(VALID).operations))), path)
    with pytest.raises(MalformedHistory) as refused:
        by_spark.check(spark, path, "operations", FACTS)
    assert said in refused.value.message and str(path) in refused.value.message


@pytest.mark.long
def test_an_empty_table_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    rows = from_operations(parse(VALID).operations)
    nothing = "nothing to judge: no operation in this history"
    of_none = rows.at([1])._replace(returned=np.array([UNKNOWN]))
    for table, reason in ((rows.at([]), nothing), (of_none, "no read, write or cas in this history")):
        path = Path(store(table, tmp_path / "table.parquet"))
        verdict = by_spark.check(spark, path, "operations", FACTS)
        assert (verdict.validity, verdict.reason) == ("unknown", reason)


def test_the_command_asks_spark(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(by_spark, "SparkHandle", handle_of(spark, asked))
    path = store(from_operations(parse(STALE).operations), tmp_path / "table.parquet")
    assert main(["check", path, "--spark", "--spark-master", "local[3]"]) == 1
    said = capsys.readouterr()
    assert "linearizable is violated: 1 stale read" in said.out and "by spark" in said.err
    assert asked == ["local[3]"]
    monkeypatch.setattr(by_spark, "judge_rows", _without_core)
    assert main(["check", path, "--spark"]) == 255
    said = capsys.readouterr()
    assert "Spark at local[*] gave no verdict: ModuleNotFoundError: No module named 'checkers'" in said.err
    assert "hint: executors need fencepost" in said.err


def _without_core(source: str, share: Any) -> Any:
    raise ModuleNotFoundError("No module named 'checkers'")


@pytest.mark.long
def test_a_file_with_a_hole_ends_with_its_reason(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a Parquet file says what it holds; its pages are looked at by the executors."""
    monkeypatch.setattr(by_spark, "SparkHandle", handle_of(spark, []))
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


@pytest.mark.long
def test_the_command_with_a_jvm_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    generate(path, 200_000, 4_000, bad=(11, 3_999))
    command = [sys.executable, "-m", "fencepost.harness.cli", "check", str(path), "--json"]
    here, there = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        for more in ((), ("--spark", "--spark-master", "local[2]"))
    )
    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    documents = [json.loads(done.stdout)["verdicts"][0] for done in (here, there)]
    assert documents[0]["rules"] == documents[1]["rules"]
    assert documents[1]["anomalies"] == {"stale-read": {"value": 2, "rows": []}}
    for document in documents:
        assert document["anomalies"]["stale-read"]["value"] == 2
        assert sorted(witness["key"] for witness in document["witnesses"]) == ["key 11", "key 3999"]
    assert documents[0]["exposure"]["value"] == documents[1]["exposure"]["value"]


# --- histories ------------------------------------------------------------------------------------------------------


def one_history() -> list[Event]:
    """All kept histories of registers as one: keys and processes apart."""
    events: list[Event] = []
    for number, case in enumerate(cases("register")):
        for event in case.history.events:
            if type(event) is OpEvent:
                apart = {"key": f"{number} {event.key}", "process": event.process + number * 1_000_000}
                at = {"index": len(events), "time_ns": len(events) * 1000}
                events.append(msgspec.structs.replace(event, **apart, **at))
    return events


def queues(*, broken: bool) -> list[Event]:
    """Eight queues, one of which gives its elements in another order, and one to nobody knows whom."""
    rng, events = random.Random(5), list[Event]()
    for process in range(8):
        held: list[int] = []
        for value in range(20):
            dequeues = held and rng.random() < 0.5
            f = "dequeue" if dequeues else "enqueue"
            asked = None if dequeues else value
            last = broken and process == 3 and len(held) > 2
            answer = held.pop(-1 if last else 0) if dequeues else value
            if not dequeues:
                held.append(value)
            unknown = process == 5 and value == 19
            for kind, stated in (("invoke", asked), ("info", None) if unknown else ("ok", answer)):
                given = {"f": f, "key": f"q{process}", "value": stated}
                events.append(op(len(events), kind, process, **given))
    return events


def op(index: int, kind: str, process: int = 0, **more: Any) -> OpEvent:
    fields: dict[str, Any] = {"f": "write", "node": "n1", "key": "k", "value": 1, "time_ns": index * 10} | more
    return OpEvent(index=index, type=Outcome(kind), process=process, **fields)


def stored(events: list[Any], path: Path) -> Path:
    write_parquet(events, path)
    return path


@pytest.mark.parametrize(
    ("events", "model"),
    [
        (one_history, "cas-register"),
        (lambda: queues(broken=True), "queue"),
        pytest.param(lambda: queues(broken=False), "queue", marks=pytest.mark.long),
    ],
    ids=["registers", "queues", "valid queues"],
)
def test_a_history_has_the_verdict_of_one_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: Any, model: str
) -> None:
    monkeypatch.setattr(by_spark, "SHARE_ROWS", 100)
    path = stored(events(), tmp_path / "copy.parquet")
    (expected,) = judge_foreign(read_foreign(path), str(path)).verdicts
    found = by_spark.check(spark, path, "parquet", msgspec.structs.replace(FACTS, workload=model))
    same(msgspec.structs.replace(found, witnesses=()), msgspec.structs.replace(expected, witnesses=()))
    assert len(found.witnesses) == len(expected.witnesses)
    if model == "queue":
        assert found.witnesses == expected.witnesses


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [op(0, "invoke"), op(1, "invoke", key="other")],
            "event 1: process 0 invokes 'write' while its 'write' of event 0",
        ),
        pytest.param(
            [op(0, "invoke"), op(1, "info"), op(2, "invoke", key="other")],
            "event 2: process 0 acts again after it ended `info`",
            marks=pytest.mark.long,
        ),
        pytest.param(
            [op(0, "invoke", time_ns=7), op(1, "ok", time_ns=6)],
            "event 1: time_ns 6 is earlier than 7",
            marks=pytest.mark.long,
        ),
        pytest.param(
            [op(0, "ok")], "event 0: process 0 completes 'write', which it never invoked", marks=pytest.mark.long
        ),
        pytest.param(
            [op(0, "invoke", f="cas"), op(1, "ok", f="cas")],
            "event 0: the value of a cas is 1; expected [old new]",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_broken_rule_is_named(spark: SparkSession, tmp_path: Path, events: list[OpEvent], said: str) -> None:
    path = stored(events, tmp_path / "copy.parquet")
    with pytest.raises(MalformedHistory) as refused:
        by_spark.check(spark, path, "parquet", FACTS)
    assert refused.value.message.startswith(f"{path}: {said}")


@pytest.mark.long
def test_nothing_to_judge_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    events = [PhaseEvent(index=0, time_ns=0, phase="main"), op(1, "invoke"), op(2, "fail")]  # type: ignore[arg-type]
    verdict = by_spark.check(spark, stored(events, tmp_path / "copy.parquet"), "parquet", FACTS)
    assert (verdict.validity, verdict.reason) == ("unknown", "no read, write or cas in this history")


@pytest.mark.long
def test_the_command_takes_a_history(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(queues(broken=True), tmp_path / "copy.parquet")
    monkeypatch.setattr(by_spark, "SparkHandle", handle_of(spark, []))
    assert main(["check", str(path), "--spark", "--json"]) == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["form"], document["model"]) == ("parquet", "queue") and "by spark" in said.err


def test_flags_that_need_events_are_refused(tmp_path: Path, capsys: Any) -> None:
    path = stored([op(0, "invoke"), op(1, "ok")], tmp_path / "copy.parquet")
    for flag in (["--also", "porcupine"], ["--report", str(tmp_path / "new.html")], ["--consistency", "serializable"]):
        assert main(["check", str(path), "--spark", *flag]) == 254
        assert f"{flag[0]} is for histories that are judged on this machine" in capsys.readouterr().err


def test_what_must_be_judged_as_one_is_judged_on_this_machine(tmp_path: Path, capsys: Any) -> None:
    value = [[":append", "x", 1]]
    events = [op(at, kind, f="txn", key=None, value=value) for at, kind in enumerate(("invoke", "ok"))]
    path = stored(events, tmp_path / "copy.parquet")
    assert main(["check", str(path)]) == 2
    here = capsys.readouterr()
    assert main(["check", str(path), "--spark"]) == 2
    there = capsys.readouterr()
    note = "Spark shares out keys, and a history of the model list-append must be judged as one"
    assert here.out == there.out and f"note: {path}: {note}: it is judged on this machine" in there.err
