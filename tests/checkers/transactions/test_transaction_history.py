"""Transactions as a run's history tells them: `txn` operations with their micro-operations."""

from typing import Any

import msgspec
import pytest

from fencepost.checkers.transactions.history import check_lists, check_registers, encode
from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.cli.output.verdict_text import guarantee_line
from fencepost.harness.history import History, OpEvent, Outcome
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.report.tables import counted_anomalies
from fencepost.harness.verdict import Facts, Validity, violations_of
from fencepost.harness.verdict.by_guarantee import by_guarantee

FACTS = Facts(system="imaginary", workload="imaginary", nodes=("n1",), guarantees=())


def told(*txns: tuple[str, list[Any], list[Any] | None]) -> History:
    """All invoked before any is completed; each is (outcome, invoked, answered)."""
    events: list[tuple[int, Outcome, list[Any] | None]] = []
    for process, (_, invoked, _) in enumerate(txns):
        events.append((process, Outcome.INVOKE, invoked))
    for process, (outcome, _, answered) in enumerate(txns):
        events.append((process, Outcome(outcome), answered))
    return History(
        [
            OpEvent(index=place, time_ns=place, process=process, f="txn", node="n1", type=outcome, value=value)
            for place, (process, outcome, value) in enumerate(events)
        ]
    )


def test_a_cycle_of_lists_is_told_with_its_events() -> None:
    history = told(
        ("ok", [["append", "x", 1], ["append", "y", "one"]], [["append", "x", 1], ["append", "y", "one"]]),
        ("ok", [["r", "x", None], ["r", "y", None]], [["r", "x", None], ["r", "y", ["one"]]]),
    )
    (verdict,) = check_lists(history, FACTS)
    assert (verdict.validity, verdict.counts, verdict.tested) == (Validity.INVALID, {"G-single": 1}, 2)
    (witness,) = verdict.witnesses
    assert witness.events == (0, 1, 2, 3)
    assert "T1 read one from key y, which T0 had appended" in witness.steps[1]
    assert verdict.figures["weakest_ruled_out"] == ("consistent-view", "repeatable-read")
    assert verdict.violating_rows == (3,)


def test_registers_of_any_value_with_unknown_outcomes() -> None:
    history = told(
        ("info", [[":w", "x", [1, 2]], [":r", "x", None]], None),
        ("ok", [["r", "x", None]], [["r", "x", [1, 2]]]),
        ("fail", [["w", "x", "a"]], None),
        ("ok", [["r", "y", None]], [["r", "y", None]]),
    )
    (verdict,) = check_registers(history, FACTS)
    assert (verdict.validity, verdict.counts) == (Validity.VALID, {})


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(
    "value", [5, [["cas", "x", 1]], [["r", "x"]], [["append", "x", None]], [["w", "x", None]], [{"r": 1}]]
)
def test_what_is_no_micro_operation_is_refused(value: Any, lists: bool) -> None:
    with pytest.raises(MalformedHistory, match="event 0: in a transaction, expected"):
        encode(told(("ok", value, value)).operations, lists=lists)


def test_a_list_is_read_or_nothing() -> None:
    with pytest.raises(MalformedHistory, match="expected a list"):
        encode(told(("ok", [["r", "x", None]], [["r", "x", 3]])).operations, lists=True)


def test_the_model_that_is_required_is_judged() -> None:
    skew = [
        ("ok", [["r", "x", None], ["append", "y", 1]], [["r", "x", []], ["append", "y", 1]]),
        ("ok", [["r", "y", None], ["append", "x", 1]], [["r", "y", []], ["append", "x", 1]]),
    ]
    for model, validity in (("snapshot-isolation", Validity.VALID), ("repeatable-read", Validity.INVALID)):
        (verdict,) = check_lists(told(*skew), msgspec.structs.replace(FACTS, required=(model,)))
        assert (verdict.validity, verdict.guarantee) == (validity, model)
    with pytest.raises(UsageError, match="unknown consistency model 'sequential'"):
        check_lists(told(*skew), msgspec.structs.replace(FACTS, required=("sequential",)))


def test_what_the_model_allows_is_told_and_held_against_nothing() -> None:
    skew = [
        ("ok", [["r", "x", None], ["append", "y", 1]], [["r", "x", []], ["append", "y", 1]]),
        ("ok", [["r", "y", None], ["append", "x", 1]], [["r", "y", []], ["append", "x", 1]]),
    ]
    circular = [
        ("ok", [["append", "a", 1], ["r", "b", None]], [["append", "a", 1], ["r", "b", [1]]]),
        ("ok", [["append", "b", 1], ["r", "a", None]], [["append", "b", 1], ["r", "a", [1]]]),
    ]
    snapshot = msgspec.structs.replace(FACTS, required=("snapshot-isolation",), read_guarantee="snapshot-isolation")
    beside = "allowed by snapshot-isolation: 1 G2-item anomaly"
    cases: list[tuple[list[Any], Validity, str, str]] = [
        (skew, Validity.VALID, "2 operations: no violation of snapshot-isolation was found", "no violation found"),
        (skew + circular, Validity.INVALID, "snapshot-isolation is violated: 1 G1c anomaly", "1 G1c anomaly"),
    ]
    for txns, validity, headline, said in cases:
        history = told(*txns)
        (verdict,) = check_lists(history, snapshot)
        assert (verdict.validity, verdict.allowed) == (validity, ("G2-item",))
        assert violations_of([verdict]) == ({} if validity is Validity.VALID else {"G1c": 1})
        assert conclude(history, snapshot, (verdict,)).headline == headline
        (line,) = by_guarantee([verdict], snapshot)
        assert f": {said}; {beside}; tested" in guarantee_line(line, snapshot)
        assert counted_anomalies([verdict])[-1] == "1 G2-item anomaly (allowed by snapshot-isolation)"
    (verdict,) = check_lists(told(*skew), msgspec.structs.replace(FACTS, required=("serializable",)))
    assert violations_of([verdict]) == verdict.counts == {"G2-item": 1} and verdict.allowed == ()
