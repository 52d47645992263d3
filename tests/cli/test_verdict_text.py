"""The terminal after a run: the first three lines say what happened, whom it concerns, and the next command."""

import msgspec
import pytest

from fencepost.harness.cli.output.verdict_text import say_judgement
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.verdict import Cause, Facts, Guarantee, Standing, Validity, Verdict, Witness
from fencepost.harness.verdict.figures import Traced

FACTS = Facts(
    system="etcd",
    workload="register",
    nodes=("n1", "n2", "n3"),
    guarantees=(
        Guarantee(name="linearizable", standing=Standing.PROMISED, text="One order, in real time.", source="manual"),
    ),
    required=(),
    read_guarantee="linearizable",
)
COVERAGE = Verdict(
    checker="coverage", guarantee="coverage", validity=Validity.VALID, exposure=Traced(1650), exposure_of="ops"
)


def _linearizable(validity: Validity, reason: str) -> Verdict:
    return Verdict(
        checker="linearizable", guarantee="linearizable", validity=validity, reason=reason, exposure=Traced(214)
    )


def _print(capsys: pytest.CaptureFixture[str], verdict: Verdict, headline: str, *more: Verdict) -> list[str]:
    judgement = Judgement(
        validity=verdict.validity, headline=headline, verdicts=(verdict, *more, COVERAGE), facts=FACTS
    )
    say_judgement(judgement, folder="results/x")
    return capsys.readouterr().out.splitlines()


def test_an_invalid_run(capsys: pytest.CaptureFixture[str]) -> None:
    witness = Witness(
        anomaly="stale-read", steps=("A read returned 1.", "2 was written before."), events=(1, 2), from_ns=0, to_ns=9
    )
    verdict = msgspec.structs.replace(
        _linearizable(Validity.INVALID, "a read is stale"), anomalies={"stale-read": Traced(1)}, witnesses=(witness,)
    )
    lines = _print(capsys, verdict, "linearizable (promised) is violated: 1 stale read")
    assert lines[:3] == [
        "INVALID: linearizable (promised) is violated: 1 stale read",
        "This concerns everybody who relies on linearizable: One order, in real time. The maker promises it.",
        "Next: fencepost replay results/x --times 10  # runs the same faults again and counts how often it happens",
    ]
    assert lines[4] == "witness (stale-read):"
    assert "  invalid  linearizable (promised): 1 stale read; tested 214 times" in lines
    coverage = (
        "  valid    coverage: enough operations ran, and enough of them while a fault was in force; tested 1,650 times"
    )
    assert lines[-1] == coverage


def test_a_valid_run_has_no_words_of_faults(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print(capsys, _linearizable(Validity.VALID, ""), "3,011 operations: no violation found")
    assert lines[0] == "VALID: 3,011 operations: no violation found"
    assert lines[1] == "Tested: linearizable (214 times)."
    assert lines[2].startswith("Next: fencepost run results/x/plan.toml --times 10  # ")
    assert "  valid    linearizable (promised): no violation found; tested 214 times" in lines
    assert not any("exposure" in line for line in lines)


def test_a_valid_guarantee_rests_on_the_checker_that_was_put_to_the_test(capsys: pytest.CaptureFixture[str]) -> None:
    fresh = Verdict(
        checker="freshness",
        guarantee="linearizable",
        validity=Validity.UNKNOWN,
        cause=Cause.NO_EXPOSURE,
        reason="no read came after a newer write",
        weighs=False,
    )
    lines = _print(capsys, _linearizable(Validity.VALID, ""), "no violation found", fresh)
    said = "no violation found; the checker freshness had nothing to judge: no read came after a newer write"
    assert f"  valid    linearizable (promised): {said}; tested 214 times" in lines


def test_an_unknown_run_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print(capsys, _linearizable(Validity.UNKNOWN, "the budget was spent"), "the budget was spent")
    assert lines[0] == "UNKNOWN: the budget was spent"
    assert lines[1] == "This run is not a pass: it does not show whether linearizable was kept."
    assert lines[2].startswith("Next: fencepost ")
