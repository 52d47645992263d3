"""One try: a plan carried out on a new cluster, and what of it counts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.results.schedule_rows import Row, injected, read_rows


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that was carried out, or what kept it from that.

    `folder` is relative to where tries are kept. A try counts when it was judged whole: one that the harness failed in,
    or that was stopped by hand, says nothing of how often an anomaly shows.
    """

    folder: str = ""
    validity: str = ""
    fingerprints: tuple[str, ...] = ()
    seconds: float = 0.0
    #: Why it does not count; None when it does.
    why: str | None = None

    @property
    def counts(self) -> bool:
        return self.why is None


#: Carries out a plan, keeping the run below the folder. Errors of a person or a machine are raised.
Carry = Callable[[CheckedPlan, Path], Try]


class Resemblance(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a schedule came again: of `faults`, so many were injected, so many of them on the same targets.

    The same target: the same nodes and links, and the same figures, such as which client or how large an offset.
    """

    faults: int
    injected: int
    same_targets: int


def resemblance(recorded: Sequence[Row], schedule: Path) -> Resemblance:
    """Compare with the schedule that a try really had; a try without a readable one resembles nothing."""
    try:
        found = injected(read_rows(schedule))
    except UsageError:
        found = []
    again = {_place(row): _target(row) for row in found}
    both = [row for row in recorded if _place(row) in again]
    same = [row for row in both if _target(row) == again[_place(row)]]
    return Resemblance(faults=len(recorded), injected=len(both), same_targets=len(same))


def _place(row: Row) -> tuple[int, int]:
    return row["worker"], row["number"]


def _target(row: Row) -> tuple[object, ...]:
    return sorted(row.get("nodes", ())), sorted(row.get("severed", ())), row.get("details", {})
