"""`fencepost shrink`: its flags, the search, and the outcome that it prints."""

import math
from pathlib import Path
from typing import Any, Final

import click

from fencepost.campaigns.commands.carrying_out import carry_out
from fencepost.campaigns.night.night import NightState
from fencepost.campaigns.night.session import NightWishes
from fencepost.campaigns.replay.recorded import choose, read_recorded
from fencepost.campaigns.replay.reductions import dropped
from fencepost.campaigns.replay.shrinking import CONFIRMATIONS, CONFIRMATIONS_MIN, DOCUMENT, SMALLER, Shrinking, Shrunk
from fencepost.harness.base.errors import ExitCode, UsageError, command_line
from fencepost.harness.base.quantities import parse_budget_s
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue, shared_flags
from fencepost.harness.cli.output.progress import shorten

EXAMPLES = (
    HelpExample("fencepost shrink RUN", "Search for half an hour, then confirm by 10 new runs"),
    HelpExample(
        "fencepost shrink RUN --budget 3m --confirm 3", "A quick answer: less is tried, and confirmed less surely"
    ),
    HelpExample("fencepost shrink RUN --budget 4h", "Over night; the same command continues an earlier search"),
)


#: A baseline of two tries, and two smaller plans of which one shows at once and the other does not.
_SHORT_SEARCH_TRIES: Final = 8


def shrink(run: Path, results: Path, *, budget: str, confirmations: int, fingerprint: str | None) -> int:
    """Shrink a run and print what is left: 0 when that is confirmed or nothing can be left out, else 2."""
    budget_s = parse_budget_s(budget)
    if confirmations < CONFIRMATIONS_MIN:
        raise UsageError(
            f"--confirm {confirmations}: fewer than {CONFIRMATIONS_MIN} new runs confirm nothing",
            hint=f"give {CONFIRMATIONS_MIN} or more; the default is {CONFIRMATIONS}",
        )
    recorded = read_recorded(run)
    wanted = choose(recorded, fingerprint)
    if wanted is None:
        raise UsageError(
            f"{recorded.folder}: the run shows no violation, so there is nothing to shrink to",
            hint=f"{command_line('replay', shorten(str(recorded.folder)), '--until-invalid')} looks for one",
        )
    click.echo(f"shrinking {recorded.name}: {len(recorded.rows)} faults, seed {recorded.plan.seed}", err=True)
    click.echo(f"fingerprint: {wanted}", err=True)
    search = Shrinking(recorded, wanted, results, budget_s=budget_s, confirmations=confirmations)
    again = "stopped and called again this goes on"
    click.echo(f"tries are kept in {shorten(str(search.folder))}; {again}", err=True)
    wishes = NightWishes(budget_s=budget_s, seed=recorded.plan.seed, results=results, jobs=1, repeats=True)
    night = carry_out(search, wishes)
    stopped = night.state is NightState.STOPPED
    shrunk = search.shrunk(night)
    say_shrunk(shrunk, search, stopped=stopped)
    open_ = not (shrunk.confirmed if shrunk.smaller else shrunk.complete and shrunk.baseline.seen)
    return int(ExitCode.UNKNOWN if open_ or stopped else ExitCode.VALID)


def say_shrunk(shrunk: Shrunk, search: Shrinking, *, stopped: bool) -> None:
    if shrunk.baseline.runs:
        click.echo(f"as it was, it shows in {shrunk.baseline}")
    for line in dropped(shrunk.whole, shrunk.best):
        click.echo(f"  {line}")
    if stopped:
        click.echo("stopped: run the same command again to continue from here")
    elif shrunk.complete and not shrunk.baseline.seen:
        click.echo("it did not show again, so there is nothing to search by: fencepost replay tells how seldom it is")
    elif not shrunk.smaller and shrunk.complete:
        click.echo("nothing can be left out")
    elif not shrunk.smaller:
        enough_min = math.ceil(search.per_try_s * (_SHORT_SEARCH_TRIES + shrunk.confirmations) / 60)
        click.echo(
            f"the budget was spent before anything smaller showed: a try takes about {search.per_try_s:.0f} s, and "
            f"{shrunk.confirmations} tries are reserved to confirm; run the same command with --budget {enough_min}m "
            "or more" + (f", or with --confirm {CONFIRMATIONS_MIN}" if shrunk.confirmations > CONFIRMATIONS_MIN else "")
        )
    if shrunk.smaller:
        _say_smaller(shrunk, search.folder)
    click.echo(f"{shrunk.tries} tries, all kept: {shorten(str(search.folder / DOCUMENT))}")


def _say_smaller(shrunk: Shrunk, folder: Path) -> None:
    before, after = len(shrunk.whole.rows), len(shrunk.best.rows)
    more = "" if shrunk.complete else "; the search is not over: run the same command again to continue"
    click.echo(f"smaller: {after} of {before} faults, {shrunk.best.plan.time_limit}{more}")
    if not shrunk.confirmation.runs:
        click.echo("not confirmed yet by runs of its own")
    else:
        doubt = "" if shrunk.confirmed else " - NOT confirmed: much less often than as it was"
        click.echo(f"in fresh runs it shows in {shrunk.confirmation}{doubt}")
    click.echo(f"run it: {command_line('run', shorten(str(folder / SMALLER)))}")


@click.command("shrink", cls=Documented, examples=EXAMPLES)
@click.argument("run", type=PathValue())
@click.option(
    "--confirm",
    "confirmations",
    type=int,
    default=CONFIRMATIONS,
    show_default=True,
    metavar="NUMBER",
    help=f"New runs that confirm the smaller plan, at least {CONFIRMATIONS_MIN}.",
)
@click.option(
    "--fingerprint",
    metavar="TEXT",
    help="Keep this violation; verdict.json has the fingerprints. Default: the first that decided the verdict.",
)
@shared_flags("results", budget="30m")
def command(run: Path, results: Path, **flags: Any) -> int:
    """Find a smaller plan that still shows the violation.

    RUN is the folder of an invalid run. Shrinking cuts its time, leaves out faults, lowers the load and narrows the
    options of faults, while the violation still shows; new runs then confirm the result. It writes smaller.toml, which
    `fencepost run` takes. If interrupted, run the same command again to continue.

    Exits 0 with a confirmed plan or when nothing can be left out, else 2.
    """
    return shrink(run, results.resolve(), **flags)
