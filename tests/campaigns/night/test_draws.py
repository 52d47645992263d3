"""What runs of a campaign draw: from their seed, within what the file says, in the plan that is carried out."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.campaigns.night.cells import CheckedCells, cells_of
from fencepost.campaigns.night.draws import DrawnKey, heaviest, values_of
from fencepost.campaigns.night.file import read_campaign
from fencepost.campaigns.night.launcher import PLAN, ProcessLauncher
from fencepost.campaigns.night.night import CellOutcome
from fencepost.campaigns.night.register import Opened
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import attempt_in_words
from fencepost.harness.base.errors import UsageError
from tests.campaigns.night.made import attempt, opened

CELLS = """name = "n"
[plan]
nemesis = "kill"
workload = "register"
[axes]
system = ["etcd", "example"]
[[cell]]
canary = true
anomaly = "stale-read"
system = "example"
system_options = { defect = "forgets" }
[[cell]]
name = "five"
system = "etcd"
nodes = 5
"""
NODES = '[[draw]]\nkey = "nodes"\nvalues = [3, 5]\n'
RATE = '[[draw]]\nkey = "workload_options.rate"\nfrom = 10\nto = 3000\n'
SNAPSHOTS = '[[draw]]\nkey = "set.etcd.snapshot-count"\nfrom = 100\nto = 10000\nwhere = { system = "etcd" }\n'


def read(tmp_path: Path, text: str) -> CheckedCells:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return cells_of(read_campaign(path))


def keys_by_name(made: CheckedCells) -> dict[str, set[str]]:
    return {cell.name: {draw.key for draw in cell.draws} for cell in made.cells}


def test_a_draw_is_about_the_cells_that_it_names_but_not_canaries_nor_those_that_set_the_key(tmp_path: Path) -> None:
    rate, snapshots = "workload_options.rate", "set.etcd.snapshot-count"
    assert keys_by_name(read(tmp_path, CELLS + NODES + RATE + SNAPSHOTS)) == {
        "etcd register kill": {"nodes", rate, snapshots},
        "example register kill": {"nodes", rate},
        "example register kill defect=forgets": set(),
        "five": {rate, snapshots},
    }


def test_a_cell_keeps_its_id_from_night_to_night_and_draws_make_another(tmp_path: Path) -> None:
    plain, drawing, other = (
        {c.name: c.id for c in read(tmp_path, CELLS + more).cells} for more in ("", NODES, NODES.replace("5]", "5, 3]"))
    )
    assert plain["five"] == drawing["five"]
    assert len({ids["etcd register kill"] for ids in (plain, drawing, other)}) == 3


def test_estimates_count_with_what_costs_most(tmp_path: Path) -> None:
    made = read(tmp_path, CELLS + NODES)
    nodes = {cell.name: made.plans[cell.id].plan.nodes for cell in made.cells}
    assert nodes["etcd register kill"] == 5 and {c.plan.nodes for c in made.cells if c.name != "five"} == {3}
    assert heaviest([DrawnKey(key="quiet", values=("1s", "9s"))]) == {"quiet": "1s"}


@given(st.integers(0, 2**31), st.integers(1, 1000), st.integers(1, 10**6))
def test_a_draw_lies_within_its_range_and_follows_from_the_seed(seed: int, least: int, above: int) -> None:
    draws = [DrawnKey(key="a", least=least, most=least + above), DrawnKey(key="b", least=0.5, most=2)]
    values = values_of(draws, seed)
    assert least <= values["a"] <= least + above and isinstance(values["a"], int)
    assert 0.5 <= values["b"] <= 2
    # Neither depends on the other.
    assert values == values_of(draws[::-1], seed) and values_of(draws[1:], seed)["b"] == values["b"]


def test_each_order_of_magnitude_is_as_likely() -> None:
    drawn = [values_of([DrawnKey(key="a", least=1, most=1000)], seed)["a"] for seed in range(3000)]
    shares = [sum(low <= value < 10 * low for value in drawn) / 3000 for low in (1, 10, 100)]
    assert all(0.28 < share < 0.39 for share in shares), shares


def test_the_plan_of_a_run_has_what_its_seed_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "fencepost.campaigns.night.launcher.ProcessFlight",
        lambda plan, folder, log: plans.append(tomllib.loads(Path(plan).read_text())),
    )
    cell = next(c for c in read(tmp_path, CELLS + NODES + SNAPSHOTS).cells if c.draws)
    runs = [attempt(cell.id, RunClass.VALID, run=seed) for seed in range(1, 30)]
    for seed, one in enumerate(runs, 1):
        ProcessLauncher(tmp_path).launch(cell, msgspec.structs.replace(one, seed=seed))
    assert {plan["nodes"] for plan in plans} == {3, 5}
    counts = {plan["set"]["etcd"]["snapshot-count"] for plan in plans}
    assert len(counts) > 20 and min(counts) >= 100
    assert [plan["seed"] for plan in plans] == list(range(1, 30))
    assert plans[0]["nodes"] == values_of(cell.draws, 1)["nodes"]
    assert (tmp_path / runs[0].folder / PLAN).is_file()
    ProcessLauncher(tmp_path).launch(cell, msgspec.structs.replace(runs[0], values={"nodes": 7, "quiet": "9s"}))
    assert (plans[-1]["nodes"], plans[-1]["quiet"]) == (7, "9s")


def test_the_page_says_what_a_run_drew_and_the_register_keeps_it(tmp_path: Path) -> None:
    cell = next(c for c in read(tmp_path, CELLS + NODES).cells if c.draws)
    run = attempt(cell.id, RunClass.VALID)
    each = CellOutcome(cell=cell, run_class=RunClass.VALID, reason="", attempts=(run,))
    assert f", drawn: nodes={values_of(cell.draws, run.seed)['nodes']}" in attempt_in_words(each, run)
    line = msgspec.json.encode(opened([cell]))
    assert msgspec.json.decode(line, type=Opened).cells == (cell,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[draw]]\nkey = "colour"\nvalues = [1]\n', "line 17: draw 1, key: 'colour' is no key of a plan"),
        ('[[draw]]\nkey = "system"\nvalues = ["etcd"]\n', "line 17: draw 1, key: 'system' is not drawn"),
        ('[[draw]]\nkey = "nodes"\n', "line 16: draw 1: expected either values, or from and to"),
        (NODES + "from = 3\nto = 5\n", "line 16: draw 1: expected either values, or from and to"),
        ('[[draw]]\nkey = "nodes"\nfrom = 3\n', "line 16: draw 1: expected either values, or from and to"),
        (RATE.replace("3000", "10"), "line 18: draw 1, from: expected 0 < from < to, got 10 and 10"),
        (RATE.replace("10\n", "0\n", 1), "line 18: draw 1, from: expected 0 < from < to, got 0 and 3000"),
        (NODES + NODES, "line 20: draw 2, key: 'nodes' is drawn twice"),
        (NODES + 'colour = "red"\n', "line 19: draw 1, colour: unknown key"),
        (NODES + 'where = { system = "zookeeper" }\n', "line 16: draw 1: it is about no cell"),
        (NODES.replace("5]", "4]"), "line 16: draw 1: nodes: 4 is not a choice (the combination etcd register kill)"),
        (NODES.replace("5]", '"x"]'), "line 16: draw 1: nodes: Expected `int`, got `str`"),
        (SNAPSHOTS.partition("where")[0], "line 16: draw 1: "),
        (RATE.replace("rate", "pace"), "line 16: draw 1: "),
    ],
)
def test_a_draw_that_makes_no_sense_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, CELLS + text)
    assert message in raised.value.message, raised.value.message
