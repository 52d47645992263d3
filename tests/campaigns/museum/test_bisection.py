"""The sequential test keeps its error, and a bisection finds the release, also past those that cannot be decided."""

import random

import pytest

from fencepost.campaigns.museum.bisection import (
    RISK,
    Bisection,
    ReleaseState,
    SequentialTest,
    bisect,
    sequential_test,
)
from fencepost.harness.findings.rate import Rate

RELEASES = [f"1.{n}" for n in range(20)]


def decided(test: SequentialTest, share: float, draw: random.Random) -> tuple[ReleaseState, int]:
    """What a release comes to whose runs show the bug with this chance, and after how many runs."""
    rate = Rate(0, 0)
    while test.state(rate) is ReleaseState.OPEN:
        rate += Rate(int(draw.random() < share), 1)
    return test.state(rate), rate.runs


@pytest.mark.parametrize("measured", [Rate(10, 10), Rate(3, 4), Rate(5, 10), Rate(3, 15)])
def test_the_sequential_test_is_wrong_as_rarely_as_it_says(measured: Rate) -> None:
    test, draw = sequential_test(measured, len(RELEASES)), random.Random(7)
    bad = [decided(test, test.share, draw)[0] for _ in range(5_000)]
    assert bad.count(ReleaseState.CLEAN) / len(bad) <= test.risk
    clean = [decided(test, 0.0, draw) for _ in range(5)]
    assert set(clean) == {(ReleaseState.CLEAN, test.clean_runs)}


def answers(first_bad: int, share: float, draw: random.Random) -> Bisection:
    test = sequential_test(Rate(3, 4), len(RELEASES))

    def decide(release: str) -> tuple[ReleaseState, str]:
        return decided(test, share if RELEASES.index(release) >= first_bad else 0.0, draw)[0], ""

    return bisect(RELEASES, ReleaseState.CLEAN, decide)


def test_a_bisection_as_a_whole_keeps_its_certainty() -> None:
    draw = random.Random(11)
    share = sequential_test(Rate(3, 4), len(RELEASES)).share
    wanted = [draw.randrange(1, len(RELEASES)) for _ in range(2_000)]
    wrong = sum(answers(n, share, draw).turn != RELEASES[n] for n in wanted)
    assert wrong / len(wanted) <= RISK


@pytest.mark.parametrize("last_bad", range(19))
def test_it_finds_the_release_that_repaired_it_in_few_tests(last_bad: int) -> None:
    asked: list[str] = []

    def decide(release: str) -> tuple[ReleaseState, str]:
        asked.append(release)
        return (ReleaseState.BAD if RELEASES.index(release) <= last_bad else ReleaseState.CLEAN), ""

    answer = bisect(RELEASES, ReleaseState.BAD, decide)
    assert (answer.last, answer.turn) == (RELEASES[last_bad], RELEASES[last_bad + 1])
    assert len(asked) <= 7 and len(set(asked)) == len(asked)


def test_releases_that_cannot_be_decided_stand_between() -> None:
    def decide(release: str) -> tuple[ReleaseState, str]:
        n = RELEASES.index(release)
        return (ReleaseState.OPEN, "no release") if n in (9, 10) else (list(ReleaseState)[n < 10], "")

    answer = bisect(RELEASES, ReleaseState.CLEAN, decide)
    assert (answer.last, answer.turn) == ("1.8", "1.11")
    assert answer.skipped == {"1.9": "no release", "1.10": "no release"}


def test_ends_that_are_not_as_was_said_are_told() -> None:
    answer = bisect(RELEASES, ReleaseState.CLEAN, lambda release: (ReleaseState.BAD, ""))
    assert not answer.turn and "1.0 was to be clean, and is bad" in answer.problem
