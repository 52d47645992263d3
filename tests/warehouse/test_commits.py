"""Adds and builds beside each other: nothing that was reported as added is lost or doubled, wherever one comes between.

Without Spark. One of two comes as a whole before each step of the other that it can see or disturb, and each is killed
before each of its steps.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from fencepost.harness.base.errors import UsageError
from fencepost.warehouse import store as store_module
from fencepost.warehouse.night_tables import ADDED, NIGHTS, OF_NIGHTS, REBUILT_NAME, RECORDS, SHARD, layout
from fencepost.warehouse.store import DeltaStore, is_warehouse, new_id, open_store
from tests.warehouse.commits import FILLED, add_one, bring, build_one, runs_of, tear

Work = Callable[[str, str], None]


class Killed(BaseException):
    """In place of a SIGKILL."""


@pytest.fixture(scope="module", autouse=True)
def few_tables() -> Iterator[None]:
    """Leave out tables that none of these runs has a row in: opening them is most of the time."""
    names = (*FILLED, "reigns", *OF_NIGHTS, REBUILT_NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "TABLES", names)
        patch.setattr(store_module, "_OF_RUNS", tuple(name for name in names if name not in OF_NIGHTS))
        yield


@pytest.fixture(scope="module")
def with_old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of one run, to be copied."""
    root = tmp_path_factory.mktemp("with-old") / "warehouse"
    add_one(str(root), "old")
    return root


