"""A checker that raises keeps a run from being valid, whatever its guarantee, and never by the words of its reason."""

from pathlib import Path

import pytest

from fencepost.checkers import coverage
from fencepost.harness.history import History
from fencepost.harness.judging import judge as judging
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Facts, Guarantee, Standing, Validity, Verdict
from fencepost.harness.verdict.figures import Traced
from tests.checkers.build import Tale

_FACTS = Facts(
    system="etcd",
    workload="register",
    nodes=("n1", "n2", "n3"),
    guarantees=(Guarantee(name="beside", standing=Standing.MEASURED, text="a figure", source="nobody"),),
)
_KEPT = Verdict(checker="linearizable", guarantee="linearizable", validity=Validity.VALID, exposure=Traced(9))


def _beside(cause: Cause | None) -> Verdict:
    return Verdict(checker="beside", guarantee="beside", validity=Validity.UNKNOWN, reason="so it ended", cause=cause)


@pytest.mark.parametrize(("cause", "expected"), [(Cause.FAILED, Validity.UNKNOWN), (Cause.NO_EXPOSURE, Validity.VALID)])
def test_a_checker_that_failed_weighs_on_any_guarantee(cause: Cause, expected: Validity) -> None:
    judgement = conclude(Tale().history(), _FACTS, (_KEPT, _beside(cause)))
    assert judgement.validity is expected


def test_a_checker_that_raises_is_unknown_and_says_that_it_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def raises(history: History, facts: Facts) -> list[Verdict]:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(registry, "checker", lambda name: raises if name == "beside" else coverage.check)
    (verdict,) = judging._guarded("beside", Tale().history(), _FACTS, tmp_path)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.FAILED)
    assert "ZeroDivisionError: by nothing" in (tmp_path / judging.CHECKER_LOG).read_text()
