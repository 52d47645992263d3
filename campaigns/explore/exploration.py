"""An exploration as a night of one cell: the values of each run, what the runs reached, and the exit code.

Everything follows from the night's register and from what its runs left, so a killed exploration goes on as it was.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.explore.corpus import FRESH_SHARE, Corpus, ExploredRun, Space
from fencepost.campaigns.explore.features import FeatureFiles, RunFeatures
from fencepost.campaigns.night.cells import CheckedCells, NightCell, cell_id, cells_of
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.draws import DrawnKey
from fencepost.campaigns.night.file import RUNS_MAX, Campaign, read_campaign
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.pool import Demand, RunValues, WaitingRun
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.telling import about, finding_lines, from_here
from fencepost.harness.base.errors import ExitCode, UsageError, unknown_choice
from fencepost.harness.base.quantities import counted
from fencepost.harness.base.toml_file import read_toml
from fencepost.harness.plan import PLAN_FORMAT, read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store

NAME: Final = "explore"
DOCUMENT: Final = "explore.json"
PAGE: Final = "explore.md"
#: Classes of runs that say nothing of the plan.
_NO_RUN: Final = (RunClass.LOST, RunClass.MACHINE, RunClass.HARNESS)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where an exploration begins: a cell with a checked plan, and what its runs draw."""

    cell: NightCell
    checked: CheckedPlan
    draws: tuple[DrawnKey, ...] = ()


def read_start(path: Path, cell: str, runs: int) -> Start:
    """Read a plan, a run's folder or a cell of a campaign; `cell` is its name or id. Raises UsageError."""
    file = path / store.PLAN if path.is_dir() else path
    data = read_toml(file, hint="give a plan, the folder of a run, or a campaign with --cell").data
    if "system" in data:
        if cell:
            raise UsageError(f"--cell {cell}: {file} is a plan and has no cells", hint="leave --cell out")
        plan, draws = read_plan(file, seed=0), tuple[DrawnKey, ...]()
    else:
        every = {name: one for one in cells_of(read_campaign(file)).cells for name in (one.id, one.name)}
        if cell not in every:
            raise unknown_choice(
                f"cell of {file} (--cell)", cell, [name for name, one in every.items() if name != one.id]
            )
        plan, draws = every[cell].plan, every[cell].draws
    plan = msgspec.structs.replace(plan, seed=0, format=PLAN_FORMAT)
    checked = check_plan(plan)
    plan = msgspec.structs.replace(plan, time_limit=checked.plan.time_limit)
    name = f"{plan.system} {plan.workload} {plan.nemesis}"
    return Start(
        cell=NightCell(id=cell_id(plan, draws), name=name, plan=plan, runs=min(RUNS_MAX, runs)),
        checked=checked,
        draws=draws,
    )


class Exploration(Strategy):
    """Chooses the runs of a night; `read` says what a run that ended reached."""

    page = PAGE

    def __init__(
        self, start: Start, space: Space, *, stop_at_first: bool = False, fresh_share: float = FRESH_SHARE
    ) -> None:
        # Every run has values of its own, so one alone is looked at before the start.
        once = msgspec.structs.replace(start.cell, runs=1)
        super().__init__(
            start.cell.name,
            Campaign.of_cells(f"{NAME}-{start.cell.id}", [start.cell.id]),
            CheckedCells(cells=(once,), plans={once.id: start.checked}, impossible=()),
            [start.cell],
        )
        self._space, self._stop_at_first, self._fresh_share = space, stop_at_first, fresh_share

    def open(self, folder: Path, say: Callable[[str], None]) -> None:
        super().open(folder, say)
        self.read: Callable[[RunAttempt], RunFeatures] = FeatureFiles(folder)

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        return {
            DOCUMENT: lambda: document(night, self),
            PAGE: lambda: page(night, self, from_here(self.folder)),
        }

    def runs(self, night: Night) -> list[ExploredRun]:
        """The runs that ended and say something, in the order in which they began."""
        return [
            ExploredRun(
                run=attempt.run,
                values=attempt.values,
                origin=attempt.origin,
                features=self.read(attempt).reached,
                broke=attempt.run_class in (RunClass.INVALID, RunClass.KNOWN),
            )
            for attempt in night.attempts
            if attempt.run_class is not None and attempt.run_class not in _NO_RUN
        ]

    def choose(self, night: Night, turn: WaitingRun) -> RunValues:
        """The values of a run; a further attempt at one has those of the first."""
        for attempt in night.attempts:
            if attempt.run == turn.run:
                return RunValues(values=attempt.values, origin=attempt.origin)
        draw = random.Random(f"{night.seed}/explore/{turn.run}")
        values, origin = Corpus(self.runs(night)).next(self._space, draw, self._fresh_share)
        return RunValues(values=values, origin=origin)

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        """Every run, or those before the first violation."""
        return Demand.NEVER if self._stop_at_first and violations(night) else Demand.NOW

    def lacks(self, night: Night) -> dict[str, str]:
        """What runs could have reached and none did, with the reason of the last one."""
        ended = [self.read(attempt) for attempt in night.attempts if attempt.run_class is not None]
        met = {feature for each in ended for feature in each.reached}
        return {name: why for each in ended for name, why in each.lacks.items() if name not in met}


