"""What the pages over all nights show, as values: `collect` reads them from a warehouse, the pages render them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.findings.findability import clean_runs_to_call_fixed
from fencepost.harness.findings.finding import RecurringFinding
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.warehouse.pages.known import IssueStatus
from fencepost.warehouse.pages.shrunk import ShrunkPlan

Row = Mapping[str, Any]
#: Columns of `finding_examples` that name a run, each with why it is one to open.
RUNS_TO_OPEN: Final = {
    "oldest": "oldest",
    "newest": "newest",
    "clearest": "clearest (fewest operations)",
    "fastest": "fastest (shortest plan)",
}


class NightSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One night; `exit_code` is None for a day of single runs, which have no register.

    `expected` are runs that were made to fail, `missed` those of them that did not; the other counts are without them.
    `pages` link to its own page, or to one for each shard. `gate` is None for what is no gate.
    """

    night: str
    day: str
    runs: int
    valid: int = 0
    invalid: int = 0
    unknown: int = 0
    expected: int = 0
    missed: int = 0
    pages: tuple[str, ...] = ()
    exit_code: int | None = None
    running: bool = False
    sentence: str = ""
    reasons: tuple[str, ...] = ()
    gate: "GateValues | None" = None

    @property
    def page(self) -> str:
        """The first of its pages, empty without one."""
        return next(iter(self.pages), "")

    @property
    def is_campaign(self) -> bool:
        return self.exit_code is not None and self.gate is None


class GateValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate was about, and the rows of what its policy required, each with links to the pages of its runs."""

    policy: str
    candidate: str
    baseline: str = ""
    lines: tuple[Row, ...] = ()


class ListedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with the known issues that cover it, and its row of `finding_examples`, with runs to open by folder.

    `reports` are links to the pages of those runs, by folder; a run whose page is not there has none.
    """

    finding: RecurringFinding
    issues: tuple[TrackedIssue, ...] = ()
    examples: Row | None = None
    shrunk: ShrunkPlan | None = None
    reports: Mapping[str, str] = {}

    @property
    def state(self) -> str:
        return "known" if self.issues else self.finding.standing.state.value

    @property
    def page(self) -> str:
        return f"finding-{self.finding.id}.html"

    @property
    def clean_runs_needed(self) -> int:
        """In a row, from the last sighting on."""
        return clean_runs_to_call_fixed(self.finding.standing.rate)

    @property
    def clean_runs_left(self) -> int:
        return max(0, self.clean_runs_needed - self.finding.standing.clean_runs)


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One workload and set of faults on one release: counts over all nights, and a square for each that has one.

    A square is the row of the gravest class of that night, with the counts of all its runs and a link to a report.
    """

    squares: Mapping[str, Row]
    runs: int
    exposure: int
    last_tested: str


class SystemMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """The matrix of one system: `cells` by release, workload and faults; a combination that is missing never ran."""

    system: str
    versions: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    cells: Mapping[tuple[str, str, str], MatrixCell]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pages show. `nights` are all nights, oldest first; `shown` of them stand as squares.

    `cells` are rows of the latest night, `trends` the rows of `night_trends` by system and variant, oldest first.
    """

    nights: tuple[NightSummary, ...] = ()
    shown: int = 14
    cells: tuple[Row, ...] = ()
    findings: tuple[ListedFinding, ...] = ()
    issues: tuple[IssueStatus, ...] = ()
    matrix: tuple[SystemMatrix, ...] = ()
    trends: Mapping[str, Sequence[Row]] = {}

    @property
    def tonight(self) -> NightSummary | None:
        """The newest night of a campaign; without any: the newest day of single runs, or gate."""
        return night_to_read(self.nights)

    @property
    def since(self) -> Sequence[NightSummary]:
        """Tonight, and what was run after it: single runs, but no gate, which answers for itself."""
        night = self.tonight
        later = self.nights[self.nights.index(night) + 1 :] if night else ()
        return [*([night] if night else []), *(each for each in later if each.gate is None)]

    @property
    def gates(self) -> Sequence[NightSummary]:
        """Every gate, the newest first."""
        return [night for night in reversed(self.nights) if night.gate]

    @property
    def latest(self) -> Sequence[NightSummary]:
        """The nights that stand as squares."""
        return self.nights[-self.shown :]


def night_to_read(nights: Sequence[NightSummary]) -> NightSummary | None:
    """Choose what the page Tonight is about: single runs of the next morning do not hide a night."""
    campaigns = [night for night in nights if night.is_campaign]
    return next(reversed(campaigns or nights), None)
