"""A museum's night: two cells for each exhibit, which of their runs are still needed, and what they came to.

A bug counts as reproduced only if its own fingerprint showed in some run and its control was decided for the same
guarantee without it. It is lost when so many runs without it are unlikely at the rate that was measured before. A run
in which the guarantee was not decided counts for nothing and is told apart.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fencepost.campaigns.museum.exhibits import Exhibit
from fencepost.campaigns.night.cells import NightCell, cell_id, checked_cell
from fencepost.campaigns.night.launcher import ProcessLauncher
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.register import REGISTER
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.findings.rate import Rate
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

NAME: Final = "museum"
#: Of a commit's name so much is told.
_COMMIT_LETTERS: Final = 8


class ExhibitState(StrEnum):
    """What a night says of an exhibit."""

    FALSE_ALARM = "false alarm"
    LOST = "lost"
    UNKNOWN = "unknown"
    REPRODUCED = "reproduced"
    SKIPPED = "skipped"


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says of one exhibit; `shows` None: the guarantee was not decided."""

    shows: bool | None
    commit: str = ""
    at: str = ""
    seed: int = 0
    report: str = ""
    reason: str = ""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one cell for one exhibit."""

    sightings: tuple[Sighting, ...] = ()

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(sightings=self.sightings + other.sightings)

    @property
    def rate(self) -> Rate:
        decided = [each for each in self.sightings if each.shows is not None]
        return Rate(sum(bool(each.shows) for each in decided), len(decided))

    @property
    def undecided(self) -> int:
        return sum(each.shows is None for each in self.sightings)

    @property
    def shown(self) -> list[Sighting]:
        """Those that show it, oldest first."""
        return sorted((each for each in self.sightings if each.shows), key=lambda each: each.at)


class ExhibitOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An exhibit with what its runs came to; `earlier` are the runs of the bug in earlier nights.

    `missing` says why this machine cannot run it.
    """

    exhibit: Exhibit
    bug: Tally = Tally()
    control: Tally = Tally()
    earlier: Tally = Tally()
    missing: str = ""

    @property
    def commits(self) -> list[str]:
        """The first and the last commit of fencepost that found it, by its file, earlier nights and this one."""
        recorded = [each.commit for each in self.exhibit.measured if each.bug[0]]
        commits = [commit for commit in (*recorded, *(s.commit for s in (self.earlier + self.bug).shown)) if commit]
        return list(dict.fromkeys(commits[:1] + commits[-1:]))

    @property
    def state(self) -> ExhibitState:
        if self.control.rate.seen:
            return ExhibitState.FALSE_ALARM
        if self.missing:
            return ExhibitState.SKIPPED
        if self.bug.rate.seen:
            return ExhibitState.REPRODUCED if self.control.rate.runs else ExhibitState.UNKNOWN
        return ExhibitState.LOST if self.exhibit.is_lost_after(self.bug.rate.runs) else ExhibitState.UNKNOWN

    @property
    def reason(self) -> str:
        """In one line: what was seen, or what is missing."""
        match self.state:
            case ExhibitState.FALSE_ALARM:
                return f"the control shows it too: {self.control.rate}"
            case ExhibitState.SKIPPED:
                return self.missing
            case ExhibitState.LOST:
                return (
                    f"the fingerprint showed in none of {self.bug.rate.runs} runs; measured was {self.exhibit.bug_rate}"
                )
            case ExhibitState.REPRODUCED:
                return f"{self.bug.rate}; control {self.control.rate}{self._apart()}"
            case ExhibitState.UNKNOWN:
                if self.bug.rate.seen:
                    return f"{self.bug.rate}; its control was never decided{self._apart()}"
                return f"none of {self.bug.rate.runs} runs shows it, which is no proof at its rate{self._apart()}"

    def _apart(self) -> str:
        parts = {"of the bug": self.bug.undecided, "of the control": self.control.undecided}
        counts = [f"{count} {what}" for what, count in parts.items() if count]
        why = next((s.reason for s in self.bug.sightings + self.control.sightings if s.shows is None and s.reason), "")
        return f"; undecided: {', '.join(counts)}{f' ({why})' if why else ''}" if counts else ""


class PlannedExhibit(msgspec.Struct, frozen=True, kw_only=True):
    """An exhibit with the ids of its two cells; empty where `missing` says why there is none."""

    exhibit: Exhibit
    bug: str = ""
    control: str = ""
    missing: str = ""


class PlannedMuseum(msgspec.Struct, frozen=True, kw_only=True):
    """What a night of the museum runs. `times`: so many runs of each cell; 0: until each exhibit is decided."""

    exhibits: tuple[PlannedExhibit, ...]
    cells: tuple[tuple[NightCell, CheckedPlan], ...]
    times: int = 0


def plan_museum(exhibits: Sequence[Exhibit], *, times: int = 0) -> PlannedMuseum:
    """Make the cells; what cannot be planned here is left out with its reason, never counted."""
    cells: dict[str, tuple[NightCell, CheckedPlan]] = {}
    planned = []

    def cell(name: str, plan: Plan, runs: int, *, control: bool) -> str:
        one = cell_id(plan)
        runs = max(runs, cells[one][0].runs) if one in cells else runs
        cells[one] = checked_cell(name, plan, control=control, runs=runs)
        return one

    for each in exhibits:
        if each.unjudged:
            planned.append(PlannedExhibit(exhibit=each, missing=each.unjudged))
            continue
        try:
            bug = cell(each.id, each.bug_plan(), times or each.tries, control=False)
            control = cell(f"{each.id}, control", each.control_plan(), times or each.tries, control=True)
        except UsageError as error:
            why = f"{error.message} ({error.hint})" if error.hint else error.message
            planned.append(PlannedExhibit(exhibit=each, missing=why))
        else:
            planned.append(PlannedExhibit(exhibit=each, bug=bug, control=control))
    return PlannedMuseum(exhibits=tuple(planned), cells=tuple(cells[one] for one in sorted(cells)), times=times)


