"""Tonight over mixes of runs: what was made to fail and runs under other options turn no night red."""

import datetime
import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.warehouse.pages.collect import overview
from fencepost.warehouse.pages.site import pages
from fencepost.warehouse.warehouse import STEPS
from tests.warehouse.pages.test_pages import text_of
from tests.warehouse.test_nightly import _TABLES, _add_run, _frames

pytestmark = pytest.mark.spark

Row = dict[str, Any]
PLAN = {"system": "etcd", "workload": "register", "nemesis": "kill"}


class Lazy(dict[str, DataFrame]):
    """Tables by name; steps are computed when they are asked for."""

    def __missing__(self, name: str) -> DataFrame:
        return STEPS[name](self)


def mixed(seed: int, *, violations: int, missed: int = 0) -> dict[str, list[Row]]:
    """A green campaign with a canary; then single runs of a test session, most of them made to fail."""
    draw = random.Random(seed)
    tables: dict[str, list[Row]] = {name: [] for name in (*_TABLES, "exposures", "requirements")}
    register = {"night": "n1", "shard": 1, "shards": 1, "started_at": "2026-11-05T00:00:00Z", "folder": "/n1"}
    told = {"exit_code": 0, "state": "finished", "sentence": "2 of 2 cells tested", "reasons": []}
    tables["nights"].append({**register, **told})
    for cell, run_class in (("c0", "invalid"), ("c1", "valid")):
        row = {"night": "n1", "shard": 1, "cell": cell, "name": cell, "version": "", "reason": "", "required": False}
        of = {"canary": cell == "c0", "control": False, "caught": True if cell == "c0" else None}
        tables["cells"].append({**row, **PLAN, **of, "run_class": run_class})
        attempt = {"night": "n1", "shard": 1, "cell": cell, "run": 1, "number": 1, "folder": f"runs/{cell}"}
        tables["attempts"].append({**attempt, "run_class": run_class})
        home = {"cell": cell, "attempt": f"runs/{cell}", "shard": 1, "expected": "", "variant": ""}
        _add_run(draw, tables, "n1", PLAN, run_class, **home)
    outcomes = [("invalid", "invalid")] * draw.randint(1, 4) + [("invalid", "valid")] * missed
    outcomes += [("", "valid")] * draw.randint(1, 4) + [("", "invalid")] * violations
    for expected, outcome in draw.sample(outcomes, len(outcomes)):
        variant = draw.choice(("", "defect=x"))
        _add_run(draw, tables, "2026-11-06", PLAN, outcome, expected=expected, variant=variant)
        tables["run"][-1]["started_at"] = "2026-11-06T00:00:00Z"
    return tables


@pytest.mark.parametrize(
    ("seed", "violations", "missed", "heading"),
    [
        (0, 0, 0, "✓ Green"),
        (0, 1, 0, "✗ Red: a violation"),
        pytest.param(1, 0, 1, "Red: something is missing", marks=pytest.mark.slow),
        pytest.param(2, 0, 0, "✓ Green", marks=pytest.mark.slow),
        pytest.param(3, 2, 1, "✗ Red: a violation", marks=pytest.mark.slow),
    ],
)
def test_only_an_ordinary_violation_turns_tonight_red(
    spark: SparkSession, seed: int, violations: int, missed: int, heading: str
) -> None:
    tables = mixed(seed, violations=violations, missed=missed)
    today = datetime.date(2026, 11, 6)
    view = overview(Lazy(_frames(spark, tables)), Path("/nowhere/pages"), (), shown=14, today=today)
    text = text_of(dict(pages(view))["index.html"])
    assert heading in text
    # Each run shows two fingerprints.
    assert sum(each.finding.rate.seen for each in view.findings) == 2 * violations
    made = sum(row["expected"] == "invalid" for row in tables["placed"])
    did_not = f", {missed} of them did not" if missed else ""
    assert re.search(rf"{violations} invalid; {made} runs? made to fail{did_not}", text)
    assert "n1: 1 run, 0 invalid; 1 run made to fail" in text
    if missed:
        assert f"{missed} run of 2026-11-06 should have been invalid" in text
