"""Adds beside builds: nothing that was reported as added is lost, whatever the order of their steps. Without Spark."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.warehouse.generations import building, replace, tidy, writing
from fencepost.warehouse.store import (
    GENERATION,
    MARK,
    Add,
    Part,
    Store,
    Superseded,
    new_generation,
    new_id,
    open_or_make,
    open_store,
    read_mark,
)

#: The steps of an add and of a build that another process can see. Nobody else comes between what lies in one.
STEPS: Final = ("write_part", "write_manifest", "is_in_force", "put_in_force", "copy_file", "remove", "add_ids")


def added(store: Store, *runs: str, replaces: tuple[str, ...] | None = None, id: str | None = None) -> Add:
    """Write the part of these runs; returns the manifest, which is not written yet."""
    name = id or new_id()
    file = store.write_part("run", "n", "etcd", f"{name}-0", pa.table({"run_id": list(runs)}))
    part = Part(night="n", system="etcd", runs=runs, files={"run": (file,)})
    return Add(id=name, at="", tables={}, parts=(part,), replaces=replaces)


def add_one(root: str, run: str) -> None:
    """What `adding.add` does, without Spark."""
    for _ in range(5):
        tidy(root)
        store = open_or_make(root)
        try:
            with writing(store):
                if run in {each for one in store.adds() for each in one.runs}:
                    return
                store.commit(added(store, run))
                return
        except (Superseded, OSError):
            assert not store.is_in_force()
        finally:
            tidy(root)
    raise AssertionError("it began again and again")


def build_one(root: str, *runs: str) -> set[str]:
    """What `adding.build` does, without Spark; returns the runs that it says it dropped."""
    with building(root):
        mark = read_mark(root)
        before = Store(root, mark.generation) if mark else None
        replaces = tuple(before.add_ids()) if before else ()
        target = new_generation(root)
        with writing(target):
            target.write_manifest(added(target, *runs, replaces=replaces))
            dropped = {run for name in replaces if before for run in before.read_add(name).runs}
            replace(target, before.generation if before else "")
            return dropped


def race(root: str, *runs: str) -> tuple[list[Callable[[], None]], set[str]]:
    """An add of the run "added" beside a build of these runs; and the set of the runs that the build drops."""
    dropped: set[str] = set()
    return [lambda: add_one(root, "added"), lambda: dropped.update(build_one(root, *runs))], dropped


def runs_in(root: str) -> set[str]:
    """The runs whose parts are whole."""
    store = open_store(root)
    store.refuse_torn(store.adds(), whole=True)
    return {run for one in store.adds() for run in one.runs}


def folders(root: str) -> list[str]:
    return sorted(path.name for path in Path(root).iterdir() if path.name.startswith(GENERATION))


class Steps:
    """Carries out the steps of several threads in a given order; a thread whose turn it is not waits."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = list(order)
        self._turn = threading.Condition()
        self._ended: set[int] = set()
        self._own = threading.local()
        self.taken: list[int] = []

    def step(self) -> None:
        me = getattr(self._own, "number", None)
        if me is None:
            return
        with self._turn:
            # Whose turn it is may wait for a lock of ours: then we go on.
            self._turn.wait_for(lambda: not self._left() or self._left()[0] == me, timeout=0.2)
            if self._left():
                self._order.pop(0)
            self.taken.append(me)
            self._turn.notify_all()

    def _left(self) -> list[int]:
        while self._order and self._order[0] in self._ended:
            self._order.pop(0)
        return self._order

    def run(self, works: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        failed: list[BaseException | None] = [None] * len(works)

        def carry_out(number: int) -> None:
            self._own.number = number
            try:
                works[number]()
            except BaseException as error:
                failed[number] = error
            finally:
                with self._turn:
                    self._ended.add(number)
                    self._turn.notify_all()

        threads = [threading.Thread(target=carry_out, args=(number,)) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failed


def play(monkeypatch: pytest.MonkeyPatch, order: Sequence[int], works: Sequence[Callable[[], None]]) -> Any:
    steps = Steps(order)
    with monkeypatch.context() as patched:
        for name in STEPS:
            original = getattr(Store, name)

            def stepped(self: Store, *words: Any, _original: Any = original, **named: Any) -> Any:
                steps.step()
                return _original(self, *words, **named)

            patched.setattr(Store, name, stepped)
        return steps.run(works)


def orders(adds: int, builds: int, *, most: int) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of an add (0) and of a build (1), or `most` of them drawn from all."""
    every = [
        tuple(int(n in of_build) for n in range(adds + builds))
        for of_build in map(set, itertools.combinations(range(adds + builds), builds))
    ]
    yield from every if len(every) <= most else random.Random(7).sample(every, most)


@pytest.mark.parametrize("most", [150, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_first", [True, False])
def test_no_order_of_the_steps_of_an_add_and_a_build_loses_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool, most: int
) -> None:
    """`is_first`: nothing is there before, and both make the warehouse."""
    for number, order in enumerate(orders(6, 8, most=most)):
        root = str(tmp_path / f"{number}" / "warehouse")
        if not is_first:
            store = open_or_make(root)
            store.commit(added(store, "old"))
        works, dropped = race(root, "built")
        failed = play(monkeypatch, order, works)
        assert failed == [None, None], order
        # What was added before the build began is dropped, and the build says so.
        assert {"added", "built"} >= runs_in(root) >= {"added", "built"} - dropped, order
        assert folders(root) == [open_store(root).generation], order


def test_no_order_of_the_steps_of_two_first_adds_loses_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, order in enumerate(orders(5, 5, most=60)):
        root = str(tmp_path / f"{number}")
        failed = play(monkeypatch, order, [partial(add_one, root, "a"), partial(add_one, root, "b")])
        assert failed == [None, None], order
        assert runs_in(root) == {"a", "b"}, order
        assert folders(root) == [open_store(root).generation], order


def test_without_locks_no_order_loses_a_run_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a remote store: there only builds tidy."""
    monkeypatch.setattr("fcntl.flock", _no_locks)
    for number, order in enumerate(orders(6, 8, most=100)):
        root = str(tmp_path / f"{number}")
        store = open_or_make(root)
        store.commit(added(store, "old"))
        works, dropped = race(root, "built")
        failed = play(monkeypatch, order, works)
        assert failed == [None, None], order
        # What was added before the build began is dropped, and the build says so.
        assert {"added", "built"} >= runs_in(root) >= {"added", "built"} - dropped, order


def _no_locks(handle: int, how: int) -> None:
    raise OSError(95, "Operation not supported")


def test_order_a_an_add_that_opened_before_a_build_ended(tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    old = open_or_make(root)
    build_one(root, "built")
    with pytest.raises(Superseded):
        old.commit(added(old, "late"))
    add_one(root, "late")
    assert runs_in(root) == {"built", "late"}
    assert folders(root) == [open_store(root).generation]


@pytest.mark.parametrize("is_first", [True, False])
def test_order_b_an_add_that_commits_while_a_build_is_under_way(tmp_path: Path, is_first: bool) -> None:
    root = str(tmp_path / "warehouse")
    if not is_first:
        add_one(root, "old")
    with building(root):
        mark = read_mark(root)
        replaces = tuple(Store(root, mark.generation).add_ids()) if mark else ()
        target = new_generation(root)
        with writing(target):
            of_build = added(target, "built", "both", replaces=replaces)
            add_one(root, "late")
            add_one(root, "both")
            target.write_manifest(of_build)
            assert replace(target, mark.generation if mark else "") == 2
    assert runs_in(root) == {"built", "late", "both"}
    first, *others = open_store(root).adds()
    assert first.id == of_build.id, "of a run that both have the build's judgement counts"
    assert [one.replaces for one in others] == [None, None]


def test_a_second_build_is_refused_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.warehouse.generations._PATIENCE_S", 0.1)
    root = str(tmp_path / "warehouse")
    add_one(root, "old")
    with building(root), pytest.raises(UsageError, match="another build of this warehouse is under way") as caught:
        build_one(root, "second")
    assert "wait" in (caught.value.hint or "")
    assert runs_in(root) == {"old"}
    build_one(root, "third")
    assert runs_in(root) == {"third"}


def test_without_locks_the_slower_of_two_builds_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", _no_locks)
    root = str(tmp_path / "warehouse")
    add_one(root, "old")
    before = open_store(root)
    build_one(root, "faster")
    slow = new_generation(root)
    slow.write_manifest(added(slow, "slower", replaces=tuple(before.add_ids())))
    with pytest.raises(UsageError, match="another build was put in force meanwhile"):
        replace(slow, before.generation)
    assert runs_in(root) == {"faster"}


@pytest.mark.parametrize("killed_after", ["mark", "copy"])
def test_what_a_killed_build_left_is_finished_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: str
) -> None:
    root = str(tmp_path / "warehouse")
    add_one(root, "old")
    before = open_store(root)
    target = new_generation(root)
    target.write_manifest(added(target, "built", replaces=tuple(before.add_ids())))
    before.commit(added(before, "late"))
    target.put_in_force(before.generation, new=False)
    if killed_after == "copy":
        late = before.adds()[-1]
        before.copy_file(late.files[0], target)
    assert len(folders(root)) == 2
    add_one(root, "next")
    assert runs_in(root) == {"built", "late", "next"}
    assert folders(root) == [open_store(root).generation]


def test_a_build_that_was_killed_before_its_end_leaves_nothing_after_the_next_command(tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    add_one(root, "old")
    dead = new_generation(root)
    dead.write_manifest(added(dead, "never", replaces=()))
    tidy(root)
    assert runs_in(root) == {"old"}
    assert folders(root) == [open_store(root).generation]


def test_orphans_of_a_killed_add_are_removed_once_nobody_adds(tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    add_one(root, "old")
    store = open_store(root)
    with writing(store):
        kept = store.write_part("run", "n", "etcd", "live-0", pa.table({"run_id": ["live"]}))
        tidy(root)
        assert store.read_file(kept).num_rows == 1, "it belongs to an add that is at work"
    hidden = Path(root, store.generation, "data", "run", ".half.parquet")
    hidden.write_bytes(b"PAR1")
    tidy(root)
    files = [path for path in Path(root).rglob("*") if path.is_file()]
    assert len(files) == 3 and {path.name for path in files} >= {MARK}, "the mark, one manifest, one part"
    assert runs_in(root) == {"old"}


def test_a_dead_generation_in_a_place_without_a_mark_is_no_foreign_folder(tmp_path: Path) -> None:
    dead = new_generation(str(tmp_path))
    dead.write_manifest(added(dead, "never"))
    add_one(str(tmp_path), "first")
    assert runs_in(str(tmp_path)) == {"first"}
    assert folders(str(tmp_path)) == [open_store(str(tmp_path)).generation]


@pytest.mark.parametrize("damage", ["truncated", "empty", "wrong magic", "missing"])
@pytest.mark.parametrize("table", ["run", "rebuilt"])
def test_a_torn_part_is_named_with_the_remedy(tmp_path: Path, table: str, damage: str) -> None:
    root = str(tmp_path / "warehouse")
    store = open_or_make(root)
    one = added(store, "old")
    rebuilt = store.write_file("rebuilt/x.parquet", pa.table({"run_id": ["old"]}))
    store.commit(Add(id=one.id, at="", tables={}, parts=one.parts, rebuilt=rebuilt))
    store.refuse_torn(store.adds(), whole=True)
    path = Path(store.data, one.parts[0].files["run"][0] if table == "run" else rebuilt)
    tear(path, damage)
    with pytest.raises(UsageError, match=f"{path.name}: missing, or no whole Parquet file") as caught:
        store.refuse_torn(store.adds())
    assert "warehouse build" in (caught.value.hint or "")


def test_a_part_that_is_torn_in_the_middle_is_seen_by_reading_it(tmp_path: Path) -> None:
    root = str(tmp_path / "warehouse")
    store = open_or_make(root)
    one = added(store, *(f"{random.Random(n).random()}" for n in range(2000)))
    store.commit(one)
    path = Path(store.data, one.parts[0].files["run"][0])
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(2000) + whole[2100:])
    store.refuse_torn(store.adds())
    with pytest.raises(UsageError, match="missing, or no whole Parquet file"):
        store.refuse_torn(store.adds(), whole=True)


def tear(path: Path, damage: str) -> None:
    whole = path.read_bytes()
    match damage:
        case "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        case "empty":
            path.write_bytes(b"")
        case "wrong magic":
            path.write_bytes(whole[:-4] + b"NOPE")
        case "missing":
            path.unlink()
