"""A night carried out for a command: its cells prepared, its folder opened or found again, its runs made."""

import datetime
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.campaigns.commands.night_table import NightTable
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.preparation import in_words, prepare, refuse_if_none_is_left
from fencepost.campaigns.night.session import (
    NightSession,
    NightWishes,
    cells_within,
    find_unfinished,
    id_of_night,
    refuse_short_cells,
)
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.telling import about
from fencepost.harness.base.errors import StoppedBeforeStart, command_line
from fencepost.harness.base.offers import plugin_paths
from fencepost.harness.base.quantities import counted, parse_budget_s
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.cli.output.help import jobs_or_auto, print_document, seed_or_drawn, shared_flags
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.results.run_folder import make_run_folder


def carry_out(strategy: Strategy, wishes: NightWishes, *, resume: bool = False) -> Night:
    """Make the runs, in a new night or in the newest unfinished one; the strategy knows its folder then.

    Raises UsageError, MachineError or StoppedBeforeStart before a run has begun, StoppedTwice where a person insists.
    """
    if strategy.home:
        unfinished = strategy.home if (strategy.home / wishes.register).is_file() else None
    else:
        unfinished = find_unfinished(strategy.campaign, wishes) if resume else None
    seed = wishes.seed
    if unfinished:
        earlier = read_night(unfinished, wishes.register)
        # A night keeps its seed, so that what is made again is the same run.
        seed = earlier.seed
        if strategy.home:
            wishes = msgspec.structs.replace(wishes, budget_s=wishes.budget_s + earlier.spent_s)
    refuse_short_cells(strategy.checked, seed)
    shared_id = "" if unfinished else id_of_night(strategy.campaign, wishes, datetime.datetime.now(datetime.UTC))
    plans, cells = strategy.checked.plans, strategy.cells
    stop, table = StopRequest(), NightTable(strategy)
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
        new = strategy.home or unfinished or make_run_folder(wishes.nights, strategy.campaign.content.name)
        strategy.open(new, table.line)
        with NightSession(strategy, wishes, stop, table.change) as session:
            if unfinished:
                session.resume(prepared)
            else:
                session.begin(prepared, shared_id)
            table.line(f"seed {seed}; page: {shorten(os.path.normpath(strategy.folder / strategy.page))}")
            night = session.carry_out(prepared)
    finally:
        table.close()
        stop.uninstall()
    stop.check()
    return night


def say_end(night: Night, page: Path, lines: Iterable[str], document: Mapping[str, Any] | None) -> None:
    """Print what came of a night on stdout, as its JSON document where that was asked for; then where to look."""
    if document is None:
        for line in lines:
            click.echo(line)
    else:
        print_document({**document})
    sys.stdout.flush()
    again = f"repeat with: {night.command}\n" if night.command else ""
    sys.stderr.write(f"{about(night)}\npage: {shorten(str(page))}\n{again}")


#: The flags of a command that carries out a night.
night_options = shared_flags("resume", "seed", "results", "json", budget="1h", jobs="auto")


def wishes_of(again: list[str], *, budget: str, jobs: str, seed: int | None, **own: Any) -> NightWishes:
    """The wishes of these flags and of a command's own; `again` repeats the command without them. Raises UsageError."""
    budget_s = parse_budget_s(budget)
    drawn = seed_or_drawn(seed)
    again = [*again, "--budget", budget, "--seed", str(drawn), *["--jobs", jobs] * (jobs != "auto")]
    again += [part for plugin in plugin_paths() for part in ("--plugin", plugin)]
    return NightWishes(budget_s=budget_s, seed=drawn, jobs=jobs_or_auto(jobs), command=command_line(*again), **own)
