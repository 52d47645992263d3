"""The table of KIP-30 and KIP-273: what a cell says, what the exit code is, and that nothing is green unexposed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.kip.columns import FILE, Backing, KipColumn, Proposal, RowClaim, RowId, column_of, read_column
from fencepost.campaigns.kip.making import TableMaking, TableWishes
from fencepost.campaigns.kip.page import markdown
from fencepost.campaigns.kip.rows import EXPERIMENTS, ROWS, ExperimentId
from fencepost.campaigns.kip.table import CellState, KipTable, MeasuredCell, TableCell, table_rows
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.plugins import registry

MEMBERS = ExperimentId.MEMBERS


def _claim(backing: Backing) -> Callable[[str], RowClaim]:
    return lambda text: RowClaim(backing=backing, text=text)


promised, by_recipe, cannot = map(_claim, Backing)
COLUMN = KipColumn(
    recipes=(),
    claims={RowId.M1: promised("the manual"), RowId.M2: by_recipe("a clock"), RowId.S5: cannot("no version")},
)


def document(guarantee: str, exposure: int, anomalies: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    witnesses = [{"anomaly": name, "steps": [f"{name} & <that>"]} for name in anomalies or {}]
    verdict = {
        "guarantee": guarantee,
        "exposure": {"value": exposure, "rows": []},
        "anomalies": {name: {"value": number, "rows": []} for name, number in (anomalies or {}).items()},
        "rules": [],
        "witnesses": witnesses,
        "cause": None if exposure else "no-exposure",
        "reason": "" if exposure else "nobody tried",
        **more,
    }
    about = {"name": guarantee, "standing": "promised"}
    return {"guarantees": [about], "verdicts": [verdict], "version": "1"}


def table(*runs: MeasuredCell, column: KipColumn | None = COLUMN) -> KipTable:
    made = {(done.system, done.experiment): done for done in runs}
    rows = table_rows(Proposal.KIP_30, {"s": column}, made)
    return KipTable(
        proposal=Proposal.KIP_30, systems=("s",), versions={"s": "1"}, recipes={"s": ()}, rows=rows, runs=len(made)
    )


def cell(made: KipTable, row: RowId) -> TableCell:
    return next(one for about, one in made.cells() if about.id is row)


def done(doc: dict[str, Any] | None, missing: str = "") -> MeasuredCell:
    return MeasuredCell(system="s", experiment=MEMBERS, document=doc, missing=missing)


def test_a_promised_row_that_was_exercised_holds() -> None:
    made = table(done(document("one-member-per-id", 12)))
    assert (cell(made, RowId.M1).state, cell(made, RowId.M1).exposures) == (CellState.HELD, 12)
    assert made.exit_code is ExitCode.VALID


def test_a_row_that_nothing_exercised_says_so_and_is_missing() -> None:
    made = table(done(document("one-member-per-id", 0)))
    assert cell(made, RowId.M1).state is CellState.UNEXERCISED
    assert made.exit_code is ExitCode.UNKNOWN
    assert "nothing exercised it: nobody tried" in markdown(made)


def test_a_violation_of_what_is_promised_is_invalid_with_its_witness() -> None:
    made = table(done(document("one-member-per-id", 12, {"duplicate-member": 2})))
    assert cell(made, RowId.M1).state is CellState.VIOLATED
    assert made.exit_code is ExitCode.INVALID
    assert "promised and violated: M1 on s" in made.sentence
    assert "duplicate-member & &lt;that>" in markdown(made)
    assert "[witness](#m1)" in markdown(made)
    assert "### M1\n\nM1 on s: 2 violations" in markdown(made)


def test_a_violation_of_a_recipe_is_shown_and_is_no_failure() -> None:
    made = table(
        done(
            {
                **document("joined-member-listed", 5, {"member-not-seen": 1}),
                "guarantees": [
                    {"name": "joined-member-listed", "standing": "relied-upon"},
                    {"name": "one-member-per-id", "standing": "promised"},
                ],
                "verdicts": [
                    *document("joined-member-listed", 5, {"member-not-seen": 1})["verdicts"],
                    *document("one-member-per-id", 3)["verdicts"],
                ],
            }
        )
    )
    assert cell(made, RowId.M2).state is CellState.VIOLATED
    assert made.exit_code is ExitCode.VALID


def test_a_run_that_is_missing_is_never_green() -> None:
    made = table(done(None, "it ended with 255"))
    assert (cell(made, RowId.M1).state, cell(made, RowId.M1).why) == (CellState.NOT_RUN, "it ended with 255")
    assert made.exit_code is ExitCode.UNKNOWN


def test_a_checker_that_failed_exposes_nothing() -> None:
    made = table(done(document("one-member-per-id", 12, cause="failed", reason="it raised")))
    assert cell(made, RowId.M1).state is CellState.UNEXERCISED


def test_a_system_without_a_recipe_says_no_recipe() -> None:
    made = table(column=None)
    assert {one.state for _, one in made.cells()} == {CellState.NO_RECIPE}
    assert "no recipe" in markdown(made)


def test_the_interface_s_own_gaps_stand_on_the_page() -> None:
    made = table()
    assert "update compares nothing" in markdown(made)
    assert "nominate returns true and no token" in markdown(made)


def test_rows_and_experiments_name_what_is_there() -> None:
    workloads, promises = registry.workloads(), set()
    for system in registry.systems().values():
        promises |= {guarantee.name for guarantee in system.promises()}
    assert {experiment.workload for experiment in EXPERIMENTS} <= set(workloads)
    assert {measure.guarantee for row in ROWS for measure in row.measures} <= promises
    assert [row.id for row in ROWS] == list(RowId)
    assert all((row.id.value[0] == "K") == (row.proposal is Proposal.KIP_273) for row in ROWS)
    assert all(bool(row.measures) != bool(row.unmeasured or (row.construction and not row.measures)) for row in ROWS)


def test_what_no_run_measures_says_why() -> None:
    column = KipColumn(
        recipes=(),
        claims={RowId.M2: cannot("a copy"), RowId.M5: promised("the manual"), RowId.N6: by_recipe("the client stops")},
        unmeasured={RowId.M5: "no two incarnations differ"},
    )
    made = table(column=column)
    wanted = {RowId.M2: CellState.CANNOT, RowId.M5: CellState.NOT_MEASURED, RowId.N6: CellState.BY_CONSTRUCTION}
    for row, state in wanted.items():
        assert cell(made, row).state is state
        assert cell(made, row).why
    assert "no two incarnations differ" in markdown(made)
    assert "by recipe: by construction" in markdown(made)


@pytest.mark.parametrize("name", [name for name, s in registry.systems().items() if column_of(s)])
def test_each_column_fits_its_recipes(name: str) -> None:
    system = registry.system(name)
    column = column_of(system)
    assert column
    parts = [recipe.part for recipe in column.recipes if not recipe.chosen_by]
    assert len(parts) == len(set(parts))
    of = {row.id: row.part for row in ROWS}
    assert {of[row] for row in column.claims if row in of} == set(parts) & set(of.values())
    assert all(claim.text for claim in column.claims.values())


def test_a_recipe_that_an_option_chooses_is_named_and_not_measured(tmp_path: Path) -> None:
    wishes = TableWishes(
        proposal=Proposal.KIP_30, systems=("consul",), runtime="lab", budget_s=1, seed=1, results=tmp_path
    )
    made = TableMaking(wishes).write()
    (other,) = [text for text in made.recipes["consul"] if "catalog-ttl/1" in text]
    assert other.endswith("; not measured here, -O members=catalog-ttl chooses it")
    assert cell(made, RowId.M1).recipe == "session-key/1"


def test_a_claim_is_one_of_the_three(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('recipes = []\n[claims]\nM1.promised = "a"\nM1.cannot = "b"\n')
    with pytest.raises(UsageError, match=r"claims, M1: expected one of promised, recipe and cannot"):
        read_column(tmp_path / FILE)
