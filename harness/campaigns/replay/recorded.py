"""A recorded run as replay and shrink take it: its plan, the faults that it really injected, and what it showed."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.nemesis_text import NONE
from fencepost.harness.judging.judge import judge
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.verdict.fingerprint import Anomaly, all_fingerprints, anomalies


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """`checked` has the recorded schedule; `rows` are its faults; `shown` what the run showed."""

    folder: Path
    checked: CheckedPlan
    rows: tuple[Row, ...]
    shown: tuple[Anomaly, ...]

    @property
    def plan(self) -> Plan:
        return self.checked.plan

    @property
    def name(self) -> str:
        """The run's folder and the one above it, which say what was run and when."""
        return f"{self.folder.parent.name}/{self.folder.name}"


def read_recorded(path: Path) -> Recorded:
    """Raises UsageError for a folder that keeps no run or no schedule, and for a schedule that does not fit."""
    folder = store.find_run_folder(path)
    schedule = folder / store.SCHEDULE
    for needed in (store.PLAN, store.SCHEDULE):
        if not (folder / needed).is_file():
            raise UsageError(f"{folder}: no {needed} is kept here", hint="only a whole run's folder can be done again")
    plan = read_plan(folder / store.PLAN, seed=0)
    rows = tuple(injected(read_rows(schedule)))
    return Recorded(
        folder=folder, checked=check_plan(with_faults(plan, schedule, rows)), rows=rows, shown=shown_by(folder)
    )


def with_faults(plan: Plan, schedule: Path, rows: Sequence[Row]) -> Plan:
    """Return the plan with the faults `rows`, which `schedule` holds; without any, its nemesis is "none"."""
    return msgspec.structs.replace(plan, schedule=str(schedule) if rows else "", nemesis="" if rows else NONE)


def shown_by(folder: Path) -> tuple[Anomaly, ...]:
    """What a stored run shows, judged again: an old verdict may be by another version's words."""
    history, judgement = judge(folder)
    effect_free = registry.workload(judgement.facts.workload).effect_free
    return tuple(anomalies(history, judgement.facts, judgement.verdicts, effect_free))


def choose(recorded: Recorded, asked: str | None) -> str | None:
    """The fingerprint to look for: the one asked for, else the first that decides; None of a run without a violation.

    Raises UsageError when the run does not show the one that is asked for.
    """
    every = all_fingerprints(recorded.shown)
    if asked is not None and asked not in every:
        there = f"it shows: {', '.join(every)}" if every else "it shows no violation"
        raise UsageError(f"{recorded.folder}: the run does not show {asked!r}", hint=there)
    return asked or next((found.fingerprints[0] for found in recorded.shown if found.decides), None)
