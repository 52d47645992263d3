"""`fencepost replay`: its flags, the runs, and the counts that it prints."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.campaigns.replay.recorded import choose, read_recorded
from fencepost.campaigns.replay.replaying import DOCUMENT, Replay
from fencepost.campaigns.replay.replaying import replay as carry_out
from fencepost.campaigns.replay.tries import Carrier, Carry, Try
from fencepost.harness.base.errors import ExitCode, HarnessError, gravest
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
from fencepost.harness.cli.output.outcome import CommandSession
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.findings.rate import Rate
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.verdict import Validity

if TYPE_CHECKING:
    from fencepost.harness.run.conclude import Result

EXAMPLES = (
    HelpExample("fencepost replay RUN", "Ten runs with the faults of RUN"),
    HelpExample("fencepost replay RUN --times 50 --until-invalid", "Up to 50 runs, until one is invalid"),
    HelpExample("fencepost replay RUN --times 20 --json", "The counts as JSON, for a script"),
)
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
    carrier: Carrier,
) -> int:
    """Replay a run and print the counts.

    Returns:
        1 with a proven violation, else 255 when checkers contradict each other or no run was judged, else 2 or 0.
    """
    recorded = read_recorded(run)
    wanted = choose(recorded, fingerprint)
    _err(f"replaying {recorded.name}: {len(recorded.rows)} faults, seed {recorded.plan.seed}")
    _err(f"fingerprint: {wanted}" if wanted else "the run shows no violation: verdicts are counted alone")
    done = carry_out(recorded, wanted, results, times=times, until_invalid=until_invalid, carrier=carrier)
    if as_json:
        sys.stdout.write(json.dumps(done.document(), indent=2) + "\n")
    else:
        _say(done)
    _err(f"kept in {shorten(str(done.folder))}, as {DOCUMENT} says")
    return _exit_code(done)


def _say(done: Replay) -> None:
    counted = done.counted
    if done.fingerprint:
        click.echo(f"the same fingerprint in {Rate(done.shows, len(counted))}")
    verdicts = [made.validity for made in counted]
    parts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    left_out = len(done.tries) - len(counted)
    click.echo(f"{len(counted)} runs: {parts or 'none'}" + (f"; {left_out} not counted" if left_out else ""))
    contradictions = [made.folder for made in done.tries if made.contradiction]
    if contradictions:
        click.echo(f"checkers contradict each other, a defect of fencepost, in: {', '.join(contradictions)}")


def _exit_code(done: Replay) -> int:
    # A run that was stopped by hand is no try, but what it proved is proven.
    codes = [
        ExitCode.INTERNAL if made.contradiction else _CODES[Validity(made.validity)]
        for made in done.tries
        if made.validity
    ]
    return int(gravest(codes) if codes else ExitCode.INTERNAL)


def carrier_of(session: CommandSession) -> Carrier:
    """Carry out tries as `fencepost run` does, and tell progress on standard error."""
    return Carrier(carry=carry_by(session.execute, session.stopped), stopped=session.stopped, say=_err)


def carry_by(execute: "Callable[[CheckedPlan, Path], Result]", stopped: Callable[[], bool]) -> Carry:
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
            contradiction=result.judgement.exit_code is ExitCode.INTERNAL,
        )

    return carry


def _err(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@click.command("replay", cls=Documented, examples=EXAMPLES)
@click.argument("run", type=PathValue())
@click.option(
    "--times",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="NUMBER",
    help="Number of runs.",
)
@click.option("--until-invalid", is_flag=True, help="Stop after the first run that is invalid.")
@click.option(
    "--fingerprint",
    metavar="TEXT",
    help="Count this violation; verdict.json has the fingerprints. Default: the first that decided the verdict.",
)
@click.option("--results", type=PathValue(), default=Path("results"), show_default=True, help="Folder for the runs.")
@click.option("--json", "as_json", is_flag=True, help="Print replay.json on standard output instead of text.")
def command(run: Path, times: int, until_invalid: bool, fingerprint: str | None, results: Path, as_json: bool) -> int:
    """Run recorded faults again and count how often it breaks.

    RUN is the folder of a run. Its plan runs on new clusters with the same faults at the same times; a target such as
    `leader` means whoever leads then. Every run is kept.

    Exits 1 when any run is invalid, 255 when checkers contradict each other, 2 when any is unknown, else 0.
    """
    with CommandSession() as session:
        return replay(
            run,
            results.resolve(),
            times=times,
            until_invalid=until_invalid,
            fingerprint=fingerprint,
            as_json=as_json,
            carrier=carrier_of(session),
        )
