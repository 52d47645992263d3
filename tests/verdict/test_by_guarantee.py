"""One line for each guarantee: every violation counted once, and checkers that contradict each other told."""

import msgspec
import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.verdict import Cause, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import by_guarantee, counts_in_words, exit_code
from fencepost.harness.verdict.figures import tally
from tests.checkers.build import Tale, facts

_STALE = "stale-read"
_OLD_LEADER = "stale-answer-by-superseded-leader"


def said(
    checker: str, validity: Validity, *, complete: bool = False, confirmed: bool = False, **anomalies: tuple[int, ...]
) -> Verdict:
    return Verdict(
        checker=checker,
        guarantee="linearizable",
        validity=validity,
        reason=f"{checker} says so",
        anomalies={name.replace("_", "-"): tally(rows) for name, rows in anomalies.items()},
        complete=complete,
        confirmed=confirmed,
    )


@pytest.mark.parametrize(
    ("stale", "by_old_leader", "expected"),
    [
        ((3, 5, 7), (3, 5, 7), "3 stale reads (all of them stale answers by a superseded leader)"),
        ((3, 5, 7), (5,), "3 stale reads (1 of them stale answer by a superseded leader)"),
        ((3, 5, 7), (5, 9), "3 stale reads, 2 stale answers by a superseded leader"),
    ],
)
def test_reads_that_two_rules_name_are_counted_once(
    stale: tuple[int, ...], by_old_leader: tuple[int, ...], expected: str
) -> None:
    verdicts = [
        said("freshness", Validity.INVALID, stale_read=stale),
        said("leadership", Validity.INVALID, stale_answer_by_superseded_leader=by_old_leader),
    ]
    assert counts_in_words(verdicts) == expected


def test_one_anomaly_that_two_checkers_count_is_counted_once_where_its_rows_are_known() -> None:
    layers = [said("a", Validity.INVALID, lost_write=(1, 2)), said("b", Validity.INVALID, lost_write=(2, 4))]
    assert counts_in_words(layers) == "3 lost writes"


@pytest.mark.parametrize(
    ("complete", "expected"), [(True, Validity.VALID), (False, Validity.UNKNOWN)], ids=["complete", "in part"]
)
def test_who_decides_a_guarantee_whole_answers_for_those_who_had_nothing_to_judge(
    complete: bool, expected: Validity
) -> None:
    unexposed = msgspec.structs.replace(said("freshness", Validity.UNKNOWN), cause=Cause.NO_EXPOSURE)
    kept = said("linearizable", Validity.VALID, complete=complete)
    assert conclude(Tale().history(), facts(), (unexposed, kept)).validity is expected
    doubtful = msgspec.structs.replace(unexposed, cause=Cause.STALLED)
    assert conclude(Tale().history(), facts(), (doubtful, kept)).validity is Validity.UNKNOWN


@pytest.mark.parametrize(
    ("kept", "violation", "validity", "code"),
    [
        # Only a complete checker can contradict another one.
        (said("a", Validity.VALID), said("b", Validity.INVALID, lost=(1,)), Validity.INVALID, ExitCode.INVALID),
        (
            said("a", Validity.VALID, complete=True),
            said("b", Validity.INVALID, lost=(1,)),
            Validity.UNKNOWN,
            ExitCode.INTERNAL,
        ),
        (
            said("a", Validity.VALID, complete=True),
            said("b", Validity.INVALID, confirmed=True, lost=(1,)),
            Validity.INVALID,
            ExitCode.INVALID,
        ),
    ],
)
def test_checkers_that_contradict_each_other(
    kept: Verdict, violation: Verdict, validity: Validity, code: ExitCode
) -> None:
    (line,) = by_guarantee([kept, violation], facts())
    assert (line.validity, line.effect) == (validity, validity)
    assert exit_code(validity, [kept, violation], facts()) is code
    if line.contradiction:
        assert "a says so" in line.contradiction and "b says so" in line.contradiction
