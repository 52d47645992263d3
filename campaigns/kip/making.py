"""Makes the table: one run for each system and experiment, within a budget, and pages that are written after each.

results/conformance-kip/
    runs/<cell>-<seed>/    one run; a later command with the same plan reads its verdict instead of running again
    kip-30.json, kip-30.md
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.kip.columns import KipColumn, KipRecipe, Proposal, column_of
from fencepost.campaigns.kip.experiments import EXPERIMENTS, Experiment, ExperimentId
from fencepost.campaigns.kip.page import markdown
from fencepost.campaigns.kip.rows import experiments_of, rows_of
from fencepost.campaigns.kip.table import KipTable, MeasuredCell, table_rows
from fencepost.campaigns.night.cells import NightCell, cell_id
from fencepost.campaigns.night.launcher import Launcher, ProcessLauncher
from fencepost.campaigns.night.night import RunAttempt
from fencepost.harness.base.errors import ExitCode, UsageError, command_line, unknown_choice
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.base.signals import STOP_GRACE_S, StopRequest
from fencepost.harness.contract.system import System
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import current_read
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Thresholds

FOLDER: Final = "conformance-kip"
#: The main phase of each run; a start, healing and the final phase take as long again.
TIME_LIMIT: Final = "15s"
#: What one run takes on a quiet machine; nothing begins that the budget has no room for.
_RUN_S: Final = 60.0
#: A run that is not over by then is stopped, and has no verdict.
_DEADLINE_S: Final = 300.0
_POLL_S: Final = 0.5

Say = Callable[[str], None]


class TableWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for; `fresh`: no earlier run is read."""

    proposal: Proposal
    systems: tuple[str, ...]
    runtime: str
    budget_s: float
    seed: int
    results: Path
    fresh: bool = False


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One run to make or to read."""

    system: str
    experiment: Experiment
    cell: NightCell
    seed: int

    @property
    def folder(self) -> str:
        return f"runs/{self.cell.id}-{self.seed}"

    @property
    def command(self) -> str:
        """What repeats the run on any machine."""
        plan = self.cell.plan
        options = [word for name, value in plan.workload_options.items() for word in ("-o", f"{name}={value}")]
        arguments = ["--system", plan.system, "--version", plan.version, "--workload", plan.workload, *options]
        arguments += ["--nemesis", plan.nemesis, "--runtime", plan.runtime, "--time-limit", plan.time_limit]
        return command_line("run", *arguments, "--seed", self.seed)


def columns_of(systems: Sequence[str]) -> dict[str, KipColumn | None]:
    """Each system's column; None without one. Raises UsageError for a name that is no system, or named twice."""
    if len(set(systems)) < len(systems):
        raise UsageError("--systems: one is named twice", hint="name each once")
    columns: dict[str, KipColumn | None] = {}
    for name in systems:
        if name not in registry.SYSTEMS:
            raise unknown_choice("system", name, list(registry.SYSTEMS))
        columns[name] = column_of(registry.system(name))
    return columns


def plans(wishes: TableWishes, columns: Mapping[str, KipColumn | None]) -> list[Planned]:
    """Every run that the rows can be measured by, one experiment after the other; raises UsageError."""
    wanted = experiments_of(rows_of(wishes.proposal))
    planned = []
    for experiment in EXPERIMENTS:
        if experiment.id not in wanted:
            continue
        workload = registry.workload(experiment.workload)
        for name, column in columns.items():
            system = registry.system(name)
            if column is None or workload.protocol not in system.profile.interfaces:
                continue
            plan = Plan(
                system=name,
                workload=experiment.workload,
                seed=0,
                version=system.releases.default,
                nemesis=experiment.nemesis_where(somebody_leads=bool(system.profile.subjects)),
                runtime=wishes.runtime,
                time_limit=TIME_LIMIT,
                # A table says how often each row was tested; a run with few faults is no reason to hide that.
                thresholds=Thresholds(ok_operations_min=1, effective_faults_min=0),
                workload_options={
                    **experiment.workload_options,
                    **_current(experiment, system),
                },
            )
            check_plan(plan)
            cell = NightCell(id=cell_id(plan), name=f"{name} {experiment.id}", plan=plan)
            planned.append(Planned(system=name, experiment=experiment, cell=cell, seed=wishes.seed))
    return planned


def _current(experiment: Experiment, system: System) -> dict[str, str]:
    """The option by which this experiment reads currently; none where the system has no such read."""
    mode = current_read(system)
    return {experiment.reads: mode.value} if experiment.reads and mode in system.profile.read_modes else {}


def _recipe_words(recipe: KipRecipe) -> str:
    other = f"; not measured here, -O {recipe.chosen_by} chooses it" if recipe.chosen_by else ""
    return f"{recipe.part}: {recipe.title}, {recipe.about}{other}"


