"""What a night runs and why: a campaign runs every cell, a gate what its policy still needs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fencepost.campaigns.night.cells import CheckedCells, NightCell
from fencepost.campaigns.night.documents import PAGE, Files, files_of
from fencepost.campaigns.night.file import Campaign
from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt
from fencepost.campaigns.night.pool import Demand, NextRun, Pool, RunValues, WaitingRun
from fencepost.campaigns.night.telling import attempt_sign
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.harness.plan.checked_plan import CheckedPlan


class Strategy:
    """Runs every cell of a campaign. Others say otherwise: a method of theirs takes the place of one here.

    `cells` are those of `checked` that are of this shard, `issues` those by which runs are classed.
    """

    #: The file for people, relative to the night's folder.
    page = PAGE
    #: Whether the progress says that a run begins.
    says_begins = True
    #: Where the night stands, if every command goes on with the same one, each with a budget of its own.
    home: Path | None = None

    def __init__(
        self,
        name: str,
        campaign: Campaign,
        checked: CheckedCells,
        cells: Sequence[NightCell] | None = None,
        issues: Sequence[TrackedIssue] = (),
    ) -> None:
        self.name, self.campaign, self.checked, self.issues = name, campaign, checked, tuple(issues)
        self.cells = checked.cells if cells is None else tuple(cells)

    def open(self, folder: Path, say: Callable[[str], None]) -> None:
        """Take the night's folder, and what says a line, before the first run."""
        self.folder, self.say = folder, say

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        """Decide whether a run that waits is needed now."""
        return Demand.NOW

    def next_run(self, night: Night, pool: Pool) -> NextRun | None:
        """Ask for a run when none waits; None ends the night."""
        return None

    def choose(self, night: Night, turn: WaitingRun) -> RunValues:
        """Choose values of a run in the place of those that its cell plans."""
        return RunValues()

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        """What makes the night's files, of the night as it is and in how many seconds a running one will end."""
        return files_of(night, self.folder, expected_end_s)

    def sign(self, each: CellOutcome, attempt: RunAttempt) -> tuple[str, str]:
        """The sign and the class of an attempt in the progress."""
        return attempt_sign(each, attempt)

    def describe(self, attempt: RunAttempt) -> str:
        """What the progress says of an attempt beside its class."""
        return ""


class CellStrategy(Strategy):
    """A night without a campaign file; its digest is that of its cells and the number of their runs."""

    def __init__(self, name: str, checked: Sequence[tuple[NightCell, CheckedPlan]], campaign: str = "") -> None:
        cells = tuple(cell for cell, _ in checked)
        super().__init__(
            name,
            Campaign.of_cells(campaign or name, (f"{cell.id} {cell.runs}" for cell in cells)),
            CheckedCells(cells=cells, plans={cell.id: plan for cell, plan in checked}, impossible=()),
        )
