"""How often something shows: "k of n", and the interval in which the true share lies.

The interval is Clopper and Pearson's ("The use of confidence or fiducial limits illustrated in the case of the
binomial", 1934). It covers the true share in at least 95 of 100 cases at every share and number of runs; Wilson's
shorter one falls to 83 of 100 where an anomaly is rare, and rare anomalies are what it is asked about here.
"""

import math
from collections.abc import Callable
from typing import Final

import msgspec

#: The chance that the true share lies in an interval, at least.
CONFIDENCE: Final = 0.95
#: So often is a range of shares halved: beyond the precision of a float.
_HALVINGS: Final = 52


class Rate(msgspec.Struct, frozen=True, order=True):
    """An anomaly showed in `seen` of `runs` runs."""

    seen: int
    runs: int

    def __post_init__(self) -> None:
        if not 0 <= self.seen <= self.runs:
            raise ValueError(f"{self.seen} of {self.runs} runs: a count lies between 0 and the number of runs")

    def __add__(self, other: "Rate") -> "Rate":
        return Rate(self.seen + other.seen, self.runs + other.runs)

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.seen} of {self.runs}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %"

    @property
    def share(self) -> float:
        """The share of runs that showed it; 0 where there was no run."""
        return self.seen / self.runs if self.runs else 0.0

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Bounds of the true share; all of [0, 1] without a run."""
        tail = (1 - confidence) / 2
        # The least share at which so many sightings are not surprising, and the greatest at which so few are not.
        low = _share_where(lambda share: 1 - at_most(self.seen - 1, self.runs, share) >= tail) if self.seen else 0.0
        high = (
            _share_where(lambda share: at_most(self.seen, self.runs, share) <= tail) if self.seen < self.runs else 1.0
        )
        return low, high


def at_most(seen: int, runs: int, share: float) -> float:
    """The chance of at most `seen` sightings in `runs` runs, each of which shows it with chance `share`."""
    if seen < 0:
        return 0.0
    if seen >= runs or share <= 0.0:
        return 1.0
    if share >= 1.0:
        return 0.0
    log_odds = math.log(share) - math.log1p(-share)
    log_term = runs * math.log1p(-share)
    logs = [log_term]
    for k in range(seen):
        log_term += math.log((runs - k) / (k + 1)) + log_odds
        logs.append(log_term)
    largest = max(logs)
    return min(1.0, math.exp(largest) * math.fsum(math.exp(log - largest) for log in logs))


def _share_where(holds: Callable[[float], bool]) -> float:
    """The share from which on `holds` is true: it is false at 0, and true from some share up to 1."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
