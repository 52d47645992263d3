"""The lock checker says of every kept history what its line wants, with fencing on and off."""

import pytest

from fencepost.checkers.elections import locks
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Facts, Verdict
from tests.checkers.build import Tale
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
    assert (fenced.validity.value, fenced.figures.plain()["two_holders"]) == ("valid", 1)
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


@pytest.mark.parametrize(
    ("text", "fencing", "chances"),
    [
        (
            "a(k1 a[ a] a)1 b(k2 b[ b] b)2 | c:m1,2",
            "on",
            {"lost-update": 2, "token-order": 1, "stale-token-accepted": 0},
        ),
        ("a(k1 a[ a] a)1 b(k2 b[ b] b)2 | c:m1,2", "off", {"lost-update": 2, "token-order": 1, "two-holders": 1}),
        ("a(k1 a[ a] a)1 | c:m1", "on", {"lost-update": 1, "token-order": 0, "stale-token-accepted": 0}),
    ],
)
def test_each_rule_says_how_often_it_could_have_fired(text: str, fencing: str, chances: dict[str, int]) -> None:
    verdict = judge(parse(text), fencing)
    assert {rule.name: rule.chances for rule in verdict.rules} == chances
    assert all(bool(rule.lacks) is (rule.chances == 0) for rule in verdict.rules)


def test_a_stale_holder_s_write_that_was_refused_is_a_chance_for_fencing() -> None:
    tale = Tale()
    tale.op("critical", "s", 1, at=(0, 10), type=Outcome.FAIL, error="fenced")
    tale.op("critical", "s", 2, at=(20, 30), result=[5, 21_000_000, 29_000_000])
    (rule,) = (rule for rule in judge(tale.history(), "on").rules if rule.name == "stale-token-accepted")
    assert rule.chances == 1
