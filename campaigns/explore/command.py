"""`fencepost explore`: runs whose plans follow what earlier ones reached first, within a budget."""

from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import carry_out, night_options, say_end, wishes_of
from fencepost.campaigns.explore.corpus import FRESH_SHARE
from fencepost.campaigns.explore.exploration import PAGE, Exploration, document, exit_code, read_start, violations
from fencepost.campaigns.explore.space import space_of
from fencepost.campaigns.night.telling import finding_lines, from_here
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue

EXAMPLES = (
    HelpExample("fencepost explore plan.toml --budget 1h", "Plans around this one, for an hour"),
    HelpExample(
        "fencepost explore docs/how-to/nightly.toml --cell 'etcd: broad' --stop-at-first",
        "Around a cell of a campaign, until a guarantee is broken",
    ),
    HelpExample("fencepost explore plan.toml --resume", "Go on where an exploration was stopped or killed"),
)


@click.command("explore", cls=Documented, examples=EXAMPLES)
@click.argument("start", type=PathValue(), metavar="PLAN | CAMPAIGN")
@click.option("--cell", default="", metavar="NAME", help="The cell of a campaign, by its name or id.")
@click.option("--stop-at-first", is_flag=True, help="Begin no run after the first violation.")
@click.option(
    "--fresh-share",
    type=click.FloatRange(0, 1),
    default=FRESH_SHARE,
    show_default=True,
    metavar="SHARE",
    help="Share of the runs whose plans are drawn, whatever others reached; 1: all of them.",
)
@night_options
def command(
    start: Path, cell: str, stop_at_first: bool, fresh_share: float, resume: bool, as_json: bool, **flags: Any
) -> int:
    """Run plans near those that reached something new.

    The first plans are drawn around the given one: its seed, load, quiet time and faults. Then most are changes of a
    plan that reached something first: a mechanism, a rule of a guarantee that had a chance, two effects at once, a
    sequence of leaders. The page lists all that was met, by which run first, and what never was.

    Exits 0 when no guarantee was broken, 1 for a violation, 2 when nothing was decided or a run was lost or failed,
    130 stopped twice, 254 refused before the start.
    """
    again = ["explore", str(start), *["--cell", cell] * bool(cell), *["--stop-at-first"] * stop_at_first]
    again += ["--fresh-share", str(fresh_share)] * (fresh_share != FRESH_SHARE)
    wishes = wishes_of(again, **flags)
    begin = read_start(start, cell, 1 + int(wishes.budget_s))
    space = space_of(begin.checked, begin.draws)
    exploration = Exploration(begin, space, stop_at_first=stop_at_first, fresh_share=fresh_share)
    night = carry_out(exploration, wishes, resume=resume)
    made, home = document(night, exploration), from_here(exploration.folder)
    lines = []
    for attempt in violations(night):
        lines += [
            f"  ✗ run {attempt.run}: {attempt.reason}",
            *(f"      {each}" for each in finding_lines(attempt, home)),
        ]
    say_end(night, exploration.folder / PAGE, [*lines, f"{made['sentence']}."], made if as_json else None)
    return int(exit_code(night))
