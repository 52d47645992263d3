"""What becomes of a finding from night to night."""

import pytest

from fencepost.harness.findings.rate import Rate
from fencepost.harness.findings.state import FindingNight, FindingState, standing


def _nights(*counts: tuple[int, int]) -> list[FindingNight]:
    return [FindingNight(night=f"2026-11-{i + 1:02}", rate=Rate(seen, runs)) for i, (seen, runs) in enumerate(counts)]


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ([(3, 10)], FindingState.NEW),
        ([(0, 10), (0, 10), (1, 10)], FindingState.NEW),
        ([(3, 10), (2, 10)], FindingState.ONGOING),
        ([(5, 10), (0, 1)], FindingState.PROBABLY_GONE),
        ([(3, 10), (0, 1)], FindingState.ONGOING),
        ([(5, 10), (0, 30)], FindingState.GONE),
        ([(5, 10), (0, 30), (0, 10)], FindingState.GONE),
        ([(5, 10), (0, 30), (1, 10)], FindingState.BACK),
        ([(5, 10), (0, 30), (1, 10), (2, 10)], FindingState.ONGOING),
        ([(1, 100), (1, 100)], FindingState.RARE),
        ([(2, 100), (0, 5)], FindingState.RARE),
    ],
)
def test_states(counts: list[tuple[int, int]], state: FindingState) -> None:
    assert standing(_nights(*counts)).state is state


def test_a_night_that_could_not_have_shown_it_changes_nothing() -> None:
    assert standing(_nights((3, 10), (0, 0))) == standing(_nights((3, 10)))


def test_clean_runs_before_the_first_sighting_are_not_part_of_its_rate() -> None:
    assert standing(_nights((0, 100), (1, 2))).rate == Rate(1, 2)


def test_the_rate_of_what_came_back_begins_with_its_return() -> None:
    assert standing(_nights((5, 10), (0, 30), (1, 10))).rate == Rate(1, 10)


def test_clean_runs_between_sightings_belong_to_the_rate() -> None:
    assert standing(_nights((5, 10), (0, 1), (5, 10))).rate == Rate(10, 21)


def test_what_no_night_showed_is_no_finding() -> None:
    with pytest.raises(ValueError, match="seen in some night"):
        standing(_nights((0, 3)))
