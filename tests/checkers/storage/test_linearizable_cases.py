"""The linearizable checker says of every kept history what its line wants, and its witness can be read."""

import msgspec
import pytest

from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.storage.register_anomalies import CAS_REGISTER, encode
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, OpEvent
from fencepost.harness.verdict import Facts, Thresholds, Verdict
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
    assert (verdict.validity.value, tuple(verdict.counts)) == (case.verdict, case.anomalies), verdict
    assert verdict.reason
    for witness in verdict.witnesses:
        events = [case.history.events[index] for index in witness.events]
        assert all(isinstance(event, OpEvent) and event.key == witness.key for event in events)
        assert list(witness.events) == sorted(set(witness.events))
        assert witness.from_ns == events[0].time_ns <= witness.to_ns
        assert all(step.endswith(".") for step in witness.steps)


def test_a_cas_of_three_values_is_named() -> None:
    history = parse("a:w1 b:c1,2")
    operations = [msgspec.structs.replace(op, value=[1, 2, 3]) if op.f == "cas" else op for op in history.operations]
    with pytest.raises(MalformedHistory, match=r"event 2: the value of a cas is \[old, new\], not \[1, 2, 3\]"):
        encode(operations, CAS_REGISTER)
