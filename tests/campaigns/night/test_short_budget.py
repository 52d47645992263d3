"""What a night and a gate make ready: the cells for which the budget has time, and nothing for the others."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.night import preparation
from fencepost.campaigns.night.cells import cells_of
from fencepost.campaigns.night.file import read_campaign
from fencepost.campaigns.night.session import NightWishes, cells_within
from fencepost.harness.cli import main
from tests.docs.pages import DOCS

_CAMPAIGN = """name = "lengths"
[plan]
system = "example"
workload = "set"
nemesis = "kill:all"
[axes]
time_limit = ["5s", "30s", "5m"]
[[cell]]
canary = true
anomaly = "lost-write"
time_limit = "10s"
system_options = { defect = "forgets" }
"""


@pytest.mark.parametrize(("budget_s", "admitted"), [(1, 0), (20, 0), (26, 1), (40, 2), (100, 3), (400, 4)])
def test_only_cells_that_have_time_for_a_run_are_made_ready(tmp_path: Path, budget_s: float, admitted: int) -> None:
    (tmp_path / "c.toml").write_text(_CAMPAIGN)
    cells = cells_of(read_campaign(tmp_path / "c.toml"))
    wishes = NightWishes(budget_s=budget_s, seed=1, results=tmp_path / "results")
    fitting = cells_within(cells.cells, cells.plans, wishes)
    assert {cell.plan.time_limit for cell in fitting} == set(("5s", "10s", "30s", "5m")[:admitted])


@pytest.mark.parametrize("budget", ["1s", "5s", "15s"])
@pytest.mark.parametrize(
    "words", [("campaign", "nightly.toml"), ("gate", "policy.toml", "--candidate", "1.0.0", "--baseline", "1.0.0")]
)
def test_a_budget_that_admits_no_run_says_so_and_makes_nothing_ready(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    budget: str,
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("something was made ready")

    monkeypatch.setattr(preparation, "made_ready", never)
    command, file, *flags = words
    results = tmp_path / "results"
    code = main([command, str(DOCS / "how-to" / file), *flags, "--budget", budget, "--results", str(results)])
    said = capsys.readouterr()
    assert code == 2, said.err
    assert "the budget is too short for a run of any of them" in said.err
