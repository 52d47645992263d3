"""A night carried out for a command: its cells prepared, its folder opened or found again, its runs made.

A strategy says what is run and why: a campaign runs every cell, a gate what its policy still needs.
"""

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import click

from fencepost.campaigns.commands.night_table import NightTable
from fencepost.campaigns.night.cells import CheckedCells, NightCell
from fencepost.campaigns.night.documents import write_documents
from fencepost.campaigns.night.file import Campaign
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.preparation import in_words, prepare, refuse_if_none_is_left
from fencepost.campaigns.night.session import (
    NightSession,
    NightWishes,
    Watcher,
    WriteDocuments,
    cells_within,
    every_run,
    find_unfinished,
    id_of_night,
    new_folder,
    refuse_short_cells,
)
from fencepost.harness.base.errors import StoppedBeforeStart, UsageError, command_line
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.cli.output.help import PathValue, jobs_or_auto, seed_or_drawn
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.findings.known_issues import TrackedIssue

#: Which waiting runs are needed now, and who writes the night's files.
InFolder: TypeAlias = tuple[Callable[[Night, WaitingRun], Demand], WriteDocuments]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightStrategy:
    """What a night runs: `cells` are those of `checked` that are of this shard; `page` is the file for people,
    relative to the night's folder.

    `opened` is called with the night's folder, once it is known.
    """

    name: str
    campaign: Campaign
    checked: CheckedCells
    cells: Sequence[NightCell]
    issues: Sequence[TrackedIssue]
    page: str
    opened: Callable[[Path], InFolder] = lambda folder: (every_run, write_documents)


def carry_out(strategy: NightStrategy, wishes: NightWishes, *, resume: bool) -> tuple[Path, Night]:
    """Make the runs, in a new night or in the newest unfinished one; returns its folder and the night.

    Raises UsageError, MachineError or StoppedBeforeStart before a run has begun, StoppedTwice where a person insists.
    """
    unfinished = find_unfinished(strategy.campaign, wishes) if resume else None
    # A night keeps its seed, so that what is made again is the same run.
    seed = read_night(unfinished).seed if unfinished else wishes.seed
    refuse_short_cells(strategy.checked, seed)
    shared_id = "" if unfinished else id_of_night(strategy.campaign, wishes, datetime.datetime.now(datetime.UTC))
    plans, cells = strategy.checked.plans, tuple(strategy.cells)
    stop, table = StopRequest(), NightTable()
    stop.install()
    try:
        fitting = cells_within(cells, plans, wishes)
        then = "getting ready what they run" if fitting else "the budget is too short for a run of any of them"
        table.line(f"{strategy.name}: {len(cells)} cells; {then}")
        prepared = prepare(fitting, plans, table.line, lambda: stop.asked)
        stop.check()
        if stop.asked:
            raise StoppedBeforeStart("stopped while it was getting ready: no run was begun")
        if not unfinished:
            refuse_if_none_is_left(cells, prepared)
        for text in in_words(cells, prepared):
            table.line(f"cannot run on this machine: {text}")
        folder = unfinished or new_folder(strategy.campaign, wishes)
        demand, write = strategy.opened(folder)
        with NightSession(folder, strategy.checked, wishes, stop, Watcher(table.change, table.line), write) as session:
            if unfinished:
                session.resume(strategy.issues, prepared)
            else:
                session.begin(strategy.campaign, cells, strategy.issues, prepared, shared_id)
            table.line(f"seed {seed}; page: {shorten(os.path.normpath(folder / strategy.page))}")
            night = session.carry_out(prepared, demand)
    finally:
        table.close()
        stop.uninstall()
    stop.check()
    return folder, night


def night_options(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The flags of a command that carries out a night; `what` says in its help which unfinished one --resume takes."""
    budget = "Time for all runs together. No run begins that would end later."
    jobs = "Runs side by side. auto: as many as fit processors and memory."
    seed = "The seeds of all runs derive from it. Default: drawn."
    flags = (
        click.option("--budget", default="1h", show_default=True, metavar="DURATION", help=budget),
        click.option("--jobs", default="auto", show_default=True, metavar="NUMBER", help=jobs),
        click.option("--resume", is_flag=True, help=f"Go on with the newest unfinished {what}."),
        click.option("--seed", type=click.IntRange(0), metavar="NUMBER", help=seed),
        click.option(
            "--results", type=PathValue(), default=Path("results"), help="Folder for the runs. Default: results."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print its JSON file on standard output instead of text."),
    )

    def with_flags(command: Callable[..., int]) -> Callable[..., int]:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return with_flags


def wishes_of(again: list[str], *, budget: str, jobs: str, seed: int | None, results: Path) -> NightWishes:
    """The wishes of these flags; `again` is the command that repeats it without them. Raises UsageError."""
    budget_s = parse_duration_ns(budget, what="--budget") / 1e9
    if not budget_s:
        raise UsageError(f"--budget {budget} leaves no time for a run", hint="give minutes or hours")
    drawn = seed_or_drawn(seed)
    again = [*again, "--budget", budget, "--seed", str(drawn), *(["--jobs", jobs] if jobs != "auto" else [])]
    return NightWishes(
        budget_s=budget_s, seed=drawn, results=results, jobs=jobs_or_auto(jobs), command=command_line(*again)
    )
