"""The first three lines: what happened, whom it concerns, the next command; and anomalies counted in words."""

import msgspec
import pytest

from fencepost.harness.verdict import Cause, Guarantee, Standing, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import Opening, by_guarantee, opening
from fencepost.harness.verdict.figures import Traced
from fencepost.harness.verdict.guarantee import anomaly_count
from tests.checkers.build import facts

_PROMISE = Guarantee(name="linearizable", standing=Standing.PROMISED, text="Reads are current.", source="the manual")


def opened(validity: Validity, *, folder: str | None = "results/a run", cause: Cause | None = None) -> Opening:
    verdict = Verdict(checker="c", guarantee="linearizable", validity=validity, cause=cause, exposure=Traced(3011))
    given = facts(guarantees=(_PROMISE,))
    return opening(validity, "one sentence", by_guarantee([verdict], given), given, folder)


@pytest.mark.parametrize(
    ("validity", "cause", "concerns", "command"),
    [
        (
            Validity.INVALID,
            None,
            "This concerns everybody who relies on linearizable: Reads are current. The maker promises it.",
            "fencepost replay 'results/a run' --times 10",
        ),
        (
            Validity.UNKNOWN,
            Cause.CUT_SHORT,
            "This run is not a pass: it does not show whether linearizable was kept.",
            "fencepost run 'results/a run/plan.toml'",
        ),
        (
            Validity.UNKNOWN,
            Cause.NO_EXPOSURE,
            "This run is not a pass: it does not show whether linearizable was kept.",
            "fencepost run 'results/a run/plan.toml' --time-limit 2m",
        ),
        (
            Validity.VALID,
            None,
            "Tested: linearizable (3,011 times).",
            "fencepost run 'results/a run/plan.toml' --times 10",
        ),
    ],
)
def test_three_lines(validity: Validity, cause: Cause | None, concerns: str, command: str) -> None:
    lines = opened(validity, cause=cause)
    assert (lines.headline, lines.concerns, lines.next_command) == ("one sentence", concerns, command)
    assert lines.next_why


def test_of_a_run_that_tested_too_little_its_guarantee_is_named() -> None:
    given = facts(guarantees=(_PROMISE,))
    verdict = Verdict(checker="coverage", guarantee="coverage", validity=Validity.UNKNOWN, cause=Cause.NO_EXPOSURE)
    lines = by_guarantee([verdict], given)
    concerns = opening(Validity.UNKNOWN, "no fault took hold", lines, given, None).concerns
    assert concerns == f"This run is not a pass: it does not show whether {given.read_guarantee} was kept."


@pytest.mark.parametrize("validity", Validity)
@pytest.mark.parametrize("standing", Standing)
def test_of_a_run_that_lacks_something_else_no_judged_guarantee_is_called_open(
    validity: Validity, standing: Standing
) -> None:
    given = facts(guarantees=(msgspec.structs.replace(_PROMISE, standing=standing),))
    verdicts = [
        Verdict(checker="coverage", guarantee="coverage", validity=Validity.UNKNOWN, cause=Cause.NO_EXPOSURE),
        Verdict(checker="c", guarantee=given.read_guarantee, validity=validity, exposure=Traced(7)),
    ]
    concerns = opening(Validity.UNKNOWN, "no fault", by_guarantee(verdicts, given), given, None).concerns
    assert concerns.startswith("This run is not a pass: ")
    assert ("does not show whether" in concerns) is (validity is Validity.UNKNOWN)
    assert f"{validity} for {given.read_guarantee}" in concerns or validity is Validity.UNKNOWN


def test_a_history_without_a_folder_has_no_next_command() -> None:
    assert opened(Validity.INVALID, folder=None).next_command is None


@pytest.mark.parametrize(
    ("count", "anomaly", "expected"),
    [
        (1, "stale-read", "1 stale read"),
        (8, "stale-read", "8 stale reads"),
        (2, "stale-answer-by-superseded-leader", "2 stale answers by a superseded leader"),
        (2, "value-from-nowhere", "2 values from nowhere"),
        (3, "stale-leader-epoch", "3 stale leader epochs"),
        (1, "view-went-back", "view went back once"),
        (3, "view-went-back", "view went back 3 times"),
        (2, "G2-item", "2 G2-item anomalies"),
        (1, "G-single-realtime", "1 G-single-realtime anomaly"),
    ],
)
def test_anomalies_in_words(count: int, anomaly: str, expected: str) -> None:
    assert anomaly_count(count, anomaly) == expected