def violations(night: Night) -> list[RunAttempt]:
    """The runs that broke a guarantee."""
    return [attempt for attempt in night.attempts if attempt.run_class is RunClass.INVALID]


def exit_code(night: Night) -> ExitCode:
    """1: a violation; 2: nothing was decided, or a run was lost or failed; else 0."""
    if violations(night):
        return ExitCode.INVALID
    decided = {attempt.run_class for attempt in night.attempts}
    numbers = {attempt.run for attempt in night.attempts if attempt.run_class is RunClass.LOST}
    made_again = {attempt.run for attempt in night.attempts if attempt.run_class not in (None, RunClass.LOST)}
    if RunClass.VALID not in decided or RunClass.HARNESS in decided or numbers - made_again:
        return ExitCode.UNKNOWN
    return ExitCode.VALID


def sentence(night: Night, corpus: Corpus, runs: Sequence[ExploredRun]) -> str:
    """ "12 runs, of which 7 reached something first: 41 features; 1 run broke a guarantee"."""
    broke = len(violations(night))
    return (
        f"{counted(len(runs), 'run')}, of which {len(corpus.members)} reached something first: "
        f"{counted(len(corpus.met), 'feature')}; {counted(broke, 'run')} broke a guarantee"
    )


def document(night: Night, exploration: Exploration) -> dict[str, Any]:
    """What explore.json holds: each run with its values and what it reached first, and what none reached."""
    runs = exploration.runs(night)
    corpus = Corpus(runs)
    first = {member.run.run: sorted(member.first) for member in corpus.members}
    return {
        "id": night.id,
        "state": night.state,
        "seed": night.seed,
        "command": night.command,
        "exit_code": int(exit_code(night)),
        "sentence": sentence(night, corpus, runs),
        "runs": [
            {
                "run": attempt.run,
                "class": attempt.run_class,
                "seed": attempt.seed,
                "origin": attempt.origin,
                "values": attempt.values,
                "first": first.get(attempt.run, []) if attempt.run_class not in (None, RunClass.LOST) else [],
                "fingerprints": attempt.fingerprints,
                "report": attempt.report,
            }
            for attempt in night.attempts
        ],
        "met": {
            feature: {"runs": corpus.met[feature], "first": run}
            for run, features in first.items()
            for feature in features
        },
        "never": exploration.lacks(night),
    }


def page(night: Night, exploration: Exploration, home: str) -> str:
    """The page for people: the violations, what each run reached first, how often all of it was met, what never."""
    made = document(night, exploration)
    lines = [f"# {night.id}: {made['sentence']}", "", about(night), "", night.command, "", "## Violations", ""]
    for attempt in violations(night):
        lines += [f"- run {attempt.run}: {attempt.reason}", *(f"  - {line}" for line in finding_lines(attempt, home))]
    lines += [] if violations(night) else ["none"]
    lines += [
        "",
        "## What each run reached first",
        "",
        "| run | class | change of | values | first |",
        "| --- " * 5 + "|",
    ]
    for run in made["runs"]:
        values = ", ".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in run["values"].items())
        cells = (run["run"], run["class"] or "in flight", run["origin"] or "none", values, "; ".join(run["first"]))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## What was met", "", "| feature | runs | first in run |", "| --- " * 3 + "|"]
    lines += [f"| {name} | {of['runs']} | {of['first']} |" for name, of in sorted(made["met"].items())]
    lines += ["", "## What was never met", "", "| feature | what the last run lacked |", "| --- " * 2 + "|"]
    lines += [f"| {name} | {why} |" for name, why in sorted(made["never"].items())]
    return "\n".join([*lines, ""])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
