"""Whether what is left of a gate can still give a guarantee the tests that it needs, by the rate of the runs so far."""

import math
from typing import Final

import msgspec

from fencepost.campaigns.gate.policy import GuaranteeNeed
from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt

#: Runs vary: one that is left may test a guarantee so many times as often as the best one so far.
_BEST_TIMES: Final = 2


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What a guarantee lacks: `runs` more at `rate` tests each, where runs_max and the budget allow `allowed`.

    `is_hopeless`: even much better runs than those so far could not bring it.
    """

    rate: int
    runs: int
    allowed: int
    is_hopeless: bool

    @property
    def text(self) -> str:
        """What it needs, and what to do where it cannot get that."""
        needs = f"at {self.rate:,} a run it needs about {self.runs:,} more"
        if not self.is_hopeless:
            return needs
        return (
            f"{needs}, and the budget and runs_max left {self.allowed:,}: "
            "raise --budget and runs_max, or require fewer tests"
        )


def outlook(need: GuaranteeNeed, night: Night, required: list[CellOutcome], clean: list[RunAttempt]) -> Outlook | None:
    """Look ahead for a guarantee that lacks tests; None while nobody knows the rate.

    Args:
        required: the candidate's cells.
        clean: their clean runs that tested it.
    """
    counts = [a.exposures.get(need.name, 0) for a in clean]
    if not counts:
        return None
    rate = sum(counts) / len(counts)
    lacking = need.tested - sum(counts)
    testing = [o for o in required if any(a.cell == o.cell.id for a in clean) or not o.decisive]
    left = sum(o.cell.runs - len({(a.shard, a.run) for a in o.decisive}) for o in testing)
    seconds = min((a.seconds for a in clean if a.seconds), default=0.0)
    if seconds:
        left = min(left, int(max(0.0, night.budget_s - night.spent_s) * night.jobs / seconds))
    return Outlook(
        rate=round(rate),
        runs=max(need.runs - len(clean), math.ceil(lacking / rate)),
        allowed=max(0, left),
        is_hopeless=lacking > _BEST_TIMES * max(counts) * left,
    )
