"""Campaign files: the cells they make, and what is wrong with one told with file, line and remedy."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fencepost.campaigns.night.axes import combinations, matches
from fencepost.campaigns.night.cells import CheckedCells, cell_id, cells_of, shard_of
from fencepost.campaigns.night.file import read_campaign
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.toml_file import flat, line_of
from fencepost.harness.cli import main
from fencepost.harness.findings.known_issues import read_known_issues
from fencepost.harness.plan import Plan

CANARY = """
[[cell]]
canary = true
anomaly = "stale-read"
system = "example"
workload = "register"
nemesis = "partition:leader"
system_options = { defect = "stale-reads" }
"""
AXES = """name = "n"
[plan]
time_limit = "15s"
nemesis = "kill"
[axes]
workload = ["register", "set", "log"]
target = [{ system = "etcd", version = "3.5.1" }, { system = "example" }]
nodes = [3, 5]
"""


def read(tmp_path: Path, text: str) -> CheckedCells:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return cells_of(read_campaign(path))


def test_axes_a_base_and_cells_by_hand_make_the_cells(tmp_path: Path) -> None:
    made = read(tmp_path, AXES + '[[required]]\nsystem = "etcd"\nworkload = "set"\n' + CANARY)
    *cells, canary = made.cells
    assert canary.canary and canary.name == "example register partition:leader defect=stale-reads"
    assert {c.plan.time_limit for c in cells} == {"15s"}
    assert all(c.required == (c.plan.system == "etcd" and c.plan.workload == "set") for c in cells)
    assert {c.plan.version for c in cells if c.plan.system == "etcd"} == {"3.5.1"}
    # No system here offers a log; that is no error, and no secret.
    assert all(c.plan.workload != "log" for c in cells)
    assert set(made.impossible) == {"etcd does not offer what log needs", "example does not offer what log needs"}
    assert len({c.name for c in made.cells}) == len({c.id for c in made.cells}) == len(made.cells)


def test_a_cells_id_is_its_plans_and_stays_when_the_file_changes_around_it(tmp_path: Path) -> None:
    ids = {c.id for c in read(tmp_path, AXES + CANARY).cells}
    again = {c.id for c in read(tmp_path, AXES.replace("[3, 5]", "[3, 5, 1]") + "# more\n" + CANARY).cells}
    assert ids & again
    plan = Plan(system="etcd", workload="set", seed=1, nodes=3)
    assert cell_id(plan) == cell_id(Plan(system="etcd", workload="set", seed=2))
    assert cell_id(plan) != cell_id(Plan(system="etcd", workload="set", seed=1, nodes=5))
    assert cell_id(plan) == cell_id(Plan(system="etcd", workload="set", seed=1, time_limit="30s"))


def test_every_pair_of_values_meets_in_some_cell_unless_it_is_excluded(tmp_path: Path) -> None:
    rng = random.Random(5)
    for number in range(60):
        sizes = [rng.randint(1, 4) for _ in range(rng.randint(2, 4))]
        keys = ["nodes", "quiet", "runtime", "image"][: len(sizes)]
        axes: dict[str, list[Any]] = {
            key: [f"{key}-{n}" for n in range(size)] for key, size in zip(keys, sizes, strict=True)
        }
        excludes = [
            {key: rng.choice(axes[key]) for key in rng.sample(keys, rng.choice([2, 2, 3]) if len(keys) > 2 else 2)}
            for _ in range(rng.randint(0, 2))
        ]
        path = tmp_path / f"{number}.toml"
        path.write_text(tomli_w.dumps({"name": "n", "axes": axes, "exclude": excludes}))
        allowed = [
            row
            for row in (dict(zip(keys, values, strict=True)) for values in itertools.product(*axes.values()))
            if not any(matches(exclude, row) for exclude in excludes)
        ]
        if not allowed:
            with pytest.raises(UsageError, match="no combination is left"):
                combinations(read_campaign(path))
            continue
        rows = [flat(table) for table in combinations(read_campaign(path)).tables]
        assert all(row in allowed for row in rows)
        for a, b in itertools.combinations(keys, 2):
            assert {(row[a], row[b]) for row in rows} == {(row[a], row[b]) for row in allowed}
        assert len(rows) <= len(allowed)


def test_what_is_included_is_there_and_all_means_every_combination(tmp_path: Path) -> None:
    include = '[[include]]\nsystem = "etcd"\nworkload = "set"\nnodes = 5\n'
    cells = read(tmp_path, AXES + include + CANARY).cells
    assert any((c.plan.system, c.plan.workload, c.plan.nodes) == ("etcd", "set", 5) for c in cells)
    assert len(read(tmp_path, 'combine = "all"\n' + AXES + CANARY).cells) == 2 * 2 * 2 + 1


def test_shards_share_the_cells_and_each_has_the_canary(tmp_path: Path) -> None:
    cells = read(tmp_path, 'combine = "all"\n' + AXES + CANARY).cells
    parts = [shard_of(cells, shard, 3) for shard in (1, 2, 3)]
    assert all(sum(c.canary for c in part) == 1 for part in parts)
    others = [c.id for part in parts for c in part if not c.canary]
    assert sorted(others) == sorted(c.id for c in cells if not c.canary)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'name' is missing"),
        ('name = "../x"\n', "line 1: name: '../x' cannot name a folder"),
        ('name = "n"\nformat = 2\n', "line 2: format: this fencepost reads format 1, not 2"),
        ('name = "n"\nnights = 2\n', "line 2: nights: unknown key"),
        ('name = "n"\nruns = "x"\n', "line 2: runs: expected `int`, got `str`"),
        ('name = "n"\n', "it has no cell"),
        (AXES, "it has no canary"),
        ('name = "n"\n[axes]\nweather = ["rain"]\n', "line 3: axes, weather: unknown axis"),
        ('name = "n"\n[axes]\nworkload = []\n', "line 3: axes, workload: the axis has no value"),
        ('name = "n"\n[axes]\nworkload = ["set", "set"]\n', "stands there twice"),
        (AXES + 'system = ["etcd"]\n', "line 9: axes, system: 'system' is set by the axis 'target' too"),
        (AXES + '[[exclude]]\nsystem = ["etcd", "example"]\n', "line 5: axes: no combination is left"),
        (AXES + '[[exclude]]\nquiet = "1s"\n', "line 10: exclude 1, quiet: no axis sets this key"),
        (AXES + "[[include]]\nnodes = 3\n[[exclude]]\nnodes = 3\n", "line 9: include 1: an exclude, or what"),
        (AXES + "[[include]]\nnodes = 7\n", "the axis 'nodes' has no value nodes=7"),
        (AXES + '[[required]]\nsystem = "zookeeper"\n' + CANARY, "line 9: required 1: no cell of the axes matches"),
        (AXES + CANARY + CANARY, "line 18: cell 2: its plan is that of the cell"),
        (AXES + CANARY.replace('anomaly = "stale-read"\n', ""), "line 11: cell 1, canary: a canary and the anomaly"),
        (AXES + CANARY + "runs = 0\n", "line 17: cell 1, runs: expected 1 to 10,000, got 0"),
        (AXES + CANARY + "runs = 10_001\n", "line 17: cell 1, runs: expected 1 to 10,000, got 10001"),
        (AXES + CANARY + f"runs = {10**4000}\n", "runs: expected 1 to 10,000, got 1"),
        (f'name = "n"\nruns = {10**12}\n' + CANARY, "line 2: runs: expected 1 to 10,000, got 1000000000000"),
        (AXES + CANARY + f'name = "{"9" * 5000}"\n', "cell 1, name: a name of 5,000 characters; expected at most 200"),
        (AXES + CANARY + f"name = {'9' * 5000}\n", "a number of more than 4300 digits"),
        (AXES + CANARY + f"runs = {'[' * 5000}{']' * 5000}\n", "it is nested too deeply"),
        (AXES + CANARY + "seed = 3\n", "line 17: cell 1, seed: a run draws its own seed"),
        (AXES + CANARY + "colour = 3\n", "line 17: cell 1, colour: unknown key"),
        (AXES + CANARY + 'schedule = "none.jsonl"\n', "line 17: cell 1, schedule: there is no file"),
        (AXES.replace('"15s"', "15") + CANARY, "line 3: plan, time_limit: expected `str`, got `int`"),
        (AXES.replace('"register"', '"registers"') + CANARY, "line 5: axes: unknown workload 'registers'"),
        (AXES + CANARY.replace("partition:leader", "portition"), "line 10: cell 1: unknown fault 'portition'"),
        (AXES + CANARY.replace("stale-reads", "rust"), "line 10: cell 1: example option defect: 'rust'"),
        (
            'name = "n"\nknown_issues = "none.toml"\n' + AXES.partition("\n")[2] + CANARY,
            "line 2: known_issues: there is no",
        ),
        ("name = [", "Invalid"),
    ],
)
def test_what_is_wrong_with_a_campaign_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path, results = tmp_path / "night.toml", tmp_path / "results"
    path.write_text(text)
    assert main(["campaign", str(path), "--results", str(results)]) == 254
    error = capsys.readouterr().err
    assert str(path) in error and message in error.replace("\n", " "), error
    assert not results.exists()


ISSUE = """[[issue]]
fingerprint = "etcd:linearizable:stale-read:read"
link = "https://issues.example/1"
owner = "somebody"
expires = 2027-01-31
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ISSUE.replace("expires = 2027-01-31\n", ""), "line 1: issue 1: 'expires' is missing"),
        (ISSUE.replace("2027-01-31", "true"), "line 5: issue 1, expires: expected `date`, got `bool`"),
        (ISSUE.replace("somebody", " "), "line 4: issue 1, owner: it is empty"),
        (ISSUE.replace(":read", ""), "line 2: issue 1, fingerprint: 'etcd:linearizable:stale-read' is no fingerprint"),
        (ISSUE + ISSUE, "line 6: issue 2: the same issue stands there before"),
        (ISSUE + "severity = 3\n", "line 6: issue 1, severity: unknown key"),
        ("format = 9\n" + ISSUE, "line 1: format: this fencepost reads format 1, not 9"),
    ],
)
def test_what_is_wrong_with_a_known_issue_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_known_issues(path)
    assert raised.value.message == f"{path}, {message}" or message in raised.value.message, raised.value.message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--budget", "0s"], "leaves no time"),
        (["--budget", "2"], "is not a duration"),
        (["--jobs", "some"], "expected auto"),
        (["--shard", "3/2"], "--shard '3/2'"),
        (["--resume"], "there is no unfinished night to resume"),
    ],
)
def test_flags_that_cannot_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    path = tmp_path / "night.toml"
    path.write_text(AXES + CANARY)
    assert main(["campaign", str(path), "--results", str(tmp_path / "results"), *flags]) == 254
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_line_of_a_value_is_found_in_tables_arrays_and_dotted_keys() -> None:
    text = 'a = 1\n[b]\n"c d" = 2\n[[e]]\nf = 1\n[e.g]\nh = 1\n[[e]]\n\ng.h = 3\n'
    lines = {("a",): 1, ("b", "c d"): 3, ("e", 0, "g", "h"): 7, ("e", 1): 8, ("e", 1, "g", "h"): 10, ("e", 1, "z"): 8}
    assert {keys: line_of(text, keys) for keys in lines} == lines
    assert line_of(text, ("x",)) is None


@pytest.mark.parametrize("value", ["[1]", "7", "{ a = 1 }", "true"])
@pytest.mark.parametrize("axis", ["workload", "target"])
def test_a_name_of_another_type_is_refused(tmp_path: Path, axis: str, value: str) -> None:
    first = '"register"' if axis == "workload" else '"etcd"'
    with pytest.raises(UsageError):
        read(tmp_path, AXES.replace(first, value, 1) + CANARY)
