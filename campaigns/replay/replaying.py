"""`replay`: runs a plan with its recorded schedule several times and counts how often the same fingerprint shows.

Every run is kept. Judging a stored history always gives the same verdict; running again shows the violation only k of n
times, since threads, networks and disks have no seed.
"""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fencepost.campaigns.commands.carrying_out import carry_out
from fencepost.campaigns.night.cells import checked_cell
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.forecast import deadline_s
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.session import NightWishes
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.campaigns.replay.recorded import (
    EXIT_VALIDITIES,
    Recorded,
    Resemblance,
    Try,
    choose,
    read_recorded,
    resemblance,
    try_of,
)
from fencepost.harness.base.errors import ExitCode, gravest
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue, print_document, shared_flags
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.findings.rate import Rate
from fencepost.harness.verdict.fingerprint import is_shown

DOCUMENT: Final = "replay.json"
FORMAT: Final = 1
EXAMPLES = (
    HelpExample("fencepost replay RUN", "Ten runs with the faults of RUN"),
    HelpExample("fencepost replay RUN --times 50 --until-invalid", "Up to 50 runs, until one is invalid"),
    HelpExample("fencepost replay RUN --times 20 --json", "The counts as JSON, for a script"),
)


class Replay(CellStrategy):
    """Up to `times` runs, with `until_invalid` only until one run is invalid.

    `fingerprint` is None when the recorded run shows no violation.
    """

    page = DOCUMENT
    says_begins = False

    def __init__(self, recorded: Recorded, fingerprint: str | None, times: int, *, until_invalid: bool) -> None:
        about = f"{recorded.name} again"
        cell = checked_cell(about, recorded.plan, runs=times, same_seed=True)
        super().__init__(f"{times} times {about}", [cell], f"replay-{recorded.folder.parent.name}")
        self.recorded, self.fingerprint, self.times, self._until_invalid = recorded, fingerprint, times, until_invalid

    def document(self, night: Night) -> dict[str, Any]:
        """Make the contents of `replay.json`."""
        tries = tries_of(night)
        shown = self.rate(tries)
        low, high = shown.interval()
        return {
            "format": FORMAT,
            "run": str(self.recorded.folder),
            "fingerprint": self.fingerprint,
            "asked": self.times,
            "shown": shown.seen if self.fingerprint else None,
            "of": shown.runs,
            "interval_95": [round(low, 4), round(high, 4)] if self.fingerprint else None,
            "tries": [
                {**msgspec.to_builtins(made), "resemblance": msgspec.to_builtins(self._alike(made))} for made in tries
            ],
        }

    def rate(self, tries: list[Try]) -> Rate:
        """In how many of the tries that count the fingerprint showed."""
        counted = [made for made in tries if made.counts]
        return Rate(sum(is_shown(self.fingerprint, made.fingerprints) for made in counted), len(counted))

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        over = self._until_invalid and any(a.run_class is RunClass.INVALID for a in night.attempts)
        return Demand.NEVER if over else Demand.NOW

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        return {DOCUMENT: lambda: self.document(night)}

    def _alike(self, made: Try) -> Resemblance:
        return resemblance(self.recorded.rows, self.folder / made.folder)

    def describe(self, attempt: RunAttempt) -> str:
        made, number = try_of(attempt), f"{attempt.run} of {self.times}"
        if not made.counts:
            return f"{number}, not counted"
        alike = self._alike(made)
        again = "" if is_shown(self.fingerprint, made.fingerprints) else "not "
        shown = f"{again}the same fingerprint; " if self.fingerprint else ""
        faults = f"{alike.injected} of {alike.faults} faults injected, {alike.same_targets} on the same targets"
        return f"{number}: {shown}{faults}"


def tries_of(night: Night) -> list[Try]:
    """The attempts that have ended, in their order."""
    return [try_of(attempt) for attempt in night.attempts if attempt.run_class is not None]


def replay(run: Path, results: Path, *, times: int, until_invalid: bool, fingerprint: str | None, as_json: bool) -> int:
    """Replay a run and print the counts.

    Returns:
        1 with a proven violation, else 255 when checkers contradict each other or no run was judged, else 2 or 0.
    """
    recorded = read_recorded(run)
    wanted = choose(recorded, fingerprint)
    click.echo(f"replaying {recorded.name}: {len(recorded.rows)} faults, seed {recorded.plan.seed}", err=True)
    goal = f"fingerprint: {wanted}" if wanted else "the run shows no violation: verdicts are counted alone"
    click.echo(goal, err=True)
    replaying = Replay(recorded, wanted, times, until_invalid=until_invalid)
    wishes = NightWishes(
        budget_s=times * deadline_s(recorded.plan), seed=recorded.plan.seed, results=results, jobs=1, repeats=True
    )
    night = carry_out(replaying, wishes)
    tries = tries_of(night)
    if as_json:
        print_document(replaying.document(night))
    else:
        _say(replaying, tries)
    click.echo(f"kept in {shorten(str(replaying.folder))}, as {DOCUMENT} says", err=True)
    codes = [a.exit_code or 0 for a in night.attempts if a.report and a.exit_code in EXIT_VALIDITIES]
    return int(gravest(codes) if codes else ExitCode.INTERNAL)


def _say(replaying: Replay, tries: list[Try]) -> None:
    counted = [made.validity for made in tries if made.counts]
    if replaying.fingerprint:
        click.echo(f"the same fingerprint in {replaying.rate(tries)}")
    parts = ", ".join(f"{counted.count(name)} {name}" for name in dict.fromkeys(counted))
    left_out = len(tries) - len(counted)
    click.echo(f"{len(counted)} runs: {parts or 'none'}" + (f"; {left_out} not counted" if left_out else ""))
    contradictions = [made.folder for made in tries if made.contradiction]
    if contradictions:
        click.echo(f"checkers contradict each other, a defect of fencepost, in: {', '.join(contradictions)}")


@click.command("replay", cls=Documented, examples=EXAMPLES)
@click.argument("run", type=PathValue())
@click.option("--until-invalid", is_flag=True, help="Stop after the first run that is invalid.")
@click.option(
    "--fingerprint",
    metavar="TEXT",
    help="Count this violation; verdict.json has the fingerprints. Default: the first that decided the verdict.",
)
@shared_flags("results", "json", times=10)
def command(run: Path, results: Path, **flags: Any) -> int:
    """Run recorded faults again and count how often it breaks.

    RUN is the folder of a run. Its plan runs on new clusters with the same faults at the same times; a target such as
    `leader` means whoever leads then. Every run is kept.

    Exits 1 when any run is invalid, 255 when checkers contradict each other, 2 when any is unknown, else 0.
    """
    return replay(run, results.resolve(), **flags)
