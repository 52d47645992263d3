"""Which verdicts decide a run: the one rule for exit code, headline, JUnit and page.

A violation of a guarantee that is promised, or that the plan requires by name, makes a run `invalid`, whichever checker
found it. For `valid` these must be known: the guarantee that the run is about, those that the plan requires, the
coverage, and the verdict of every checker that failed.
"""

from typing import Final

from fencepost.harness.verdict.verdict import Cause, Facts, Validity, Verdict

#: The checker that says whether the run put anything to the test.
COVERAGE: Final = "coverage"


def decides(verdict: Verdict, facts: Facts) -> bool:
    """Decide whether this verdict keeps the run from being valid.

    Args:
        verdict: one checker's word on one guarantee.
        facts: which guarantees are promised, and which the plan requires by name.

    Returns:
        True for `invalid` on a guarantee that is promised or required, and for `unknown` on one that must be known;
        False for `valid`.
    """
    match verdict.validity:
        case Validity.INVALID:
            return facts.decides(verdict.guarantee)
        case Validity.UNKNOWN:
            return must_be_known(verdict, facts)
        case Validity.VALID:
            return False


def must_be_known(verdict: Verdict, facts: Facts) -> bool:
    """Decide whether this verdict, if unknown, keeps the run from being valid.

    Returns:
        True where it weighs and is about the run's own guarantee, a required one or the coverage, or where its checker
        failed.
    """
    return verdict.weighs and (
        verdict.guarantee in (facts.read_guarantee, *facts.required)
        or verdict.checker == COVERAGE
        or verdict.cause is Cause.FAILED
    )
