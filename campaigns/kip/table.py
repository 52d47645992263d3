"""The table as a value: what each system claims of each row, what was measured, and the exit code that follows.

0    every promised row that something can exercise was exercised, and none was violated
1    a promised row was violated
2    something is missing: a run, or the exposure of a promised row
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.campaigns.kip.columns import Backing, KipColumn, RowClaim
from fencepost.campaigns.kip.rows import KipRow, Proposal, rows_of
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.verdict import Cause

FORMAT: Final = 1


class MeasuredCell(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an experiment on a system: its verdict, or why there is none.

    `report` is its page, relative to the table; `command` repeats it.
    """

    system: str
    experiment: str
    document: dict[str, Any] | None = None
    missing: str = ""
    report: str = ""
    command: str = ""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one guarantee came to in one run, as far as a row is about it."""

    experiment: str
    guarantee: str
    standing: str
    exposures: int
    violations: int
    reason: str
    steps: tuple[str, ...] = ()
    report: str = ""
    command: str = ""


class CellState(StrEnum):
    """How a cell stands; only `HELD` says that something was tested and kept."""

    NO_RECIPE = "no recipe"
    HELD = "held"
    VIOLATED = "violated"
    UNEXERCISED = "nothing exercised it"
    NOT_RUN = "not run"
    BY_CONSTRUCTION = "by construction"
    CANNOT = "cannot, and not measured"
    NOT_MEASURED = "not measured"


class TableCell(msgspec.Struct, frozen=True, kw_only=True):
    """One row on one system; `why` says what keeps it from being measured."""

    system: str
    state: CellState
    claim: RowClaim | None = None
    recipe: str = ""
    measured: tuple[Measured, ...] = ()
    why: str = ""

    @property
    def exposures(self) -> int:
        return sum(one.exposures for one in self.measured)

    @property
    def violations(self) -> int:
        return sum(one.violations for one in self.measured)

    @property
    def witness(self) -> Measured | None:
        return next((one for one in self.measured if one.violations), None)

    @property
    def is_promised(self) -> bool:
        return self.claim is not None and self.claim.backing is Backing.PROMISED


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    row: KipRow
    cells: tuple[TableCell, ...]


class KipTable(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page shows; `missing` says which runs there are no verdicts of, and why.

    `played_s` is the length of all runs together, starts of servers left out.
    """

    proposal: Proposal
    systems: tuple[str, ...]
    versions: dict[str, str]
    recipes: dict[str, tuple[str, ...]]
    rows: tuple[TableRow, ...]
    runs: int
    missing: tuple[str, ...] = ()
    runtime: str = ""
    started_at: str = ""
    played_s: float = 0.0
    machine: dict[str, Any] = {}
    format: int = FORMAT

    def cells(self) -> Iterator[tuple[KipRow, TableCell]]:
        return ((row.row, cell) for row in self.rows for cell in row.cells)

    @property
    def exit_code(self) -> ExitCode:
        promised = [cell for _, cell in self.cells() if cell.is_promised]
        if any(cell.state is CellState.VIOLATED for cell in promised):
            return ExitCode.INVALID
        lacking = any(cell.state in (CellState.UNEXERCISED, CellState.NOT_RUN) for cell in promised)
        return ExitCode.UNKNOWN if lacking or self.missing else ExitCode.VALID

    def count(self, state: CellState) -> int:
        return sum(cell.state is state for _, cell in self.cells())

    @property
    def sentence(self) -> str:
        counts = [f"{self.count(state)} {state}" for state in CellState if self.count(state)]
        broken = [f"{row.id} on {cell.system}" for row, cell in self.cells() if _breaks_promise(cell)]
        summary = f"{len(self.rows)} rows on {len(self.systems)} systems: {', '.join(counts)}"
        return f"{summary}; promised and violated: {', '.join(broken)}" if broken else summary


def _breaks_promise(cell: TableCell) -> bool:
    return cell.is_promised and cell.state is CellState.VIOLATED


