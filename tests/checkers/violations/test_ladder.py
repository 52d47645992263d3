"""The ladder: a finding beats every doubt, a doubt beats exposure, and only what was tested is valid."""

import pytest

from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, one_of_each_first
from fencepost.harness.verdict import Cause, Validity
from fencepost.harness.verdict.figures import Traced
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
        ((), None, (), (Validity.UNKNOWN, "no reads", Cause.NO_EXPOSURE)),
        ((), None, (4,), (Validity.VALID, "all current", None)),
    ],
)
def test_rungs(
    findings: tuple[str, ...],
    doubt: Doubt | None,
    exposed: tuple[int, ...],
    expected: tuple[Validity, str, Cause | None],
) -> None:
    judged = Rule(guarantee="g", anomaly="lost-write", tested="reads").tally(found(*findings), exposed)
    said = verdict(facts(), judged, doubt=doubt, kept="all current")
    assert (said.validity, said.reason, said.cause) == expected
    assert "lost-write" not in said.anomalies or said.anomalies["lost-write"].rows == (0, 2)
    assert bool(said.anomalies) is bool(findings)
    assert said.exposure == Traced(len(exposed), exposed)


def test_every_anomaly_is_shown_before_one_is_shown_again() -> None:
    many = found("a", "a", "a", "b", "a", "c")
    assert [f.anomaly for f in one_of_each_first(many)] == ["a", "b", "c", "a", "a", "a"]


@pytest.mark.parametrize(("chances", "expected"), [((0, 0), Validity.UNKNOWN), ((0, 3), Validity.VALID)])
def test_a_pass_in_which_no_rule_could_have_fired_is_unknown(chances: tuple[int, int], expected: Validity) -> None:
    """Exposure alone does not make a pass: one of the checker's rules must have had its chance."""
    lost, stamped = chances
    said = verdict(
        facts(),
        Rule(guarantee="g", anomaly="lost", tested="reads", lacks="no final read").tally((), lost),
        Rule(guarantee="g", anomaly="stamped", tested="reads", lacks="no stamp").tally((), stamped),
        exposed=(4, 5, 6),
    )
    assert said.validity is expected
    if expected is Validity.UNKNOWN:
        assert said.reason == "no rule could have fired: lost: no final read; stamped: no stamp"
        assert said.cause is Cause.NO_EXPOSURE
