"""Makes the table: a night with a cell for each system and experiment, and pages that are written again as it goes on.

results/conformance-kip/
    nights/<proposal>/<UTC time>/    the runs of one command; a later one reads their verdicts instead of running again
    kip-30.json, kip-30.md
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.kip.columns import KipColumn, KipRecipe, column_of
from fencepost.campaigns.kip.page import markdown
from fencepost.campaigns.kip.rows import EXPERIMENTS, Experiment, Proposal, experiments_of, rows_of
from fencepost.campaigns.kip.table import KipTable, MeasuredCell, table_rows
from fencepost.campaigns.night.cells import NightCell, cell_id
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.launcher import ProcessLauncher
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.register import REGISTER
from fencepost.campaigns.night.session import NIGHTS
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.harness.base.errors import ExitCode, UsageError, command_line, unknown_choice
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.contract.system import System
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import current_read
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Thresholds

FOLDER: Final = "conformance-kip"
#: The main phase of each run; a start, healing and the final phase take as long again.
TIME_LIMIT: Final = "15s"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One run to make or to read."""

    system: str
    experiment: Experiment
    cell: NightCell
    checked: CheckedPlan

    @property
    def key(self) -> tuple[str, str]:
        return self.system, self.experiment.id


def _command(plan: Plan, seed: int) -> str:
    """What repeats a run on any machine."""
    options = [word for name, value in plan.workload_options.items() for word in ("-o", f"{name}={value}")]
    arguments = ["--system", plan.system, "--version", plan.version, "--workload", plan.workload, *options]
    arguments += ["--nemesis", plan.nemesis, "--runtime", plan.runtime, "--time-limit", plan.time_limit]
    return command_line("run", *arguments, "--seed", seed)


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


def plans(proposal: Proposal, runtime: str, columns: Mapping[str, KipColumn | None]) -> list[Planned]:
    """Every run that the rows can be measured by, one experiment after the other; raises UsageError."""
    wanted = experiments_of(rows_of(proposal))
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
                runtime=runtime,
                time_limit=TIME_LIMIT,
                # A table says how often each row was tested; a run with few faults is no reason to hide that.
                thresholds=Thresholds(ok_operations_min=1, effective_faults_min=0),
                workload_options={**experiment.workload_options, **_current(experiment, system)},
            )
            cell = NightCell(id=cell_id(plan), name=f"{name} {experiment.id}", plan=plan)
            planned.append(Planned(system=name, experiment=experiment, cell=cell, checked=check_plan(plan)))
    return planned


def _current(experiment: Experiment, system: System) -> dict[str, str]:
    """The option by which this experiment reads currently; none where the system has no such read."""
    mode = current_read(system)
    return {experiment.reads: mode.value} if experiment.reads and mode in system.profile.read_modes else {}


def _recipe_words(recipe: KipRecipe) -> str:
    other = f"; not measured here, -O {recipe.chosen_by} chooses it" if recipe.chosen_by else ""
    return f"{recipe.part}: {recipe.title}, {recipe.about}{other}"


class TableMaking(CellStrategy):
    """Runs what is missing, and writes the table again as it goes on; it stands beside the nights, in `results`.

    `fresh`: no earlier run is read.
    """

    def __init__(
        self, proposal: Proposal, systems: Sequence[str], results: Path, *, runtime: str, fresh: bool = False
    ) -> None:
        self.proposal, self.results, self.runtime = proposal, results, runtime
        self.columns = columns_of(systems)
        self.planned = plans(proposal, runtime, self.columns)
        self.results.mkdir(parents=True, exist_ok=True)
        self.page = f"../../../{proposal}.md"
        self._started_at = utc_stamp()
        self._read: dict[Path, MeasuredCell] = {}
        self._runs: dict[tuple[str, str], MeasuredCell] = {}
        for register in () if fresh else sorted((results / NIGHTS / proposal).glob(f"*/{REGISTER}")):
            self._take(read_night(register.parent), register.parent, only_judged=True)
        waiting = [one for one in self.planned if one.key not in self._runs]
        there = len(self.planned) - len(waiting)
        name = f"{proposal}, {there} of {len(self.planned)} runs are there already" if there else proposal.value
        super().__init__(name, [(one.cell, one.checked) for one in waiting], proposal.value)

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        """Write the table as it stands when `night` has come this far."""
        self._take(night, self.folder, only_judged=False)
        self.write()
        return {}

    def write(self) -> KipTable:
        """Write the table so far as JSON and Markdown."""
        proposal = self.proposal
        table = self._table()
        store.write_json(self.results / f"{proposal}.json", msgspec.to_builtins(table))
        write_whole(self.results / f"{proposal}.md", markdown(table))
        return table

    def _take(self, night: Night, folder: Path, *, only_judged: bool) -> None:
        """Take what the cells of a night came to; `only_judged`: those that have a verdict of their whole length."""
        outcomes = {outcome.cell.id: outcome for outcome in night.cells}
        for one in self.planned:
            outcome = outcomes.get(one.cell.id)
            if outcome is None:
                continue
            ended = [attempt for attempt in outcome.attempts if attempt.run_class is not None]
            missing = MeasuredCell(system=one.system, experiment=one.experiment.id, missing=outcome.reason)
            done = self._left(one, ended[-1], folder) if ended else missing
            if done.document is not None or not only_judged:
                self._runs[one.key] = done

    def _left(self, one: Planned, attempt: RunAttempt, folder: Path) -> MeasuredCell:
        """What an attempt left, read once."""
        place = folder / attempt.folder
        if place not in self._read:
            left = ProcessLauncher(folder).left(attempt, attempt.exit_code)
            document = left.evidence.document or {}
            why = ""
            if not document or document["exit_code"] == ExitCode.INTERNAL:
                why = left.evidence.failure or document.get("headline") or attempt.reason
            elif document.get("cut_short"):
                why = f"it was cut short: {document['cut_short']}"
            self._read[place] = MeasuredCell(
                system=one.system,
                experiment=one.experiment.id,
                document=None if why else document,
                missing=str(why),
                report=os.path.relpath(folder / left.report, self.results) if left.report and not why else "",
                command="" if why else _command(one.cell.plan, attempt.seed),
            )
        return self._read[place]

    def _table(self) -> KipTable:
        documents = {done.system: done.document for done in self._runs.values() if done.document is not None}
        return KipTable(
            proposal=self.proposal,
            systems=tuple(self.columns),
            versions={name: str(document.get("version") or "") for name, document in documents.items()},
            recipes={
                name: tuple(_recipe_words(recipe) for recipe in column.recipes) if column else ()
                for name, column in self.columns.items()
            },
            rows=table_rows(self.proposal, self.columns, self._runs),
            runs=sum(done.document is not None for done in self._runs.values()),
            missing=tuple(
                f"{done.system}, {done.experiment}: {done.missing}"
                for done in self._runs.values()
                if done.document is None
            ),
            runtime=self.runtime,
            started_at=self._started_at,
            played_s=sum(done.document["duration_ns"] for done in self._runs.values() if done.document) / 1e9,
            machine=store.machine_facts(),
        )
