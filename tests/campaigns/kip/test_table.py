"""The table of KIP-30 and KIP-273: what a cell says, what the exit code is, and that nothing is green unexposed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.kip.columns import FILE, Backing, KipColumn, RowClaim, column_of, read_column
from fencepost.campaigns.kip.making import TableMaking
from fencepost.campaigns.kip.page import markdown
from fencepost.campaigns.kip.rows import EXPERIMENTS, ROWS, Proposal
from fencepost.campaigns.kip.table import CellState, KipTable, MeasuredCell, TableCell, table_rows
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.plugins import registry

MEMBERS = "members"


def _claim(backing: Backing) -> Callable[[str], RowClaim]:
    return lambda text: RowClaim(backing=backing, text=text)


promised, by_recipe, cannot = map(_claim, Backing)
COLUMN = KipColumn(
    recipes=(), claims={"M1": promised("the manual"), "M2": by_recipe("a clock"), "S5": cannot("no version")}
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


def cell(made: KipTable, row: str) -> TableCell:
    return next(one for about, one in made.cells() if about.id == row)


def done(doc: dict[str, Any] | None, missing: str = "") -> MeasuredCell:
    return MeasuredCell(system="s", experiment=MEMBERS, document=doc, missing=missing)


def test_a_promised_row_that_was_exercised_holds() -> None:
    made = table(done(document("one-member-per-id", 12)))
    assert (cell(made, "M1").state, cell(made, "M1").exposures) == (CellState.HELD, 12)
    assert made.exit_code is ExitCode.VALID


def test_a_row_that_nothing_exercised_says_so_and_is_missing() -> None:
    made = table(done(document("one-member-per-id", 0)))
    assert cell(made, "M1").state is CellState.UNEXERCISED
    assert made.exit_code is ExitCode.UNKNOWN
    assert "nothing exercised it: nobody tried" in markdown(made)


def test_a_violation_of_what_is_promised_is_invalid_with_its_witness() -> None:
    made = table(done(document("one-member-per-id", 12, {"duplicate-member": 2})))
    assert cell(made, "M1").state is CellState.VIOLATED
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
    assert cell(made, "M2").state is CellState.VIOLATED
    assert made.exit_code is ExitCode.VALID


def test_a_run_that_is_missing_is_never_green() -> None:
    made = table(done(None, "it ended with 255"))
    assert (cell(made, "M1").state, cell(made, "M1").why) == (CellState.NOT_RUN, "it ended with 255")
    assert made.exit_code is ExitCode.UNKNOWN


def test_a_checker_that_failed_exposes_nothing() -> None:
    made = table(done(document("one-member-per-id", 12, cause="failed", reason="it raised")))
    assert cell(made, "M1").state is CellState.UNEXERCISED


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
    assert {measure.experiment for row in ROWS for measure in row.measures} <= {one.id for one in EXPERIMENTS}
    assert len({row.id for row in ROWS}) == len(ROWS) == 40
    assert all((row.id[0] == "K") == (row.proposal is Proposal.KIP_273) for row in ROWS)
    assert all(bool(row.measures) != bool(row.unmeasured or (row.construction and not row.measures)) for row in ROWS)


def test_what_no_run_measures_says_why() -> None:
    column = KipColumn(
        recipes=(),
        claims={"M2": cannot("a copy"), "M5": promised("the manual"), "N6": by_recipe("the client stops")},
        unmeasured={"M5": "no two incarnations differ"},
    )
    made = table(column=column)
    wanted = {"M2": CellState.CANNOT, "M5": CellState.NOT_MEASURED, "N6": CellState.BY_CONSTRUCTION}
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
    made = TableMaking(Proposal.KIP_30, ("consul",), tmp_path, runtime="lab").write()
    (other,) = [text for text in made.recipes["consul"] if "catalog-ttl/1" in text]
    assert other.endswith("; not measured here, -O members=catalog-ttl chooses it")
    assert cell(made, "M1").recipe == "session-key/1"


@pytest.mark.parametrize(
    ("claims", "rule"),
    [
        ('M1.promised = "a"\nM1.cannot = "b"', "claims, M1: expected one of promised, recipe and cannot"),
        ('M99.promised = "a"', "claims, M99: no row has this id"),
        ('[unmeasured]\nM98 = "typo"', "unmeasured, M98: no row has this id"),
    ],
)
def test_a_claim_is_one_of_the_three_about_a_row(tmp_path: Path, claims: str, rule: str) -> None:
    (tmp_path / FILE).write_text(f"recipes = []\n[claims]\n{claims}\n")
    with pytest.raises(UsageError, match=rule):
        read_column(tmp_path / FILE)
