"""Change points: false alarms as rare as promised, measured; a change found where it is."""

import numpy as np
import pytest

from fencepost.harness.findings.change_points import change_points

_SERIES = 600
_NIGHTS = 20


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_false_alarms_are_as_rare_as_promised(alpha: float) -> None:
    """Figures with a long tail and no change: at most `alpha` of the series raise an alarm, but for chance."""
    draw = np.random.default_rng(17)
    alarms = sum(bool(change_points(list(draw.lognormal(size=_NIGHTS)), alpha)) for _ in range(_SERIES))
    spread = 3 * (alpha * (1 - alpha) / _SERIES) ** 0.5
    assert max(0.0, alpha - spread) <= alarms / _SERIES <= alpha + spread


@pytest.mark.slow
def test_ties_raise_no_more_alarms() -> None:
    """Dual leadership is 0 in most nights."""
    draw = np.random.default_rng(18)
    alarms = sum(bool(change_points(list(draw.binomial(2, 0.1, size=_NIGHTS)), 0.05)) for _ in range(_SERIES))
    assert alarms / _SERIES <= 0.05 + 3 * (0.05 * 0.95 / _SERIES) ** 0.5


def test_a_change_is_found_at_its_night() -> None:
    draw = np.random.default_rng(19)
    hits = 0
    for _ in range(100):
        values = [*draw.normal(10, 1, 12), *draw.normal(13, 1, 8)]
        points = change_points(values, 0.05 / 30)
        hits += any(abs(point.index - 12) <= 1 and point.before < point.after for point in points)
    assert hits >= 90


def test_two_changes_are_found() -> None:
    draw = np.random.default_rng(20)
    values = [*draw.normal(10, 0.1, 12), *draw.normal(20, 0.1, 12), *draw.normal(5, 0.1, 12)]
    assert [point.index for point in change_points(values)] == [12, 24]


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 30, [1, 1, 1, 9, 9, 9]])
def test_too_little_says_nothing(values: list[float]) -> None:
    assert change_points(values) == []
