"""What the pages over all nights show, as values: `collect` reads them from a warehouse, the pages render them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fencepost.harness.campaigns.night.known_issues import KnownIssue
from fencepost.harness.findings.findability import clean_runs_to_call_fixed
from fencepost.harness.findings.finding import Finding
from fencepost.harness.pages.known import IssueStatus

Row = Mapping[str, Any]


class NightSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One night; `exit_code` is None for a day of single runs, which have no register. `page` links to its own page."""

    night: str
    day: str
    runs: int
    valid: int = 0
    invalid: int = 0
    unknown: int = 0
    page: str = ""
    exit_code: int | None = None
    running: bool = False
    sentence: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def is_campaign(self) -> bool:
        return self.exit_code is not None


class CellRow(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of the latest night, as its register has it; `caught` is None where nobody recorded it."""

    name: str
    run_class: str
    reason: str = ""
    required: bool = False
    canary: bool = False
    caught: bool | None = None


class Examples(msgspec.Struct, frozen=True, kw_only=True):
    """Runs to open, by folder; and the kinds of faults that took hold in the runs that showed the finding."""

    oldest: str
    newest: str
    clearest: str
    fastest: str
    faults: tuple[str, ...] = ()


class ListedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with the known issues that cover it, and with runs to open.

    `reports` are links to the pages of those runs, by folder; a run whose page is not there has none.
    """

    finding: Finding
    issues: tuple[KnownIssue, ...] = ()
    examples: Examples | None = None
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


class Square(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the matrix in one night: the gravest class of its runs, and how often it was tested."""

    night: str
    run_class: str
    canary: bool = False
    runs: int = 0
    exposure: int = 0
    report: str = ""


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One workload and set of faults on one release: a square for each night that has one; counts over all nights."""

    squares: Mapping[str, Square]
    runs: int
    exposure: int
    last_tested: str


class SystemMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """The matrix of one system: `cells` by release, workload and faults; a combination that is missing never ran."""

    system: str
    versions: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    cells: Mapping[tuple[str, str, str], MatrixCell]


class TrendNight(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one system in one night, by name (None: not measured), and what was the same or not around it."""

    night: str
    runs: int
    figures: Mapping[str, float | None]
    versions: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    cores: tuple[str, ...] = ()


class SystemTrend(msgspec.Struct, frozen=True, kw_only=True):
    """The nights of one system, oldest first."""

    system: str
    nights: tuple[TrendNight, ...]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pages show. `nights` are all nights, oldest first; `shown` of them stand as squares."""

    nights: tuple[NightSummary, ...] = ()
    shown: int = 14
    cells: tuple[CellRow, ...] = ()
    findings: tuple[ListedFinding, ...] = ()
    issues: tuple[IssueStatus, ...] = ()
    matrix: tuple[SystemMatrix, ...] = ()
    trends: tuple[SystemTrend, ...] = ()

    @property
    def tonight(self) -> NightSummary | None:
        return self.nights[-1] if self.nights else None

    @property
    def latest(self) -> Sequence[NightSummary]:
        """The nights that stand as squares."""
        return self.nights[-self.shown :]
