"""Where a bug begins or ends: releases in order, each tested until it is decided, the next one chosen by halving.

A release is tested by Wald's sequential test ("Sequential Tests of Statistical Hypotheses", 1945): either the bug
shows in `share` of its runs, estimated from the exhibit's measured rate, or in `FALSE_SHARE` of them at most. It stops
as soon as one of the two is out of question. The risk of a wrong answer is split over all tests of a bisection, so the
answer as a whole keeps `RISK`, on condition that no bad release shows the bug more rarely than `share`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.findings.rate import Rate

#: The chance that the answer of a bisection is wrong, at most.
RISK: Final = 0.05
#: So often a release without the bug may show its fingerprint, for another reason.
FALSE_SHARE: Final = 0.01
#: A share near 1 would call a release clean after one run.
_SHARE_MAX: Final = 0.9


class ReleaseState(StrEnum):
    BAD = "bad"
    CLEAN = "clean"
    OPEN = "undecided"


class SequentialTest(msgspec.Struct, frozen=True, kw_only=True):
    """The test of one release: `share` of the runs of a bad one show the bug; `risk` of a wrong answer either way."""

    share: float
    risk: float

    def state(self, rate: Rate) -> ReleaseState:
        """What `rate` says of a release."""
        clean = rate.runs - rate.seen
        likelihood = rate.seen * math.log(self.share / FALSE_SHARE)
        likelihood += clean * math.log((1 - self.share) / (1 - FALSE_SHARE))
        bound = math.log((1 - self.risk) / self.risk)
        if abs(likelihood) < bound:
            return ReleaseState.OPEN
        return ReleaseState.BAD if likelihood > 0 else ReleaseState.CLEAN

    @property
    def clean_runs(self) -> int:
        """After so many runs without the bug a release is clean."""
        return next(n for n in range(1, 10_000) if self.state(Rate(0, n)) is ReleaseState.CLEAN)


def sequential_test(rate: Rate, releases: int) -> SequentialTest:
    """The test for a bug that was measured at `rate`, where a bisection has so many releases to choose from."""
    tests = 2 + max(1, math.ceil(math.log2(max(2, releases - 1))))
    return SequentialTest(share=min(_SHARE_MAX, (rate.seen + 0.5) / (rate.runs + 1)), risk=RISK / tests)


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: `last` is the last release like the first one, `turn` the first one that is not.

    `skipped` are releases between the two that could not be decided, each with the reason. Without `turn` the ends do
    not differ as was said, or could not be decided: `problem` says so.
    """

    last: str = ""
    turn: str = ""
    skipped: Mapping[str, str] = {}
    problem: str = ""


def bisect(
    releases: Sequence[str], first: ReleaseState, decide: Callable[[str], tuple[ReleaseState, str]]
) -> Bisection:
    """Find where releases, in order, change from the state of the `first` one to the other.

    Args:
        decide: tests a release; its state, and why it is open where it is.
    """
    wanted = {releases[0]: first, releases[-1]: _other(first)}
    for release, claim in wanted.items():
        state, why = decide(release)
        if state is not claim:
            about = f" ({why})" if why else ""
            return Bisection(problem=f"{release} was to be {claim}, and is {state}{about}")
    low, high, skipped = 0, len(releases) - 1, dict[str, str]()
    while untried := [n for n in range(low + 1, high) if releases[n] not in skipped]:
        middle = min(untried, key=lambda n: (abs(2 * n - low - high), n))
        state, why = decide(releases[middle])
        if state is ReleaseState.OPEN:
            skipped[releases[middle]] = why
        elif state is first:
            low = middle
        else:
            high = middle
    between = {releases[n]: skipped[releases[n]] for n in range(low + 1, high)}
    return Bisection(last=releases[low], turn=releases[high], skipped=between)


def _other(state: ReleaseState) -> ReleaseState:
    return ReleaseState.BAD if state is ReleaseState.CLEAN else ReleaseState.CLEAN
