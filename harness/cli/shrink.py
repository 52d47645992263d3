"""`fencepost shrink`: what is parsed, carried out and said."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.campaigns.replay import wilson
from fencepost.harness.campaigns.replay.recorded import choose, read_recorded
from fencepost.harness.campaigns.replay.reductions import dropped
from fencepost.harness.campaigns.replay.shrinking import CONFIRMATIONS, DOCUMENT, SMALLER, Shrinking, Shrunk
from fencepost.harness.campaigns.replay.tries import Carry
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.cli.output.session import Session
from fencepost.harness.cli.replay import carrier


def shrink(
    run: Path,
    results: Path,
    *,
    budget: str,
    confirmations: int,
    fingerprint: str | None,
    carry: Carry,
    stopped: Callable[[], bool],
) -> int:
    """0 when a smaller plan is confirmed or there is provably nothing to leave out, 2 when that stays open."""
    budget_s = parse_duration_ns(budget, what="--budget") / 1e9
    if not budget_s:
        raise UsageError(f"--budget {budget} leaves no time for a try", hint="give 30m, or at least some minutes")
    if confirmations < CONFIRMATIONS:
        raise UsageError(f"--confirm {confirmations}: at least {CONFIRMATIONS} fresh runs tell something")
    recorded = read_recorded(run)
    wanted = choose(recorded, fingerprint)
    if wanted is None:
        raise UsageError(
            f"{recorded.folder}: the run shows no violation, so there is nothing to shrink to",
            hint=f"fencepost replay {shorten(str(recorded.folder))} --until-invalid looks for one",
        )
    _err(f"shrinking {recorded.name}: {len(recorded.rows)} faults, seed {recorded.plan.seed}")
    _err(f"fingerprint: {wanted}")
    search = Shrinking(
        recorded,
        wanted,
        results,
        budget_s=budget_s,
        carry=carry,
        clock_s=time.monotonic,
        stopped=stopped,
        say=_err,
        confirmations=confirmations,
    )
    _err(f"tries are kept in {shorten(str(search.folder))}; stopped and called again this goes on")
    shrunk = search.run()
    say_shrunk(shrunk)
    open_ = not (shrunk.confirmed if shrunk.smaller else shrunk.complete and shrunk.baseline[0])
    return int(ExitCode.UNKNOWN if open_ or shrunk.stopped else ExitCode.VALID)


def say_shrunk(shrunk: Shrunk) -> None:
    if shrunk.baseline[1]:
        click.echo(f"as it was, it shows in {wilson.in_words(*shrunk.baseline)}")
    for line in dropped(shrunk.whole, shrunk.best):
        click.echo(f"  {line}")
    if shrunk.stopped:
        click.echo("stopped: the same command goes on from here")
    elif shrunk.complete and not shrunk.baseline[0]:
        click.echo("it did not show again, so there is nothing to search by: fencepost replay tells how seldom it is")
    elif not shrunk.smaller and shrunk.complete:
        click.echo("nothing can be left out")
    elif not shrunk.smaller:
        click.echo(
            f"the budget was spent before anything smaller showed: a try takes about {shrunk.per_try_s:.0f} s, and "
            f"time for {shrunk.confirmations} is kept for the confirmation; "
            "with a longer --budget the same command goes on"
        )
    if shrunk.smaller:
        _say_smaller(shrunk)
    click.echo(f"{shrunk.tries} tries, all kept: {shorten(str(shrunk.folder / DOCUMENT))}")


def _say_smaller(shrunk: Shrunk) -> None:
    before, after = len(shrunk.whole.rows), len(shrunk.best.rows)
    more = "" if shrunk.complete else "; the search is not over, the same command goes on"
    click.echo(f"smaller: {after} of {before} faults, {shrunk.best.plan.time_limit}{more}")
    if shrunk.confirmation is None:
        click.echo("not confirmed yet by runs of its own")
    else:
        doubt = "" if shrunk.confirmed else " - NOT confirmed: much less often than as it was"
        click.echo(f"in fresh runs it shows in {wilson.in_words(*shrunk.confirmation)}{doubt}")
    click.echo(f"run it: fencepost run {shorten(str(shrunk.folder / SMALLER))}")


def _err(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@click.command("shrink")
@click.argument("run", type=PathValue())
@click.option("--budget", default="30m", show_default=True, help="For the search and its confirmation together.")
@click.option("--confirm", "confirmations", default=10, show_default=True, help="Fresh runs of the smaller plan.")
@click.option("--fingerprint", help="Keep this one of the run's fingerprints; default the first that decides.")
@click.option("--results", type=PathValue(), default=Path("results"), help="Where tries are kept.")
def command(run: Path, budget: str, confirmations: int, fingerprint: str | None, results: Path) -> int:
    """Cut time, leave out faults and load, narrow parameters, while RUN's violation still shows; then confirm.

    If interrupted, run the same command again to continue. Exits 0 with a confirmed plan, else 2.
    """
    with Session() as session:
        return shrink(
            run,
            results.resolve(),
            budget=budget,
            confirmations=confirmations,
            fingerprint=fingerprint,
            carry=carrier(session.execute, session.stopped),
            stopped=session.stopped,
        )
