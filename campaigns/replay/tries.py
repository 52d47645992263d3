"""One try: an attempt at a recorded run, whether it counts, and how much of the schedule came again."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.verdict import Validity

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
