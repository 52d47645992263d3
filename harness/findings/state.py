"""What became of a finding by a night: new, ongoing, rare, probably gone, gone, or back.

Only runs that could have shown it count: runs of the cells in which it was seen before. A night without such a run
changes nothing.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.findings.findability import FIXED_AT, chance_unseen
from fencepost.harness.findings.rate import Rate

#: Shows in fewer runs than this: one night says little about it.
RARE_BELOW: Final = 0.05
#: Its silence has become less likely than not.
_PROBABLY_AT: Final = 0.5


class FindingState(StrEnum):
    """What a reader of the night needs to know of a finding first."""

    NEW = "new"
    ONGOING = "ongoing"
    RARE = "rare"
    PROBABLY_GONE = "probably gone"
    GONE = "gone"
    BACK = "back"


class FindingNight(msgspec.Struct, frozen=True, kw_only=True):
    """How often a finding showed in one night, of the runs that could have shown it."""

    night: str
    rate: Rate


class FindingStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding's state, and what it rests on."""

    state: FindingState
    #: Up to and with the last night that showed it.
    rate: Rate
    #: Runs since then that could have shown it, and did not.
    clean_runs: int
    #: The chance of so many clean runs, were it still there.
    chance_unseen: float


def standing(nights: Sequence[FindingNight]) -> FindingStanding:
    """The state after the last of these nights, oldest first.

    Raises:
        ValueError: no night showed it.
    """
    first = next((i for i, night in enumerate(nights) if night.rate.seen), None)
    if first is None:
        raise ValueError("a finding was seen in some night")
    rate, clean_runs, was_gone, state = Rate(0, 0), 0, False, FindingState.NEW
    for number, night in enumerate(nights[first:]):
        if night.rate.seen:
            # A finding that comes back after its end has its rate from its return on: it is another defect, or another
            # build.
            rate = night.rate if was_gone else rate + Rate(0, clean_runs) + night.rate
            if number == 0:
                state = FindingState.NEW
            elif was_gone:
                state = FindingState.BACK
            else:
                state = FindingState.RARE if rate.share < RARE_BELOW else FindingState.ONGOING
            clean_runs, was_gone = 0, False
        elif night.rate.runs:
            clean_runs += night.rate.runs
            state = _while_unseen(rate, clean_runs)
            was_gone = was_gone or state is FindingState.GONE
    return FindingStanding(state=state, rate=rate, clean_runs=clean_runs, chance_unseen=chance_unseen(rate, clean_runs))


def _while_unseen(rate: Rate, clean_runs: int) -> FindingState:
    chance = chance_unseen(rate, clean_runs)
    if chance <= FIXED_AT:
        return FindingState.GONE
    if chance <= _PROBABLY_AT:
        return FindingState.PROBABLY_GONE
    return FindingState.RARE if rate.share < RARE_BELOW else FindingState.ONGOING
