"""The set checker says of every kept history what its line wants."""

import random
from typing import Any

import msgspec
import pytest

from fencepost.checkers.storage import sets
from fencepost.checkers.storage.risk import LACKS
from fencepost.harness.history import Effects, FaultOutcome, PhaseName
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict
from tests.checkers.build import Tale
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
    assert verdict.figures.plain() == {
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


def disturbed(nodes: tuple[str, ...] = ("n1",), **more: Any) -> Verdict:
    """Three adds, then a fault, then one more add and the final read; the plan asks for faults."""
    tale = Tale()
    for element in (1, 2, 3):
        tale.op("add", "x", element, at=(element, element + 0.5))
    tale.op("members", "x", result=[1, 2, 3], at=(4, 4.5))
    tale.fault("kill", nodes, (5, 6, 7, 8), **more)
    tale.op("add", "x", 4, at=(9, 9.5))
    tale.phase(PhaseName.SETTLE, 10)
    tale.op("members", "x", result=[1, 2, 3, 4], at=(11, 12))
    (verdict,) = sets.check(tale.history(), msgspec.structs.replace(FACTS, nemesis=("kill:leader",)))
    return verdict


def test_only_elements_that_a_fault_put_at_risk_are_counted() -> None:
    verdict = disturbed()
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 3)  # the fourth was added after the fault
    assert {rule.name: rule.chances for rule in verdict.rules} == {
        "lost-write": 3,
        "lost-after-seen": 3,
        "phantom-element": 4,
    }


@pytest.mark.parametrize(
    "unharmed",
    [
        {"nodes": ("client-1",)},
        {"effects": Effects(skews=True)},
        {"effects": Effects()},
        {"outcome": FaultOutcome.SKIPPED},
    ],
    ids=["a client", "clocks", "no effect", "skipped"],
)
def test_a_run_that_put_nothing_at_risk_is_unknown(unharmed: dict[str, Any]) -> None:
    verdict = disturbed(**unharmed)
    assert (verdict.validity, verdict.cause, verdict.exposure) == (Validity.UNKNOWN, Cause.NO_EXPOSURE, 0)
    assert verdict.reason.startswith("0 of 4 acknowledged elements were at risk: no leader changed and no fault")
    lacks = {rule.name: rule.lacks for rule in verdict.rules}
    assert lacks["lost-write"] == lacks["lost-after-seen"] == LACKS


def test_a_new_leader_puts_at_risk_what_was_added_before() -> None:
    tale = Tale()
    tale.op("add", "x", 1, at=(1, 1.5), epoch=1)
    tale.op("add", "x", 2, at=(2, 2.5), epoch=2)
    tale.op("add", "x", 3, at=(3, 3.5), epoch=2)
    tale.phase(PhaseName.SETTLE, 10)
    tale.op("members", "x", result=[1, 2, 3], at=(11, 12), epoch=2)
    (verdict,) = sets.check(tale.history(), msgspec.structs.replace(FACTS, nemesis=("clock-skew",)))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 2)


def test_what_is_lost_without_any_fault_is_lost() -> None:
    tale = Tale()
    tale.op("add", "x", 1, at=(1, 2))
    tale.phase(PhaseName.SETTLE, 10)
    tale.op("members", "x", result=[], at=(11, 12))
    (verdict,) = sets.check(tale.history(), msgspec.structs.replace(FACTS, nemesis=("kill",)))
    assert (verdict.validity, verdict.anomalies, verdict.exposure) == (Validity.INVALID, {"lost-write": 1}, 0)
    assert verdict.rules[0].chances == 1
