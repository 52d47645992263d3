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
    assert verdict.counts == {name: case.anomalies.count(name) for name in case.anomalies}
    assert verdict.guarantee == "no-lost-acknowledged-writes"


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
    assert judge(" ".join([*words, "|", f"e:m{rest}"])).counts == {"lost-write": 1}
