"""The stages of a search for less, in their order, and how long each may take.

Time is cut first: every later try is shorter by what was idle.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from fencepost.campaigns.replay.reductions import ReducedPlan, Reduction, idle_time, load, narrowing
from fencepost.harness.base.quantities import lasting

FAULTS: Final = "faults"
#: A candidate that shows needs two tries as a rule, one that does not up to four.
_TRIES_EACH: Final = (2, 4)


class ReductionStage(msgspec.Struct, frozen=True):
    """Reductions that belong together; `offers` counts what they offer at first."""

    name: str
    reductions: Callable[[ReducedPlan], list[Reduction]]

    def offers(self, candidate: ReducedPlan) -> int:
        return sum(1 for reduction in self.reductions(candidate) for _ in reduction.offers(candidate))


BEFORE_FAULTS: Final = (ReductionStage("time", idle_time),)
#: Time again: faults that were left out or made shorter leave idle time behind.
AFTER_FAULTS: Final = (
    ReductionStage("time", idle_time),
    ReductionStage("load", load),
    ReductionStage("parameters of faults", narrowing),
    ReductionStage("time", idle_time),
)


def forecast(candidates: int, per_try_s: float) -> str:
    """ "up to 14 smaller plans, each 2 to 4 tries of 12 s: 6 to 11 min"."""
    low, high = (candidates * tries * per_try_s for tries in _TRIES_EACH)
    plans = "1 smaller plan" if candidates == 1 else f"up to {candidates} smaller plans"
    tries = f"{_TRIES_EACH[0]} to {_TRIES_EACH[1]} tries of {per_try_s:.0f} s"
    return f"{plans}, each {tries}: {lasting(low)} to {lasting(high)}"
