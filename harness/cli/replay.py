"""`fencepost replay`: what is parsed, carried out and said."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.harness.base.errors import ExitCode, HarnessError
from fencepost.harness.campaigns.replay import wilson
from fencepost.harness.campaigns.replay.recorded import choose, read_recorded
from fencepost.harness.campaigns.replay.replaying import DOCUMENT, Replay
from fencepost.harness.campaigns.replay.replaying import replay as carry_out
from fencepost.harness.campaigns.replay.tries import Carry, Try
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.cli.output.session import Session
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.verdict import Validity, merge

if TYPE_CHECKING:
    from fencepost.harness.run.conclude import Result

_CODES = {
    Validity.VALID: ExitCode.VALID,
    Validity.INVALID: ExitCode.INVALID,
    Validity.UNKNOWN: ExitCode.UNKNOWN,
}


def replay(
    run: Path,
    results: Path,
    *,
    times: int,
    until_invalid: bool,
    fingerprint: str | None,
    as_json: bool,
    carry: Carry,
    stopped: Callable[[], bool],
) -> int:
    """As for several runs: a proven violation wins; 255 when the harness failed in every one."""
    recorded = read_recorded(run)
    wanted = choose(recorded, fingerprint)
    _err(f"replaying {recorded.name}: {len(recorded.rows)} faults, seed {recorded.plan.seed}")
    _err(f"fingerprint: {wanted}" if wanted else "the run shows no violation: verdicts are counted alone")
    done = carry_out(
        recorded, wanted, results, times=times, until_invalid=until_invalid, carry=carry, stopped=stopped, say=_err
    )
    if as_json:
        sys.stdout.write(json.dumps(done.document(), indent=2) + "\n")
    else:
        _say(done)
    _err(f"kept in {shorten(str(done.folder))}, as {DOCUMENT} says")
    return _exit_code(done)


def _say(done: Replay) -> None:
    counted = done.counted
    if done.fingerprint:
        click.echo(f"the same fingerprint in {wilson.in_words(done.shows, len(counted))}")
    verdicts = [made.validity for made in counted]
    said = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    left_out = len(done.tries) - len(counted)
    click.echo(f"{len(counted)} runs: {said or 'none'}" + (f"; {left_out} not counted" if left_out else ""))


def _exit_code(done: Replay) -> int:
    # A run that was stopped by hand is no try, but what it proved is proven.
    judged = [Validity(made.validity) for made in done.tries if made.validity]
    return int(_CODES[merge(judged)] if judged else ExitCode.INTERNAL)


def carrier(execute: "Callable[[CheckedPlan, Path], Result]", stopped: Callable[[], bool]) -> Carry:
    """Runs as `fencepost run` makes them, as tries."""

    def carry(checked: CheckedPlan, folder: Path) -> Try:
        began = time.monotonic()
        try:
            result = execute(checked, folder)
        except HarnessError as error:
            return Try(seconds=time.monotonic() - began, why=error.message)
        seconds = time.monotonic() - began
        prints = [text for anomaly in result.document["anomalies"] for text in anomaly["fingerprints"]]
        return Try(
            folder=str(result.folder.relative_to(folder)),
            validity=result.judgement.validity.value,
            fingerprints=tuple(dict.fromkeys(prints)),
            seconds=round(seconds, 1),
            why="stopped by hand" if stopped() else None,
        )

    return carry


def _err(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@click.command("replay")
@click.argument("run", type=PathValue())
@click.option("--times", type=click.IntRange(1), default=10, show_default=True, help="So many runs.")
@click.option("--until-invalid", is_flag=True, help="End with the first run that is invalid.")
@click.option("--fingerprint", help="Count by this one of the run's fingerprints; default the first that decides.")
@click.option("--results", type=PathValue(), default=Path("results"), help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print replay.json on stdout instead of words.")
def command(run: Path, times: int, until_invalid: bool, fingerprint: str | None, results: Path, as_json: bool) -> int:
    """Carry out the recorded schedule of RUN again, with the same plan, and count how often the same shows.

    Targets that are roles are resolved again. Exits as several runs do: 1 when any of them is invalid.
    """
    with Session() as session:
        return replay(
            run,
            results.resolve(),
            times=times,
            until_invalid=until_invalid,
            fingerprint=fingerprint,
            as_json=as_json,
            carry=carrier(session.execute, session.stopped),
            stopped=session.stopped,
        )
