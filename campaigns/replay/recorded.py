"""A recorded run and tries at it, for replay and shrink: its plan, its faults, the violations that it showed.

Of a try: whether it counts, and how much of the schedule came again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.faults.schedule import NONE
from fencepost.harness.judging.judge import judge
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.verdict import Validity
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


#: What a process that left a verdict ends with, checkers that contradict each other among them.
EXIT_VALIDITIES: Final[Mapping[int, str]] = {
    ExitCode.VALID: Validity.VALID.value,
    ExitCode.INVALID: Validity.INVALID.value,
    ExitCode.UNKNOWN: Validity.UNKNOWN.value,
    ExitCode.INTERNAL: Validity.UNKNOWN.value,
}
_COUNTED: Final = (RunClass.VALID, RunClass.INVALID, RunClass.KNOWN, RunClass.UNKNOWN_COVERAGE)


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run, or the reason why there is none.

    `folder` is relative to the folder of all tries. A try counts when the whole run was judged: one in which the
    harness failed, or that stood still, says nothing about how often an anomaly shows.
    """

    folder: str
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


def try_of(attempt: RunAttempt) -> Try:
    """Make a try of an attempt that has ended."""
    code = attempt.exit_code if attempt.report and attempt.exit_code is not None else -1
    return Try(
        folder=str(PurePosixPath(attempt.report).parent) if attempt.report else attempt.folder,
        validity=EXIT_VALIDITIES.get(code, ""),
        fingerprints=attempt.fingerprints + attempt.undecisive,
        seconds=attempt.seconds,
        why=None if attempt.run_class in _COUNTED else attempt.reason,
        contradiction=code == ExitCode.INTERNAL,
    )


class Resemblance(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a schedule was repeated: of `faults`, how many were injected, and how many on the same targets.

    A target is the same if the nodes, the links and the details (which client, how large an offset) are the same.
    """

    faults: int
    injected: int
    same_targets: int


def resemblance(recorded: Sequence[Row], folder: Path) -> Resemblance:
    """Compare the recorded faults with those of a try's run; without a readable schedule nothing is the same."""
    try:
        rows = injected(read_rows(folder / store.SCHEDULE))
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
