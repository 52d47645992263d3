"""The ladder: a finding beats every doubt, a doubt beats exposure, and only what was tested is valid."""

import pytest

from fencepost.checkers.violations.finding import Doubt, Finding, Findings, few_of_each, one_of_each_first
from fencepost.harness.verdict import Cause, Rule, Validity
from tests.checkers.build import facts

_DOUBT = Doubt(Cause.STALLED, "the machine stood still")


def found(*names: str) -> list[Finding]:
    return [Finding(anomaly=name, steps=(), counted_by=i, from_ns=0, to_ns=1) for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("findings", "doubt", "exposed", "expected"),
    [
        (
            ("lost-write", "stale-read", "lost-write"),
            _DOUBT,
            (),
            (Validity.INVALID, "2 lost writes, 1 stale read", None),
        ),
        ((), _DOUBT, (), (Validity.UNKNOWN, "the machine stood still", Cause.STALLED)),
        ((), None, (), (Validity.UNKNOWN, "0 reads; at least 1 are asked for", Cause.NO_EXPOSURE)),
        ((), None, (4,), (Validity.VALID, "all current", None)),
    ],
)
def test_rungs(
    findings: tuple[str, ...],
    doubt: Doubt | None,
    exposed: tuple[int, ...],
    expected: tuple[Validity, str, Cause | None],
) -> None:
    verdict = Findings(
        checker="c",
        guarantee="g",
        findings=found(*findings),
        doubt=doubt,
        exposed=exposed,
        exposure_of="reads",
        kept="all current",
    ).verdict(facts())
    assert (verdict.validity, verdict.reason, verdict.cause) == expected
    assert "lost-write" not in verdict.anomalies or verdict.anomalies["lost-write"].rows == (0, 2)
    assert bool(verdict.anomalies) is bool(findings)


def test_every_anomaly_is_shown_before_one_is_shown_again() -> None:
    many = found("a", "a", "a", "b", "a", "c")
    assert [f.anomaly for f in one_of_each_first(many)] == ["a", "b", "c", "a", "a", "a"]
    assert [f.anomaly for f in few_of_each(many, 2)] == ["a", "a", "b", "c"]


@pytest.mark.parametrize(("chances", "expected"), [((0, 0), Validity.UNKNOWN), ((0, 3), Validity.VALID)])
def test_a_pass_in_which_no_rule_could_have_fired_is_unknown(chances: tuple[int, int], expected: Validity) -> None:
    """Exposure alone does not make a pass: one of the checker's rules must have had its chance."""
    lost, stamped = chances
    verdict = Findings(
        checker="c",
        guarantee="g",
        exposed=(4, 5, 6),
        exposure_of="reads",
        rules=(
            Rule(name="lost", chances=lost, lacks="no final read"),
            Rule(name="stamped", chances=stamped, lacks="no stamp"),
        ),
    ).verdict(facts())
    assert verdict.validity is expected
    if expected is Validity.UNKNOWN:
        assert verdict.reason == "no rule could have fired: lost: no final read; stamped: no stamp"
        assert verdict.cause is Cause.NO_EXPOSURE
