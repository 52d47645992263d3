"""Change points: nights from which on a figure stays higher or lower than before.

One rank test looks at all splits of a series at once (Pettitt, "A non-parametric approach to the change-point
problem", 1979), and takes its chance from permutations of the series itself, so ties and outliers do no harm. Its
false alarms are those of one test, however many nights there are; a page with many series divides `ALPHA` by their
number (Bonferroni). After a change the two sides are searched again, so more than one is found.

The nights must be exchangeable while nothing changes. A figure that drifts from night to night raises more alarms.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

#: The chance that a page without any change shows one, at most.
ALPHA: Final = 0.05
#: A shorter side of a split could not be told from chance.
SIDE_MIN: Final = 4
_PERMUTATIONS: Final = 9_999
#: Pages are the same each time that they are made.
_SEED: Final = 1979


class ChangePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The figure is another from the value at `index` on; `before` and `after` are medians of the two sides."""

    index: int
    chance: float
    before: float
    after: float


def change_points(values: Sequence[float], alpha: float = ALPHA) -> list[ChangePoint]:
    """Find where a series changes for good, first ones first.

    Args:
        values: one figure for each night, oldest first.
        alpha: the chance of any alarm on a series without a change, at most; divide it by the number of series.

    Returns:
        Nothing for a series that is too short for `alpha`.
    """
    series = np.asarray(values, dtype=float)
    point = _strongest(series, alpha)
    if point is None:
        return []
    left = change_points(values[: point.index], alpha)
    right = change_points(values[point.index :], alpha)
    return [*left, point, *(msgspec.structs.replace(own, index=own.index + point.index) for own in right)]


def _strongest(series: Any, alpha: float) -> ChangePoint | None:
    count = len(series)
    if count < 2 * SIDE_MIN or np.ptp(series) == 0:
        return None
    ranks = _midranks(series)
    statistics = _statistics(ranks[None, :])[0]
    draw = np.random.default_rng(_SEED)
    shuffled = draw.permuted(np.broadcast_to(ranks, (_PERMUTATIONS, count)), axis=1)
    extremes = _statistics(shuffled).max(axis=1)
    # A permutation's sum may differ from the same sum in another order by rounding.
    as_extreme = int((extremes >= statistics.max() - 1e-9).sum())
    chance = (1 + as_extreme) / (1 + _PERMUTATIONS)
    if chance > alpha:
        return None
    index = int(statistics.argmax()) + SIDE_MIN
    before, after = float(np.median(series[:index])), float(np.median(series[index:]))
    return ChangePoint(index=index, chance=chance, before=before, after=after)


def _statistics(ranks: Any) -> Any:
    """How far the rank sum before each split lies from its mean, in standard deviations: one row for each series."""
    count = ranks.shape[1]
    sizes = np.arange(SIDE_MIN, count - SIDE_MIN + 1)
    sums = np.cumsum(ranks, axis=1)[:, sizes - 1]
    return np.abs(sums - sizes * (count + 1) / 2) / np.sqrt(sizes * (count - sizes))


def _midranks(series: Any) -> Any:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(series, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
