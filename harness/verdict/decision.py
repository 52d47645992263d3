"""What decides a run, said once: for its exit code, its headline, JUnit and the page.

A violation of a guarantee that is promised, or that the plan requires by name, makes a run `invalid`, whichever checker
found it. What must be known for `valid`: the guarantee that the run is about, those that the plan requires, the
coverage, and what a checker that failed would have said.
"""

from typing import Final

from fencepost.harness.verdict.verdict import Cause, Facts, Validity, Verdict

#: The checker that says whether the run put anything to the test.
COVERAGE: Final = "coverage"


def decides(verdict: Verdict, facts: Facts) -> bool:
    """Whether this verdict keeps the run from being valid."""
    match verdict.validity:
        case Validity.INVALID:
            return facts.decides(verdict.guarantee)
        case Validity.UNKNOWN:
            return must_be_known(verdict, facts)
        case Validity.VALID:
            return False


def must_be_known(verdict: Verdict, facts: Facts) -> bool:
    """Whether this verdict, if unknown, keeps the run from being valid."""
    return verdict.weighs and (
        verdict.guarantee in (facts.read_guarantee, *facts.required)
        or verdict.checker == COVERAGE
        or verdict.cause is Cause.FAILED
    )
