"""The lock checker says of every kept history what its line wants, with fencing on and off; see `lock.case`, too."""

import pytest

from fencepost.checkers.elections import locks
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from tests.histories.language import Case, cases

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
    assert verdict.counts == {name: case.anomalies.count(name) for name in case.anomalies}
    assert verdict.guarantee == GUARANTEES[fencing]
