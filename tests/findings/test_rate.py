"""Rates, their intervals, and what a silence says."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.findings.findability import FIXED_AT, chance_unseen, clean_runs_to_call_fixed
from fencepost.harness.findings.rate import Rate, at_most


@pytest.mark.parametrize(
    ("seen", "runs", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (3, 1000, 0.0006, 0.0087),
    ],
)
def test_intervals_agree_with_published_tables(seen: int, runs: int, low: float, high: float) -> None:
    assert Rate(seen, runs).interval() == pytest.approx((low, high), abs=1e-4)


def test_an_interval_without_a_run_says_nothing() -> None:
    assert Rate(0, 0).interval() == (0.0, 1.0)


@given(st.integers(1, 80), st.floats(0.001, 0.999))
def test_an_interval_covers_the_true_share_in_95_of_100_cases(runs: int, share: float) -> None:
    """Summed over every number of sightings: no simulation, no luck."""
    covered = 0.0
    for seen in range(runs + 1):
        low, high = Rate(seen, runs).interval()
        if low <= share <= high:
            covered += at_most(seen, runs, share) - at_most(seen - 1, runs, share)
    assert covered >= 0.95 - 1e-9


def test_simulated_nights_are_covered_as_well() -> None:
    draw = random.Random(11)
    hits = 0
    for _ in range(2000):
        share, runs = draw.random() ** 3, draw.randint(1, 120)
        seen = sum(draw.random() < share for _ in range(runs))
        low, high = Rate(seen, runs).interval()
        hits += low <= share <= high
    assert hits / 2000 >= 0.93


def test_59_clean_runs_settle_an_anomaly_of_5_percent() -> None:
    assert clean_runs_to_call_fixed(Rate(50_000, 1_000_000)) == 59


def test_few_sightings_ask_for_more_clean_runs() -> None:
    few, many = clean_runs_to_call_fixed(Rate(1, 20)), clean_runs_to_call_fixed(Rate(50, 1000))
    assert few > many >= 59


def test_one_sighting_in_one_run_is_not_settled_by_one_clean_run() -> None:
    assert clean_runs_to_call_fixed(Rate(1, 1)) >= 5


def test_what_was_never_seen_cannot_be_called_fixed() -> None:
    with pytest.raises(ValueError, match="never seen"):
        clean_runs_to_call_fixed(Rate(0, 10))


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 400))
def test_each_clean_run_makes_it_less_likely(seen: int, clean_before: int, clean: int) -> None:
    rate = Rate(seen, seen + clean_before)
    assert chance_unseen(rate, clean + 1) < chance_unseen(rate, clean) <= 1.0


def test_calling_it_fixed_is_wrong_in_at_most_5_of_100_cases() -> None:
    """Shares drawn evenly, a rate estimated from some runs, then the demanded number of clean runs.

    Of the cases in which the anomaly is still there, few stay silent for so long.
    """
    draw = random.Random(7)
    cases, silent = 0, 0
    while cases < 4000:
        share, runs = draw.random(), draw.randint(5, 60)
        seen = sum(draw.random() < share for _ in range(runs))
        if not seen:
            continue
        cases += 1
        silent += (1 - share) ** clean_runs_to_call_fixed(Rate(seen, runs)) > draw.random()
    assert silent / cases <= FIXED_AT


@pytest.mark.parametrize(("seen", "runs"), [(-1, 3), (4, 3)])
def test_a_count_beyond_its_runs_is_refused(seen: int, runs: int) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        Rate(seen, runs)
