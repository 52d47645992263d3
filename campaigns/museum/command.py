"""`fencepost museum`: published bugs are brought up again, each beside its control."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import carry_out, night_options, say_end, wishes_of
from fencepost.campaigns.museum.documents import PAGE, SIGNS, document, files_of, sentence
from fencepost.campaigns.museum.exhibits import all_exhibits, chosen
from fencepost.campaigns.museum.museum import (
    NAME,
    ExhibitOutcome,
    PlannedMuseum,
    SightingFiles,
    Tally,
    demand_of,
    exit_code,
    outcomes,
    plan_museum,
    tally_below,
)
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.session import NightWishes
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.harness.base.errors import MachineError
from fencepost.harness.cli.output.help import Documented, HelpExample

EXAMPLES = (
    HelpExample("fencepost museum --budget 1h", "As many of the published bugs as fit into an hour"),
    HelpExample("fencepost museum --only etcd-single-member --times 10", "How often one of them shows"),
    HelpExample("fencepost museum --resume", "Go on where a museum was stopped or killed"),
)


class MuseumStrategy(CellStrategy):
    """Makes the runs that decide the exhibits; `earlier` as `outcomes` takes it."""

    page = PAGE

    def __init__(self, museum: PlannedMuseum, earlier: Mapping[str, Tally]) -> None:
        super().__init__(NAME, museum.cells)
        self._museum, self._earlier = museum, earlier

    def open(self, folder: Path, say: Callable[[str], None]) -> None:
        super().open(folder, say)
        self._sightings = SightingFiles(folder)

    def outcomes(self, night: Night) -> tuple[ExhibitOutcome, ...]:
        """What a night says of each exhibit by now."""
        return outcomes(self._museum, night, self._sightings, self._earlier)

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        return demand_of(self._museum, self.outcomes(night), turn)

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        return files_of(night, self.outcomes(night))


def run_museum(museum: PlannedMuseum, wishes: NightWishes, *, resume: bool, as_json: bool) -> int:
    """Make the runs that are needed; returns the museum's exit code."""
    if not museum.cells:
        reasons = "\n  ".join(f"{each.exhibit.id}: {each.missing}" for each in museum.exhibits)
        raise MachineError(f"no exhibit can be run here:\n  {reasons}", hint="`fencepost doctor` says what is missing")
    nights = wishes.nights / NAME
    earlier = {each.exhibit.id: tally_below(nights, each.bug, each.exhibit) for each in museum.exhibits if each.bug}
    strategy = MuseumStrategy(museum, earlier)
    night = carry_out(strategy, wishes, resume=resume)
    results = strategy.outcomes(night)
    lines = [f"  {SIGNS[each.state]} {each.state:11} {each.exhibit.id}: {each.reason}" for each in results]
    made = document(night, results) if as_json else None
    say_end(night, strategy.folder / PAGE, [*lines, f"{sentence(results)}."], made)
    return int(exit_code(results))


@click.command("museum", cls=Documented, examples=EXAMPLES)
@click.option("--only", default="", metavar="IDS", help="Exhibits, joined by commas. Default: all.")
@click.option(
    "--times",
    type=click.IntRange(0),
    default=0,
    metavar="NUMBER",
    help="So many runs of each bug and each control. Default: until each exhibit is decided.",
)
@night_options
def command(only: str, times: int, resume: bool, as_json: bool, **flags: Any) -> int:
    """Bring published bugs up again, with controls.

    A bug is reproduced when its own fingerprint shows and its control, a fixed release or the same plan without the
    cause, was tested and does not show it. An exhibit that this machine cannot run is skipped with the reason.

    Exits 0 when all that could run were reproduced, 1 when one was lost or its control shows it, 2 when the budget
    left one undecided, 130 stopped twice, 254 refused before the start.
    """
    ids = [one.strip() for one in only.split(",") if one.strip()]
    museum = plan_museum(chosen(all_exhibits(), ids), times=times)
    again = ["museum", *["--only", only] * bool(only), *["--times", str(times)] * bool(times)]
    return run_museum(museum, wishes_of(again, **flags), resume=resume, as_json=as_json)
