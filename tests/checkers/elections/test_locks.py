"""The lock checker says of every kept history what its line wants, with fencing on and off."""

import pytest

from fencepost.checkers.elections import locks
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from tests.histories.language import Case, cases, parse

GUARANTEES = {"on": "fenced-lock", "off": "lock-mutual-exclusion"}
JUDGED = [
    *((case, fencing) for case in cases("lock") for fencing in GUARANTEES),
    *((case, "on") for case in cases("fenced")),
    *((case, "off") for case in cases("unfenced")),
]


def judge(history: History, fencing: str) -> Verdict:
    facts = Facts(system="i", workload="lock", nodes=("n1",), guarantees=(), options={"fencing": fencing})
    (verdict,) = locks.check(history, facts)
    return verdict


@pytest.mark.parametrize(
    ("case", "fencing"), JUDGED, ids=[f"{case.name}-fencing-{fencing}" for case, fencing in JUDGED]
)
def test_case(case: Case, fencing: str) -> None:
    verdict = judge(case.history, fencing)
    assert verdict.validity.value == case.verdict, verdict
    assert verdict.anomalies == {name: case.anomalies.count(name) for name in case.anomalies}
    assert verdict.guarantee == GUARANTEES[fencing]


def test_two_believers_are_a_figure_with_fencing_and_an_anomaly_without() -> None:
    history = parse("a(k1 a[ b(k2 b[ b] a] b)2 a)1 | c:m2,1")
    fenced, unfenced = judge(history, "on"), judge(history, "off")
    assert (fenced.validity.value, fenced.figures["two_holders"]) == ("valid", 1)
    assert (unfenced.validity.value, unfenced.anomalies) == ("invalid", {"two-holders": 1})
    (witness,) = unfenced.witnesses
    assert witness.steps[-1] == "For 1.000 ms both believed that they held the lock."


def test_every_kind_of_anomaly_is_shown_before_a_second_of_one_kind() -> None:
    lost = " ".join(f"a(k{i} a[ a] a){i}" for i in range(1, 9))
    verdict = judge(parse(f"{lost} b(k9 b[ b] b)8 | c:m9"), "on")
    assert verdict.anomalies == {"lost-update": 8, "token-order": 1}
    assert [witness.anomaly for witness in verdict.witnesses][:3] == ["lost-update", "token-order", "lost-update"]


def test_a_result_that_means_nothing_is_named() -> None:
    with pytest.raises(MalformedHistory, match=r"event 1: a critical section's result is \[token"):
        judge(parse("a(k1 a[ a)1"), "on")