def before_step(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> Callable[[], bool]:
    """Let `act` come before the `number`th step: a table is opened, or written as it was when it was opened.

    Returns whether it came.
    """
    steps, came = [0], [False]

    def step() -> None:
        steps[0] += 1
        if steps[0] == number and not came[0]:
            came[0] = True
            act()

    def counting(do: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            step()
            return do(*arguments, **named)

        return counted

    monkeypatch.setattr(DeltaStore, "delta", counting(DeltaStore.delta))
    monkeypatch.setattr(store_module, "write_deltalake", counting(write_deltalake))
    return lambda: came[0]


@pytest.mark.parametrize(
    ("first", "one", "second", "other", "there"),
    [
        (add_one, "a", add_one, "b", ["a", "b", "old"]),
        (add_one, "a", add_one, "a", ["a", "old"]),
        (add_one, "a", build_one, "b", ["a", "b"]),
        (add_one, "a", build_one, "a", ["a"]),
        (build_one, "a", add_one, "b", ["a", "b"]),
        (build_one, "a", add_one, "a", ["a"]),
        (build_one, "a", build_one, "b", ["a", "b"]),
    ],
)
def test_whatever_comes_between_the_steps_nothing_is_lost_or_doubled(
    with_old: Path, tmp_path: Path, first: Work, one: str, second: Work, other: str, there: list[str]
) -> None:
    for number in range(1, 100):
        root = str(tmp_path / str(number))
        shutil.copytree(with_old, root)
        with pytest.MonkeyPatch.context() as patch:
            came = before_step(patch, number, lambda root=root: second(root, other))  # type: ignore[misc]
            first(root, one)
        if not came():
            break
        runs = runs_of(root)
        # A build drops what was there when it began, and says so: also what a first build has just brought.
        dropped = [[one]] if first is build_one and number == 1 else [[other]] if first is second is build_one else []
        assert runs in (there, *dropped), number
        for name in FILLED:
            assert runs_of(root, name) == runs, (number, name)
    assert 5 < number < 99


@pytest.mark.parametrize("work", [add_one, build_one])
def test_a_killed_one_brings_nothing_and_the_next_repairs_it(
    with_old: Path, tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_UNFINISHED", timedelta(seconds=-5))

    def kill() -> None:
        raise Killed

    for number in range(1, 100):
        root = str(tmp_path / str(number))
        shutil.copytree(with_old, root)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            killed = before_step(patch, number, kill)
            work(root, "a")
        if not killed():
            break
        counted = DeltaStore(root).runs()
        assert sorted(counted) in (["old"], ["a"], ["a", "old"])
        for name in FILLED:
            rows = DeltaTable(f"{root}/{name}").to_pyarrow_table(columns=["run_id", ADDED]).to_pylist()
            assert sorted(row["run_id"] for row in rows if counted.get(row["run_id"]) == row[ADDED]) == sorted(counted)
        work(root, "a")
        DeltaStore(root).compact()
        for name in FILLED:
            assert runs_of(root, name) == (["a", "old"] if work is add_one else ["a"]), (number, name)
    assert 5 < number < 99


def test_compact_finishes_what_a_killed_build_left(with_old: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    shutil.copytree(with_old, root)
    before = DeltaStore(root).runs()
    bring(root, ["a", "b"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaStore, "_delete", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            bring(root, ["a"], replaced=before)
    assert (runs_of(root), runs_of(root, "operations")) == (["a", "b"], ["a", "a", "b", "old"])
    DeltaStore(root).compact()
    assert runs_of(root, "operations") == ["a", "b", "old"], "it may be an add that is just committing"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_UNFINISHED", timedelta(seconds=-5))
        DeltaStore(root).compact()
    assert runs_of(root, "operations") == runs_of(root, "rebuilt") == ["a", "b"]


def test_compact_leaves_an_add_alone_that_commits_right_now(with_old: Path, tmp_path: Path) -> None:
    for number in range(1, 100):
        root = str(tmp_path / str(number))
        shutil.copytree(with_old, root)
        with pytest.MonkeyPatch.context() as patch:
            came = before_step(patch, number, lambda root=root: print(DeltaStore(root).compact()))  # type: ignore[misc]
            add_one(root, "a")
        if not came():
            break
        assert [runs_of(root, name) for name in FILLED] == [["a", "old"]] * len(FILLED), number


def test_compact_makes_few_files_and_vacuum_removes_the_others(with_old: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    shutil.copytree(with_old, root)
    for number in range(5):
        add_one(root, str(number))
    files = list((tmp_path / "warehouse" / "operations").rglob("*.parquet"))
    done = DeltaStore(root).compact()
    assert done.before == 6 * (len(FILLED) + 1) and done.after == len(FILLED) + 1 and not done.unfinished
    assert all(path.exists() for path in files)
    assert DeltaStore(root).vacuum(168) == 0
    assert DeltaStore(root).vacuum(0) == done.before
    assert not any(path.exists() for path in files)
    assert runs_of(root, "operations") == [*map(str, range(5)), "old"]


def night(records: int, name: str, added: str) -> dict[str, pa.Table]:
    row = {"night": "n", SHARD: 1, RECORDS: records, ADDED: added, "cell": name, "campaign": name}
    return {
        table: pa.Table.from_pylist(
            [{key: row[key] for key in layout(table).schema.names if key in row}], schema=layout(table).schema
        )
        for table in OF_NIGHTS
    }


def test_a_night_counts_as_it_was_known_best(with_old: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    shutil.copytree(with_old, root)
    for records, name in ((5, "a"), (9, "b"), (7, "c"), (9, "d")):
        DeltaStore(root).set_nights(added := new_id(), night(records, name, added))
    assert DeltaStore(root).nights() == {("n", 1): (9, added)}
    assert DeltaStore(root).read(NIGHTS.name)["campaign"].to_pylist() == ["d"]
    assert DeltaStore(root).read("cells")["cell"].to_pylist() == ["d"]
    # A build that finds it drops it, and keeps one that came meanwhile.
    before = DeltaStore(root).nights()
    empty = {table: layout(table).schema.empty_table() for table in OF_NIGHTS}
    DeltaStore(root).set_nights(added := new_id(), night(10, "e", added))
    DeltaStore(root).set_nights(new_id(), empty, before)
    assert DeltaStore(root).read("cells")["cell"].to_pylist() == ["e"]
    DeltaStore(root).set_nights(new_id(), empty, DeltaStore(root).nights())
    assert [len(DeltaStore(root).read(table)) for table in OF_NIGHTS] == [0] * len(OF_NIGHTS)


@pytest.mark.parametrize("damage", ["truncated", "empty", "wrong magic", "missing"])
@pytest.mark.parametrize("table", ["run", "rebuilt", "operations"])
def test_a_torn_part_is_named_with_the_remedy(with_old: Path, tmp_path: Path, table: str, damage: str) -> None:
    shutil.copytree(with_old, tmp_path / "warehouse")
    (path,) = (tmp_path / "warehouse" / table).rglob("*.parquet")
    tear(path, damage)
    with pytest.raises(UsageError, match=f"{path.name}: missing, or no whole Parquet file") as caught:
        open_store(str(tmp_path / "warehouse")).read(table)
    assert "warehouse build" in (caught.value.hint or "") and caught.value.exit_code == 254


def test_a_part_that_is_torn_in_the_middle_is_seen_by_reading_it(with_old: Path, tmp_path: Path) -> None:
    shutil.copytree(with_old, tmp_path / "warehouse")
    (path,) = (tmp_path / "warehouse" / "operations").rglob("*.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(40) + whole[44:])
    with pytest.raises(UsageError, match=path.name):
        DeltaStore(str(tmp_path / "warehouse")).refuse_torn()


@pytest.mark.parametrize(("version", "hint"), [("version 99", "use the newer fencepost"), ("version 0", "build the")])
def test_a_table_of_another_version_is_refused(with_old: Path, tmp_path: Path, version: str, hint: str) -> None:
    root = str(tmp_path / "warehouse")
    shutil.copytree(with_old, root)
    DeltaTable(f"{root}/reigns").alter.set_table_description(version)
    with pytest.raises(UsageError, match=f"the table reigns has {version}, and this fencepost reads ") as caught:
        DeltaStore(root).files("reigns")
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "message"),
    [("warehouse.json", "an earlier fencepost made this warehouse"), ("precious", "no warehouse is here, but some")],
)
def test_what_is_no_warehouse_of_today_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text('{"format": 2, "generation": "g"}')
    with pytest.raises(UsageError, match=message) as caught:
        open_store(str(tmp_path))
    assert caught.value.exit_code == 254 and caught.value.hint


def test_a_warehouse_that_is_half_made_is_none_and_is_made(with_old: Path, tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(with_old, root)
    shutil.rmtree(root / "run")
    shutil.rmtree(root / "reigns")
    assert not is_warehouse(str(root))
    add_one(str(root), "new")
    assert runs_of(str(root)) == ["new"]
    shutil.rmtree(root / "reigns")
    with pytest.raises(UsageError, match="the table reigns is missing"):
        DeltaStore(str(root)).files("reigns")


def test_odd_names_of_folders_nights_and_runs_are_read(tmp_path: Path) -> None:
    root, nights = str(tmp_path / "a b+c/ü"), ["2026-11-27T00:00Z", "a b/c%20ü'=x"]
    for run, night in zip(("r'1", "r2"), nights, strict=True):
        DeltaStore(root).make()
        bring(root, [run], night=night)
    assert runs_of(root) == sorted(DeltaStore(root).runs()) == ["r'1", "r2"]
    DeltaStore(root).compact()
    for name in FILLED:
        rows = DeltaStore(root).read(name, ["run_id", "night", "system"]).to_pylist()
        assert sorted((row["run_id"], row["night"]) for row in rows) == [("r'1", nights[0]), ("r2", nights[1])]
    build_one(root, "r3")
    assert [runs_of(root, name) for name in FILLED] == [["r3"]] * len(FILLED)


def test_names_of_adds_sort_by_time_within_one_second() -> None:
    names = [new_id() for _ in range(20)]
    assert [name[:22] for name in names] == sorted(name[:22] for name in names)
