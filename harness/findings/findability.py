"""How likely it is that an anomaly which was not seen lately is still there, and how many clean runs would settle it.

An anomaly that shows in 5 % of runs stays unseen in 58 runs with a chance of 5.1 %, and in 59 with 4.8 %: after 59
clean runs one may call it fixed, and is wrong in fewer than 5 of 100 such cases. That share is never known exactly, it
was estimated from `Rate(seen, runs)`; so the chance is averaged over the shares that agree with the estimate (the
posterior of Jeffreys' prior). Few sightings then demand more clean runs: 1 of 20 asks for far more than 50 of 1,000.
"""

import math
from typing import Final

from fencepost.harness.findings.rate import Rate

#: An anomaly may be called fixed when its silence would be this unlikely, were it still there.
FIXED_AT: Final = 0.05
#: Half a sighting and half a run without one: Jeffreys' prior.
_PRIOR: Final = 0.5
#: Nobody waits for more clean runs than this.
_RUNS_MAX: Final = 10_000_000


def chance_unseen(rate: Rate, clean_runs: int) -> float:
    """The chance that an anomaly with this rate, were it still there, shows in none of `clean_runs` further runs.

    Args:
        rate: how often it was seen, up to and with the run that showed it last.
        clean_runs: runs since then in which it could have shown, and did not.

    Returns:
        1 without a clean run; falls towards 0 with each.
    """
    a, b = rate.seen + _PRIOR, rate.runs - rate.seen + _PRIOR
    # The mean of (1 - share) ** clean_runs over Beta(a, b).
    return math.exp(math.lgamma(b + clean_runs) - math.lgamma(b) + math.lgamma(a + b) - math.lgamma(a + b + clean_runs))


def clean_runs_to_call_fixed(rate: Rate, fixed_at: float = FIXED_AT) -> int:
    """The least number of clean runs in a row after which `chance_unseen` is at most `fixed_at`.

    Raises:
        ValueError: it was never seen, so no silence says anything.
    """
    if rate.seen == 0:
        raise ValueError("what was never seen cannot be called fixed")
    low, high = 0, 1
    while chance_unseen(rate, high) > fixed_at and high < _RUNS_MAX:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if chance_unseen(rate, middle) > fixed_at else (low, middle)
    return high
