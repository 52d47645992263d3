"""A Parquet history of registers through Spark: the verdict, the keys and the words of the checker on one machine."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.tables import operations_file as table_file
from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.cli import main
from fencepost.harness.history import History, OpEvent, Outcome, PhaseEvent
from fencepost.harness.results.columns import write_parquet
from fencepost.harness.verdict import Facts, Thresholds
from fencepost.warehouse.by_spark import register_histories
from tests.histories.language import cases
from tests.warehouse.handle import handle_of

pytestmark = pytest.mark.spark

FACTS = Facts(system="", workload="cas-register", nodes=(), guarantees=(), thresholds=Thresholds(exposure_min=0))


def one_history() -> list[OpEvent]:
    """All kept histories of registers as one: keys and processes apart, values of every type."""
    events: list[OpEvent] = []
    for number, case in enumerate(cases("register")):
        own = [event for event in case.history.events if type(event) is OpEvent]
        for event in own:
            events.append(
                msgspec.structs.replace(
                    event,
                    index=len(events),
                    time_ns=len(events) * 1000,
                    key=None if number == 0 else f"{number} {event.key}",
                    process=event.process + number * 1_000_000,
                    value=_typed(event.value, number),
                )
            )
    return events


def _typed(value: Any, number: int) -> Any:
    """Numbers, texts, fractions, booleans and lists, by the case."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_typed(part, number) for part in value]
    return (value, str(value), value + 0.5, [value], value if value > 1 else bool(value))[number % 5]


def stored(events: list[Any], path: Path) -> str:
    write_parquet(events, path)
    return str(path)


@pytest.mark.slow
def test_equals_the_checker_on_one_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.warehouse.by_spark.registers.BATCH_ROWS", 5)
    monkeypatch.setattr("fencepost.checkers.tables.operations._WITNESSES_MAX", 1000)
    monkeypatch.setattr("fencepost.checkers.findings.finding.WITNESSES_MAX", 1000)
    events = one_history()
    (expected,) = linearizable.check(History(events), FACTS)
    found = register_histories.check(spark, stored(events, tmp_path / "history.parquet"), FACTS)
    assert (found.validity, found.reason, found.anomalies) == ("invalid", expected.reason, expected.anomalies)
    for name in ("keys", "operations", "info_operations"):
        assert found.figures.plain()[name] == expected.figures.plain()[name], name
    assert found.exposure == expected.exposure
    # The same words of the same keys, which come in another order.
    here, there = (sorted(verdict.witnesses, key=repr) for verdict in (found, expected))
    assert here == there and len(here) == sum(expected.anomalies.values())


@pytest.mark.long
def test_a_written_table_is_judged_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    events = one_history()
    (expected,) = linearizable.check(History(events), FACTS)
    register_histories.write_table(spark, stored(events, tmp_path / "history.parquet"), str(tmp_path / "table"))
    found = table_file.check(tmp_path / "table", FACTS)
    assert (found.validity, found.reason, found.exposure) == (expected.validity, expected.reason, expected.exposure)
    assert Counter(found.anomalies).total() == Counter(expected.anomalies).total()


def op(index: int, kind: str, process: int = 0, **more: Any) -> OpEvent:
    fields: dict[str, Any] = {"f": "write", "node": "n1", "key": "k", "value": 1, "time_ns": index * 10} | more
    return OpEvent(index=index, type=Outcome(kind), process=process, **fields)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([op(0, "invoke"), op(1, "invoke")], "event 1: its process has an open operation"),
        ([op(0, "invoke"), op(1, "info"), op(2, "invoke")], "event 2: its process acts after info"),
        pytest.param(
            [op(0, "invoke"), op(1, "ok", key="other")],
            "event 1: it completes no open operation of its process",
            marks=pytest.mark.long,
        ),
        pytest.param(
            [op(0, "invoke", time_ns=7), op(1, "ok", time_ns=6)],
            "event 1: its time is before that of its process",
            marks=pytest.mark.long,
        ),
        pytest.param([op(0, "ok")], "event 0: it completes no open operation", marks=pytest.mark.long),
    ],
)
def test_a_broken_rule_is_named(spark: SparkSession, tmp_path: Path, events: list[OpEvent], said: str) -> None:
    uri = stored(events, tmp_path / "history.parquet")
    with pytest.raises(MalformedHistory) as refused:
        register_histories.check(spark, uri, FACTS)
    assert refused.value.message.startswith(f"{uri}: {said}")


@pytest.mark.long
def test_the_command_takes_a_history(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = stored(one_history(), tmp_path / "copy.parquet")
    monkeypatch.setattr("fencepost.warehouse.spark_session.SparkHandle", handle_of(spark, []))
    assert main(["check", uri, "--spark", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["form"] == "parquet" and "by spark" in said.err


def test_flags_that_need_events_are_refused(tmp_path: Path, capsys: Any) -> None:
    uri = stored([op(0, "invoke"), op(1, "ok")], tmp_path / "copy.parquet")
    for flag in (["--also", "porcupine"], ["--report", str(tmp_path / "new.html")], ["--consistency", "serializable"]):
        assert main(["check", uri, "--spark", *flag]) == 254
        assert f"{flag[0]} is for histories that are judged from their events" in capsys.readouterr().err


@pytest.mark.long
def test_other_operations_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri = stored([op(0, "invoke", f="add"), op(1, "ok", f="add")], tmp_path / "history.parquet")
    with pytest.raises(UsageError, match="operations add: only registers"):
        register_histories.check(spark, uri, FACTS)


@pytest.mark.long
def test_nothing_to_judge_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    events = [PhaseEvent(index=0, time_ns=0, phase="main"), op(1, "invoke"), op(2, "fail")]  # type: ignore[arg-type]
    verdict = register_histories.check(spark, stored(events, tmp_path / "history.parquet"), FACTS)
    assert (verdict.validity, verdict.reason) == ("unknown", "no read, write or cas in this table")
