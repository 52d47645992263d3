"""How long a run takes: by earlier runs of its cell, else by its plan; and by when it must have ended.

A night begins no run that would end after its budget, since a run that is cut off before its final reads says nothing.
So the estimate is the longer of what the cell takes as a rule and of what it took last; a cell that was never run is
taken to exceed its plan as the others do.
"""

from collections.abc import Mapping
from statistics import median
from typing import Final

from fencepost.campaigns.night.value import Past
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.coordination.session import Needs
from fencepost.harness.plan import Plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options

#: What a run needs beside its main phase as a rule: start, healing, final reads, verdict and report.
_BESIDE_S: Final = 15.0
#: The watch after healing ends once nothing is left to watch (`harness.runner.watch`), of most runs within this time.
_WATCH_S: Final = 4.0
#: Earlier runs vary so much.
_MARGIN: Final = 1.15
#: A run that takes this much longer than all its phases may take is stuck.
_GRACE_S: Final = 120.0


def estimate_s(plan: Plan, past: Past | None) -> float:
    """Seconds that a run of this checked plan will take."""
    if past is not None and past.seconds:
        return max(past.seconds, past.last_s) * _MARGIN
    load_s = _making_s(plan) + _seconds(plan, "warm_up") + _seconds(plan, "time_limit")
    return load_s + min(_seconds(plan, "watch"), _WATCH_S) + _BESIDE_S


def usual_ratio(plans: Mapping[str, Plan], past: Mapping[str, Past]) -> float:
    """By how much the cells that were run before exceed what their plans alone say; 1 where they do not."""
    known = [(plan, past[cell].last_s) for cell, plan in plans.items() if cell in past and past[cell].last_s]
    return max(1.0, median([last_s / estimate_s(plan, None) for plan, last_s in known] or [1.0]))


class Pace:
    """How the runs of this night compare with their estimates: a busy machine makes all of them longer."""

    def __init__(self) -> None:
        self._ratios: list[float] = []
        self._last_s: dict[str, float] = {}

    def ended(self, cell: str, seconds: float, estimated_s: float) -> None:
        """Learn from a run of a cell that ended by itself."""
        self._ratios.append(seconds / estimated_s)
        self._last_s[cell] = seconds

    def corrected_s(self, cell: str, estimated_s: float) -> float:
        """The estimate for the next run of a cell; never shorter than the first one."""
        pace = max(1.0, median(self._ratios)) if self._ratios else 1.0
        return max(estimated_s * pace, self._last_s.get(cell, 0.0) * _MARGIN)


def deadline_s(plan: Plan) -> float:
    """Seconds after which a run of this checked plan is stopped."""
    if plan.deadline:
        return parse_duration_ns(plan.deadline, what="deadline") / 1e9 + _BESIDE_S
    phases = ("warm_up", "time_limit", "watch", "settle", "final")
    return sum(_seconds(plan, phase) for phase in phases) + _making_s(plan) + _GRACE_S


def _making_s(plan: Plan) -> float:
    """How much longer than for a few keys making what the workload needs may take, such as thousands of partitions."""
    workload = registry.workload(plan.workload)
    needs = workload.needs(workload_options(workload, registry.system(plan.system), plan.workload_options))
    return float(needs.within_s) - Needs().within_s


def _seconds(plan: Plan, phase: str) -> float:
    return plan.duration_ns(phase) / 1e9
