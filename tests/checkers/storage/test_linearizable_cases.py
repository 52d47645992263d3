"""The linearizable checker says of every kept history what its line wants, and its witness can be read."""

import msgspec
import pytest

from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.storage.register_anomalies import CAS_REGISTER, encode
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, OpEvent
from fencepost.harness.verdict import Budget, Facts, Thresholds, Validity, Verdict
from tests.histories.language import Case, cases, parse

FACTS = Facts(system="imaginary", workload="register", nodes=("n1", "n2", "n3"), guarantees=())
#: Most cases are too short to put anything to the test twice.
UNASKING = msgspec.structs.replace(FACTS, thresholds=Thresholds(exposure_min=0))


def judge(history: History, facts: Facts = FACTS) -> Verdict:
    (verdict,) = linearizable.check(history, facts)
    return verdict


@pytest.mark.parametrize("case", cases("register"), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    verdict = judge(case.history, UNASKING)
    assert (verdict.validity.value, tuple(verdict.anomalies)) == (case.verdict, case.anomalies), verdict
    assert bool(verdict.reason) == (verdict.validity is not Validity.VALID)
    for witness in verdict.witnesses:
        events = [case.history.events[index] for index in witness.events]
        assert all(isinstance(event, OpEvent) and event.key == witness.key for event in events)
        assert list(witness.events) == sorted(set(witness.events))
        assert witness.from_ns == events[0].time_ns <= witness.to_ns
        assert all(step.endswith(".") for step in witness.steps)


@pytest.mark.parametrize("case", cases("vacuous"), ids=lambda case: case.name)
def test_a_pass_without_exposure_is_unknown(case: Case) -> None:
    verdict = judge(case.history)
    assert (verdict.validity.value, verdict.exposure) == (case.verdict, 0)
    assert "at least 1 are asked for" in verdict.reason


def test_stale_read_is_told_in_words() -> None:
    (witness,) = judge(parse("a:w17 b:w21 c:r17")).witnesses
    assert witness.steps == (
        "read of x by process 499 on n1 (event 4) returned 17 (invoked at 0.003000 s, answered at 0.003000 s).",
        "That value came from write of 17 to x by process 97 on n2 (event 0), acknowledged at 0.001000 s.",
        "It was overwritten by write of 21 to x by process 298 on n3 (event 2), acknowledged at 0.002000 s, "
        "before this read was invoked at 0.003000 s.",
        "Up to its answer 2 operations on x are explained by one order; in no order may the register then hold 17.",
        "It can hold only 21.",
        "No order explains even these 3 operations: write of 17 to x (event 0); write of 21 to x (event 2); "
        "read of x that returned 17 (event 4).",
    )
    assert witness.events == (0, 1, 2, 3, 4, 5)
    assert witness.nodes == ("n1", "n2", "n3")


def test_keys_are_judged_apart() -> None:
    verdict = judge(parse("a:w1@x a:w1@y a:w2@x b:r1@y b:r1@x"))
    assert verdict.anomalies == {"stale-read": 1}
    assert verdict.reason == "no order explains 1 of 2 keys"
    assert [witness.key for witness in verdict.witnesses] == ["x"]


def test_exposure_counts_operations_that_could_have_been_caught() -> None:
    verdict = judge(parse("a:r_ a:w1 a:r1 b(r a:w2 b)2 b:c2,3 a:r3 c(r c?"))
    # All but the read of unknown outcome: each has a write or another answer before or behind it.
    assert verdict.exposure == 5
    assert verdict.figures.plain()["info_operations"] == 0
    assert verdict.figures.plain()["unique_values"] is True


def test_repeated_values_are_noticed() -> None:
    assert judge(parse("a:w1 b:w1 b:r1")).figures.plain()["unique_values"] is False


def test_a_spent_budget_is_unknown() -> None:
    history = parse("a:w1 b:w2 c:r1 a:w1@y b:r1@y")
    starved = msgspec.structs.replace(FACTS, budget=Budget(steps=4))
    verdict = judge(history, starved)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason == "0 of 2 keys checked, none invalid; the budget of steps is spent"


def test_a_violation_beats_a_spent_budget() -> None:
    easy, hard = "a:w1 a:w2 b:r1", " ".join("c:w1@y" for _ in range(60))
    verdict = judge(parse(f"{easy} {hard}"), msgspec.structs.replace(FACTS, budget=Budget(steps=40)))
    assert verdict.validity is Validity.INVALID
    assert verdict.reason == "no order explains 1 of 2 keys; 1 more were not finished"


def test_nothing_to_judge_is_unknown() -> None:
    assert judge(parse("a:+1 | a:m1")).validity is Validity.UNKNOWN


def test_a_cas_that_is_none_is_named() -> None:
    with pytest.raises(MalformedHistory, match=r"event 2: the value of a cas is \[old, new\], not 5"):
        judge(parse("a:w1 b:c5"))


def test_a_cas_of_three_values_is_named() -> None:
    history = parse("a:w1 b:c1,2")
    operations = [msgspec.structs.replace(op, value=[1, 2, 3]) if op.f == "cas" else op for op in history.operations]
    with pytest.raises(MalformedHistory, match=r"event 2: the value of a cas is \[old, new\], not \[1, 2, 3\]"):
        encode(operations, CAS_REGISTER)
