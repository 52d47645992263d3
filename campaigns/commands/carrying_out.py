"""A night carried out for a command: its cells prepared, its folder opened or found again, its runs made.

A strategy says what is run and why: a campaign runs every cell, a gate what its policy still needs.
"""

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fencepost.campaigns.commands.night_table import NightTable
from fencepost.campaigns.night.cells import CheckedCells, NightCell
from fencepost.campaigns.night.documents import PAGE
from fencepost.campaigns.night.file import Campaign
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.preparation import in_words, prepare, refuse_if_none_is_left
from fencepost.campaigns.night.session import (
    InFolder,
    NightSession,
    NightWishes,
    Watcher,
    cells_within,
    find_unfinished,
    id_of_night,
    new_folder,
    refuse_short_cells,
)
from fencepost.harness.base.errors import StoppedBeforeStart, UsageError, command_line
from fencepost.harness.base.offers import plugin_paths
from fencepost.harness.base.quantities import counted, parse_duration_ns
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.cli.output.help import jobs_or_auto, seed_or_drawn, shared_flags
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.harness.plan.checked_plan import CheckedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class NightStrategy:
    """What a night runs: `cells` are those of `checked` that are of this shard; `page` is the file for people,
    relative to the night's folder.

    `opened` is called with the night's folder, once it is known, and with what says a line. `folder`: where it stands,
    if every command goes on with the same one, each with a budget of its own.
    """

    name: str
    campaign: Campaign
    checked: CheckedCells
    cells: Sequence[NightCell]
    issues: Sequence[TrackedIssue] = ()
    page: str = PAGE
    opened: Callable[[Path, Callable[[str], None]], InFolder] = lambda folder, say: InFolder()
    folder: Path | None = None

    @classmethod
    def of_cells(
        cls, name: str, checked: Sequence[tuple[NightCell, CheckedPlan]], *, campaign: str = "", **more: Any
    ) -> "NightStrategy":
        """A night without a campaign file; its digest is that of its cells and the number of their runs."""
        cells = tuple(cell for cell, _ in checked)
        return cls(
            name=name,
            campaign=Campaign.of_cells(campaign or name, (f"{cell.id} {cell.runs}" for cell in cells)),
            checked=CheckedCells(cells=cells, plans={cell.id: plan for cell, plan in checked}, impossible=()),
            cells=cells,
            **more,
        )


def carry_out(strategy: NightStrategy, wishes: NightWishes, *, resume: bool) -> tuple[Path, Night]:
    """Make the runs, in a new night or in the newest unfinished one; returns its folder and the night.

    Raises UsageError, MachineError or StoppedBeforeStart before a run has begun, StoppedTwice where a person insists.
    """
    if strategy.folder:
        unfinished = strategy.folder if (strategy.folder / wishes.register).is_file() else None
    else:
        unfinished = find_unfinished(strategy.campaign, wishes) if resume else None
    seed = wishes.seed
    if unfinished:
        earlier = read_night(unfinished, wishes.register)
        # A night keeps its seed, so that what is made again is the same run.
        seed = earlier.seed
        if strategy.folder:
            wishes = msgspec.structs.replace(wishes, budget_s=wishes.budget_s + earlier.spent_s)
    refuse_short_cells(strategy.checked, seed)
    shared_id = "" if unfinished else id_of_night(strategy.campaign, wishes, datetime.datetime.now(datetime.UTC))
    plans, cells = strategy.checked.plans, tuple(strategy.cells)
    stop, table = StopRequest(), NightTable()
    stop.install()
    try:
        fitting = cells_within(cells, plans, wishes)
        then = "getting ready what they run" if fitting else "the budget is too short for a run of any of them"
        table.line(f"{strategy.name}: {counted(len(cells), 'cell')}; {then}")
        prepared = prepare(fitting, plans, table.line, lambda: stop.asked)
        stop.check()
        if stop.asked:
            raise StoppedBeforeStart("stopped while it was getting ready: no run was begun")
        if not unfinished:
            refuse_if_none_is_left(cells, prepared)
        for text in in_words(cells, prepared):
            table.line(f"cannot run on this machine: {text}")
        folder = unfinished or strategy.folder or new_folder(strategy.campaign, wishes)
        own = strategy.opened(folder, table.line)
        table.describe, table.sign = own.describe, own.sign
        with NightSession(folder, strategy.checked, wishes, stop, Watcher(table.change, table.line), own) as session:
            if unfinished:
                session.resume(strategy.issues, prepared)
            else:
                session.begin(strategy.campaign, cells, strategy.issues, prepared, shared_id)
            table.line(f"seed {seed}; page: {shorten(os.path.normpath(folder / strategy.page))}")
            night = session.carry_out(prepared)
    finally:
        table.close()
        stop.uninstall()
    stop.check()
    return folder, night


#: The flags of a command that carries out a night.
night_options = shared_flags("resume", "seed", "results", "json", budget="1h", jobs="auto")


def wishes_of(again: list[str], *, budget: str, jobs: str, seed: int | None, **own: Any) -> NightWishes:
    """The wishes of these flags and of a command's own; `again` repeats the command without them. Raises UsageError."""
    budget_s = parse_duration_ns(budget, what="--budget") / 1e9
    if not budget_s:
        raise UsageError(f"--budget {budget} leaves no time for a run", hint="give minutes or hours, such as 2h")
    drawn = seed_or_drawn(seed)
    again = [*again, "--budget", budget, "--seed", str(drawn), *["--jobs", jobs] * (jobs != "auto")]
    again += [part for plugin in plugin_paths() for part in ("--plugin", plugin)]
    return NightWishes(budget_s=budget_s, seed=drawn, jobs=jobs_or_auto(jobs), command=command_line(*again), **own)
