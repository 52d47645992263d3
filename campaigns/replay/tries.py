"""One try: a plan that ran on a new cluster, and whether it counts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.results.schedule_rows import Row, injected, read_rows


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run, or the reason why there is none.

    `folder` is relative to the folder of all tries. A try counts when the whole run was judged: one in which the
    harness failed, or that was stopped by hand, says nothing about how often an anomaly shows.
    """

    folder: str = ""
    validity: str = ""
    fingerprints: tuple[str, ...] = ()
    seconds: float = 0.0
    #: Why it does not count; None when it does.
    why: str | None = None
    #: Whether checkers contradicted each other without a proof, which is a defect of ours.
    contradiction: bool = False

    @property
    def counts(self) -> bool:
        return self.why is None


#: Runs a plan and keeps the run below the folder; raises the errors that a person or the machine causes.
Carry = Callable[[CheckedPlan, Path], Try]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """How tries are run, whether a person wants to stop, where progress is printed, and a clock in seconds."""

    carry: Carry
    stopped: Callable[[], bool]
    say: Callable[[str], None]
    clock_s: Callable[[], float] = time.monotonic


class Resemblance(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a schedule was repeated: of `faults`, how many were injected, and how many on the same targets.

    A target is the same if the nodes, the links and the details (which client, how large an offset) are the same.
    """

    faults: int
    injected: int
    same_targets: int


def resemblance(recorded: Sequence[Row], schedule: Path) -> Resemblance:
    """Compare the recorded faults with those of a try; without a readable schedule nothing is the same."""
    try:
        rows = injected(read_rows(schedule))
    except UsageError:
        rows = []
    again = {_place(row): _target(row) for row in rows}
    both = [row for row in recorded if _place(row) in again]
    same = [row for row in both if _target(row) == again[_place(row)]]
    return Resemblance(faults=len(recorded), injected=len(both), same_targets=len(same))


def _place(row: Row) -> tuple[int, int]:
    return row["worker"], row["number"]


def _target(row: Row) -> tuple[object, ...]:
    return sorted(row.get("nodes", ())), sorted(row.get("severed", ())), row.get("details", {})
