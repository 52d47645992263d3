"""The set checker says of every kept history what its line wants."""

import random

import pytest

from fencepost.checkers.storage import sets
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.histories.language import Case, cases, parse

FACTS = Facts(system="imaginary", workload="set", nodes=("n1", "n2", "n3"), guarantees=())


def judge(words: str, facts: Facts = FACTS) -> Verdict:
    (verdict,) = sets.check(parse(words), facts)
    return verdict


@pytest.mark.parametrize("case", cases("set"), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    (verdict,) = sets.check(case.history, FACTS)
    assert verdict.validity.value == case.verdict, verdict
    assert verdict.anomalies == {name: case.anomalies.count(name) for name in case.anomalies}
    assert verdict.guarantee == "no-lost-acknowledged-writes"


def test_figures_and_exposure() -> None:
    verdict = judge("a:+1 b(+2 b? c(+3 c? d(+4 d! a:+5 | c(m a:+6 c)1,2,5,5")
    assert verdict.validity is Validity.VALID
    assert verdict.exposure == 2  # 6 was acknowledged only after the read was invoked
    assert verdict.figures == {
        "adds_ok": 3,
        "adds_fail": 1,
        "adds_info": 2,
        "recovered": 1,
        "strong_reads": 1,
        "final_reads": 1,
        "duplicates": 1,
    }


def test_the_witness_names_add_last_sight_and_final_read() -> None:
    (witness,) = judge("a:+1 b:m1 a:+2 | c:m2").witnesses
    assert witness.anomaly == "lost-write"
    assert witness.events == (0, 1, 2, 3, 7, 8)
    assert "add of 1 by process 97 on n2 (event 0) was acknowledged at 0.001000 s." in witness.steps


def test_reads_that_may_lag_prove_nothing() -> None:
    weak = Facts(system="i", workload="set", nodes=("n1",), guarantees=(), options={"members": "plain"})
    verdict = judge("a:+1 | c:m_", weak)
    assert verdict.validity is Validity.UNKNOWN
    assert not verdict.anomalies


@pytest.mark.parametrize("seed", range(5))
def test_a_correct_set_passes_and_a_forgetful_one_does_not(seed: int) -> None:
    rng = random.Random(seed)
    words, members = [], []
    for element in range(1, 200):
        words.append(f"{rng.choice('abcd')}:+{element}")
        members.append(element)
        if rng.random() < 0.1:
            words.append("e:m" + ",".join(map(str, members)))
    whole = ",".join(map(str, members))
    assert judge(" ".join([*words, "|", f"e:m{whole}"])).validity is Validity.VALID
    lost = rng.choice(members)
    rest = ",".join(str(member) for member in members if member != lost)
    assert judge(" ".join([*words, "|", f"e:m{rest}"])).anomalies == {"lost-write": 1}