def table_rows(
    proposal: Proposal, columns: Mapping[str, KipColumn | None], runs: Mapping[tuple[str, str], MeasuredCell]
) -> tuple[TableRow, ...]:
    """Join what systems claim with what runs showed.

    Args:
        columns: by system; None for one without recipes.
        runs: those that were made or tried, by system and experiment; one that a system does not offer is not there.
    """
    return tuple(
        TableRow(row=row, cells=tuple(_cell(row, system, column, runs) for system, column in columns.items()))
        for row in rows_of(proposal)
    )


def _cell(
    row: KipRow, system: str, column: KipColumn | None, runs: Mapping[tuple[str, str], MeasuredCell]
) -> TableCell:
    claim = None if column is None else column.claims.get(row.id)
    recipe = None if column is None else column.recipe(row.part)
    title = "" if recipe is None else recipe.title
    if claim is None:
        return TableCell(system=system, state=CellState.NO_RECIPE, recipe=title)

    def cell(state: CellState, why: str = "", measured: tuple[Measured, ...] = ()) -> TableCell:
        return TableCell(system=system, claim=claim, recipe=title, state=state, why=why, measured=measured)

    def unmeasured(why: str) -> TableCell:
        if row.construction:
            return cell(CellState.BY_CONSTRUCTION, row.construction)
        if claim.backing is Backing.CANNOT:
            return cell(CellState.CANNOT, claim.text)
        return cell(CellState.NOT_MEASURED, column.unmeasured.get(row.id, why) if column else why)

    wanted = [runs[key] for m in row.measures if (key := (system, m.experiment)) in runs]
    if not wanted:
        return unmeasured(row.unmeasured or "no workload that measures this row runs on the system")
    measured = tuple(
        one
        for measure in row.measures
        if (done := runs.get((system, measure.experiment))) is not None and done.document is not None
        for one in _measured(done, done.document, measure.guarantee, measure.rules)
    )
    if any(one.violations for one in measured):
        return cell(CellState.VIOLATED, measured=measured)
    if any(one.exposures for one in measured):
        return cell(CellState.HELD, measured=measured)
    missing = "; ".join(dict.fromkeys(done.missing for done in wanted if done.document is None))
    if missing and not measured:
        return cell(CellState.NOT_RUN, missing)
    if not measured:
        return unmeasured("the system makes no statement of what this row is measured by")
    return cell(CellState.UNEXERCISED, "; ".join(dict.fromkeys(one.reason for one in measured if one.reason)), measured)


def _value(traced: Mapping[str, Any] | None) -> int:
    """The number of a figure in verdict.json; 0 where the checker has none."""
    return 0 if traced is None else traced["value"]


def _measured(
    done: MeasuredCell, document: Mapping[str, Any], guarantee: str, rules: tuple[str, ...]
) -> Iterator[Measured]:
    """What the verdicts on this guarantee say; one that a checker could not reach counts as no exposure."""
    standings = {g["name"]: g for g in document["guarantees"]}
    about = standings.get(guarantee)
    if about is None or about["standing"] is None:
        return
    for verdict in document["verdicts"]:
        if verdict["guarantee"] != guarantee:
            continue
        named = {rule["name"]: rule["chances"] for rule in verdict["rules"]}
        if rules and not set(rules) & (named.keys() | verdict["anomalies"].keys()):
            continue
        judged = verdict["cause"] in (None, Cause.NO_EXPOSURE.value)
        exposures = max((named.get(rule, 0) for rule in rules), default=0) if rules else _value(verdict["exposure"])
        kept = {name: _value(n) for name, n in verdict["anomalies"].items() if not rules or name in rules}
        witness = next((w for w in verdict["witnesses"] if w["anomaly"] in kept), None)
        yield Measured(
            experiment=done.experiment,
            guarantee=guarantee,
            standing=about["standing"],
            exposures=exposures if judged else 0,
            violations=sum(kept.values()),
            reason=verdict["reason"],
            steps=tuple(witness["steps"]) if witness else (),
            report=done.report,
            command=done.command,
        )