class TableMaking:
    """One command: `make` runs what is missing; `write` writes the table so far, at any time."""

    def __init__(
        self,
        wishes: TableWishes,
        *,
        say: Say,
        stop: StopRequest,
        launcher: Callable[[Path], Launcher] = ProcessLauncher,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wishes, self.say, self.stop, self._clock_s = wishes, say, stop, clock_s
        self.columns = columns_of(wishes.systems)
        self.planned = plans(wishes, self.columns)
        self.folder: Final = wishes.results / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)
        self._launcher = launcher(self.folder)
        self._began_s = clock_s()
        self._started_at = utc_stamp()
        self.runs: dict[tuple[str, ExperimentId], MeasuredCell] = {}

    def make(self) -> KipTable:
        """Make every run that fits into the budget; raises StoppedTwice when a person insists."""
        waiting = []
        for one in self.planned:
            done = None if self.wishes.fresh else self._left(one, None)
            if done is not None and done.document is not None:
                self._take(one, done)
            else:
                waiting.append(one)
        if len(waiting) < len(self.planned):
            self.say(f"{len(self.planned) - len(waiting)} of {len(self.planned)} runs are there already")
        for number, one in enumerate(waiting, 1):
            left_s = self.wishes.budget_s - (self._clock_s() - self._began_s)
            if self.stop.asked:
                self._take(one, self._none(one, "stopped before its turn"))
            elif left_s < _RUN_S:
                self._take(one, self._none(one, f"the budget of {self.wishes.budget_s:.0f} s was spent"))
            else:
                self.say(f"{number} of {len(waiting)}: {one.cell.name}")
                self._take(one, self._run(one))
                self.write()
        self.stop.check()
        return self.write()

    def write(self) -> KipTable:
        """Write the table so far as JSON and Markdown."""
        proposal = self.wishes.proposal
        table = self._table()
        store.write_json(self.folder / f"{proposal}.json", msgspec.to_builtins(table))
        (self.folder / f"{proposal}.md").write_text(markdown(table), encoding="utf-8")
        return table

    def _table(self) -> KipTable:
        documents = {done.system: done.document for done in self.runs.values() if done.document is not None}
        return KipTable(
            proposal=self.wishes.proposal,
            systems=tuple(self.columns),
            versions={name: str(document.get("version") or "") for name, document in documents.items()},
            recipes={
                name: tuple(_recipe_words(recipe) for recipe in column.recipes) if column else ()
                for name, column in self.columns.items()
            },
            rows=table_rows(self.wishes.proposal, self.columns, self.runs),
            runs=sum(done.document is not None for done in self.runs.values()),
            missing=tuple(
                f"{done.system}, {done.experiment}: {done.missing}"
                for done in self.runs.values()
                if done.document is None
            ),
            runtime=self.wishes.runtime,
            started_at=self._started_at,
            played_s=sum(done.document["duration_ns"] for done in self.runs.values() if done.document) / 1e9,
            machine=store.machine_facts(),
        )

    def _take(self, one: Planned, done: MeasuredCell) -> None:
        self.runs[one.system, one.experiment.id] = done
        if done.missing:
            self.say(f"  {one.cell.name}: {done.missing}")

    def _attempt(self, one: Planned) -> RunAttempt:
        return RunAttempt(cell=one.cell.id, run=1, number=1, seed=one.seed, folder=one.folder)

    def _run(self, one: Planned) -> MeasuredCell:
        """Make one run and wait for it; it is stopped at its deadline, and when the command is."""
        flight = self._launcher.launch(one.cell, self._attempt(one))
        ends_s = self._clock_s() + _DEADLINE_S
        killed_s: float | None = None
        while (code := flight.ended()) is None:
            self._launcher.wait([flight], _POLL_S)
            now_s = self._clock_s()
            if killed_s is not None and now_s > killed_s:
                flight.kill()
            elif killed_s is None and (self.stop.asked or now_s > ends_s):
                flight.stop()
                killed_s = now_s + STOP_GRACE_S
        done = self._left(one, code)
        return done if done is not None else self._none(one, f"it ended with {code}, and left nothing")

    def _left(self, one: Planned, code: int | None) -> MeasuredCell | None:
        """What a run left; None where there is no run, and where an earlier one has no verdict of its whole length."""
        if not (self.folder / one.folder).is_dir():
            return None
        left = self._launcher.left(self._attempt(one), code)
        document = left.evidence.document
        if document is None or document["exit_code"] == ExitCode.INTERNAL:
            why = left.evidence.failure or (document or {}).get("headline") or f"it ended with {code}"
            return self._none(one, str(why))
        if document.get("cut_short"):
            return self._none(one, f"it was cut short: {document['cut_short']}")
        return MeasuredCell(
            system=one.system,
            experiment=one.experiment.id,
            document=document,
            report=left.report,
            command=one.command,
        )

    def _none(self, one: Planned, why: str) -> MeasuredCell:
        return MeasuredCell(system=one.system, experiment=one.experiment.id, missing=why)
