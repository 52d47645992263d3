"""The faults that the runner carries out: those of the forecast, or the plan's own schedule."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fencepost.harness.faults.kind import CLIENT_WORKER
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import Choice, ScheduledFault, by_worker
from fencepost.harness.history import FaultAction
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store

Workers = Sequence[Sequence[Choice]]


def freezes_clients(workers: Workers) -> bool:
    """Decide whether a fault freezes clients. Only then do their connections go through gates, which cost time."""
    return any(spec.target == CLIENT_WORKER for worker in workers for choice in worker for spec in choice)


def changes_members(workers: Workers) -> bool:
    """Decide whether a fault changes members, or asks for it. Only then are servers started in a way that allows it."""
    faults = registry.faults()
    specs = [spec for worker in workers for choice in worker for spec in choice]
    return any(faults[spec.fault].reconfigures or faults[spec.fault].effects(spec).changes_members for spec in specs)


def schedule_of(checked: CheckedPlan, workers: Workers) -> Sequence[Iterable[ScheduledFault]]:
    """Return each worker's faults: the plan's own schedule, else one that is drawn during the run."""
    if checked.given is not None:
        return by_worker(checked.given)
    return draw_schedules(
        workers,
        registry.faults(),
        seed=checked.plan.seed,
        time_limit_ns=checked.plan.duration_ns("time_limit"),
        quiet_ns=checked.plan.duration_ns("quiet"),
        voters=sum(member.votes for member in checked.members),
    )


class ScheduleFile:
    """`schedule.jsonl`, written as faults happen; `healed_ns` is the time of the last healing."""

    def __init__(self, folder: Path, now_ns: Callable[[], int]) -> None:
        self._file = (folder / store.SCHEDULE).open("a", encoding="utf-8")
        self._now_ns = now_ns
        self.healed_ns: int | None = None

    def write(self, entry: dict[str, object]) -> None:
        """Write one line at once."""
        if entry["action"] == FaultAction.HEAL:
            self.healed_ns = self._now_ns()
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
