"""A recorded run, for replay and shrink: its plan, the faults that were injected, and the violations it showed."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.schedule import NONE
from fencepost.harness.judging.judge import judge
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.verdict.fingerprint import FoundAnomaly, all_fingerprints, anomalies, is_shown


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """`checked` has the recorded schedule; `rows` are its faults; `shown` what the run showed."""

    folder: Path
    checked: CheckedPlan
    rows: tuple[Row, ...]
    shown: tuple[FoundAnomaly, ...]

    @property
    def plan(self) -> Plan:
        return self.checked.plan

    @property
    def name(self) -> str:
        """The run's folder and the one above it, which say what was run and when."""
        return f"{self.folder.parent.name}/{self.folder.name}"


def read_recorded(path: Path) -> Recorded:
    """Read the run in a folder; raises UsageError without a run or a schedule, or when the schedule does not fit."""
    folder = store.find_run_folder(path)
    store.read_run(folder)
    schedule = folder / store.SCHEDULE
    for needed in (store.PLAN, store.SCHEDULE):
        if not (folder / needed).is_file():
            raise UsageError(f"{folder}: there is no {needed} in this folder", hint="give the folder of a whole run")
    plan = read_plan(folder / store.PLAN, seed=0)
    rows = tuple(injected(read_rows(schedule)))
    return Recorded(
        folder=folder, checked=check_plan(with_faults(plan, schedule, rows)), rows=rows, shown=shown_by(folder)
    )


def with_faults(plan: Plan, schedule: Path, rows: Sequence[Row]) -> Plan:
    """Return the plan with the faults `rows`, which `schedule` holds; without any, its nemesis is "none"."""
    return msgspec.structs.replace(plan, schedule=str(schedule) if rows else "", nemesis="" if rows else NONE)


def shown_by(folder: Path) -> tuple[FoundAnomaly, ...]:
    """Judge a stored run again and list what it shows: the old verdict may use the names of another version."""
    history, judgement = judge(folder)
    effect_free = registry.workload(judgement.facts.workload).effect_free
    return tuple(anomalies(history, judgement.facts, judgement.verdicts, effect_free))


def choose(recorded: Recorded, fingerprint: str | None) -> str | None:
    """Choose the fingerprint to look for: `fingerprint` if given, else the first that decided the verdict.

    Returns:
        None when the run shows no violation that decides.

    Raises:
        UsageError: the run does not show `fingerprint`; the hint lists what it shows.
    """
    every = all_fingerprints(recorded.shown)
    if fingerprint is not None and not is_shown(fingerprint, every):
        there = f"it shows: {', '.join(every)}" if every else "it shows no violation"
        raise UsageError(f"{recorded.folder}: the run does not show {fingerprint!r}", hint=there)
    return fingerprint or next((anomaly.fingerprints[0] for anomaly in recorded.shown if anomaly.decides), None)