Read = Callable[[RunAttempt, Exhibit], Sighting]


def tally_of(night: Night, cell: str, exhibit: Exhibit, read: Read) -> Tally:
    """What the runs of one cell of a night say of an exhibit; lost runs and those in flight say nothing."""
    attempts = [a for outcome in night.cells if outcome.cell.id == cell for a in outcome.attempts]
    ended = [a for a in attempts if a.run_class not in (None, RunClass.LOST)]
    return Tally(sightings=tuple(read(attempt, exhibit) for attempt in ended))


def tally_below(nights: Path, cell: str, exhibit: Exhibit) -> Tally:
    """What all nights below a folder say of an exhibit by one cell."""
    tally = Tally()
    for register in sorted(nights.glob(f"*/{REGISTER}")):
        tally += tally_of(read_night(register.parent), cell, exhibit, SightingFiles(register.parent))
    return tally


def outcomes(
    museum: PlannedMuseum, night: Night, read: Read, earlier: Mapping[str, Tally] = MappingProxyType({})
) -> tuple[ExhibitOutcome, ...]:
    """What a night says of each exhibit; `earlier`: the bug's runs of earlier nights, by the exhibit's id."""
    cells = {outcome.cell.id: outcome for outcome in night.cells}

    result = []
    for each in museum.exhibits:
        own = [cells[cell] for cell in (each.bug, each.control) if cell in cells]
        refused = next((o.reason for o in own if o.run_class is RunClass.MACHINE and not o.attempts), "")
        result.append(
            ExhibitOutcome(
                exhibit=each.exhibit,
                bug=tally_of(night, each.bug, each.exhibit, read),
                control=tally_of(night, each.control, each.exhibit.as_control(), read),
                earlier=earlier.get(each.exhibit.id, Tally()),
                missing=each.missing or refused,
            )
        )
    return tuple(result)


def demand_of(museum: PlannedMuseum, results: Sequence[ExhibitOutcome], turn: WaitingRun) -> Demand:
    """Whether a run is still needed; with `times` every run is.

    A bug is run until its fingerprint shows, its control until it is decided once.
    """
    for planned, outcome in zip(museum.exhibits, results, strict=True):
        if turn.cell not in (planned.bug, planned.control) or outcome.missing:
            continue
        done = outcome.bug.rate.seen if turn.cell == planned.bug else outcome.control.rate.runs
        if museum.times or not done:
            return Demand.NOW
    return Demand.NEVER


def exit_code(results: Sequence[ExhibitOutcome]) -> ExitCode:
    """0: all that could run are reproduced with clean controls; 1: one is lost, or a control shows it; 2: unknown."""
    states = {each.state for each in results}
    if states & {ExhibitState.FALSE_ALARM, ExhibitState.LOST}:
        return ExitCode.INVALID
    return ExitCode.UNKNOWN if ExhibitState.UNKNOWN in states or states == {ExhibitState.SKIPPED} else ExitCode.VALID


class SightingFiles:
    """Reads what the runs of a night's folder say, each file once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._launcher = folder, ProcessLauncher(folder)
        self._read: dict[str, tuple[dict[str, Any] | None, str, str]] = {}

    def __call__(self, attempt: RunAttempt, exhibit: Exhibit) -> Sighting:
        document, commit, report = self._document(attempt)
        sighting = sighting_of(document, exhibit)
        if sighting.shows is None and not sighting.reason:
            sighting = msgspec.structs.replace(sighting, reason=attempt.reason)
        return msgspec.structs.replace(sighting, commit=commit, at=attempt.began_at, seed=attempt.seed, report=report)

    def _document(self, attempt: RunAttempt) -> tuple[dict[str, Any] | None, str, str]:
        if attempt.folder not in self._read:
            left = self._launcher.left(attempt, attempt.exit_code)
            commit = ""
            if left.report:
                about = store.read_run((self._folder / left.report).parent)
                whole = str(about.get("machine", {}).get("git_commit") or "")
                commit = whole[:_COMMIT_LETTERS] + "-dirty" * whole.endswith("-dirty")
            self._read[attempt.folder] = left.evidence.document, commit, left.report
        return self._read[attempt.folder]


def sighting_of(document: Mapping[str, Any] | None, exhibit: Exhibit) -> Sighting:
    """What a verdict says of an exhibit: its fingerprint, or that its guarantee was decided without it, or neither."""
    if document is None:
        return Sighting(shows=None)
    if any(exhibit.is_shown_by(each["guarantee"], each["anomaly"]) for each in document["anomalies"]):
        return Sighting(shows=True)
    for line in document["guarantees"]:
        if line["name"] == exhibit.guarantee and line["validity"] == Validity.VALID:
            return Sighting(shows=False)
        if line["name"] == exhibit.guarantee and line["validity"] == Validity.INVALID:
            other = ", ".join(line["anomalies"]) or "an anomaly without a name"
            return Sighting(shows=None, reason=f"{exhibit.guarantee} is broken, but by {other}")
    return Sighting(shows=None, reason=f"{exhibit.guarantee} was not decided: {document['headline']}")
