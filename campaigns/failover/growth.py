"""How a time grows with the number of topic partitions: a straight line by least squares, and how sure its slope is."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

#: Any two points lie on a line; only with three or more can the line leave a residual.
_UNCERTAIN_FROM: Final = 3


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """seconds = `at_zero_s` + `per_1000_s` * partitions / 1000.

    `per_1000_error_s` is the slope's standard error; None when there are too few points to tell.
    """

    at_zero_s: float
    per_1000_s: float
    per_1000_error_s: float | None

    def at(self, partitions: float) -> float:
        return self.at_zero_s + self.per_1000_s * partitions / 1000


def fit(points: Sequence[tuple[float, float]]) -> Growth | None:
    """Fit a line through (partitions, seconds); returns None when all points have the same number of partitions."""
    if len({partitions for partitions, _ in points}) < 2:
        return None
    thousands = np.array([partitions / 1000 for partitions, _ in points], dtype=np.float64)
    seconds = np.array([value for _, value in points], dtype=np.float64)
    offsets = thousands - thousands.mean()
    spread = float(offsets @ offsets)
    slope = float(offsets @ seconds) / spread
    at_zero = float(seconds.mean() - slope * thousands.mean())
    error = None
    if len(points) >= _UNCERTAIN_FROM:
        unexplained = seconds - (at_zero + slope * thousands)
        error = float(np.sqrt(unexplained @ unexplained / (len(points) - 2) / spread))
    return Growth(at_zero_s=at_zero, per_1000_s=slope, per_1000_error_s=error)
