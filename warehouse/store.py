"""The tables of a warehouse: one Delta Lake table for each, and the order in which an add or a build commits to them.

    ROOT/<table>/_delta_log/...                                           Delta's log: which files count
    ROOT/<table>/night=<night>/system=<system>/<add>-<number>.parquet     files that Spark's tasks wrote

Each row says which add `added` it. A run counts when its row in the table `run` is there, and its rows in other tables
count when they were added by the same add; a night counts by its row in `nights`. These two tables are committed last,
and only as the next version of what was read before. So an add that is killed brings nothing, and of two that bring the
same run one counts. Rows that count no longer are deleted after that. ROOT is a path, or a URI that delta-rs, pyarrow
and Spark all know (file:, s3:, gs:, hdfs:).
"""

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.verdict.fact_tables import RUN, RUN_ID, TEXT
from fencepost.warehouse.night_tables import (
    ADDED,
    AT,
    NIGHT,
    NIGHTS,
    OF_NIGHTS,
    REBUILT_NAME,
    RECORDS,
    SHARD,
    STORED,
    SYSTEM,
    layout,
)
from fencepost.warehouse.parts import File

#: The mark of a warehouse that a fencepost before Delta tables made.
_OLD_MARK: Final = "warehouse.json"
TABLES: Final = (*STORED, REBUILT_NAME)
_OF_RUNS: Final = tuple(name for name in TABLES if name not in OF_NIGHTS)
#: Tables that are looked at side by side: on a remote store each takes several round trips.
_SIDE_BY_SIDE: Final = 16
#: So often a commit is tried that other writers were faster than; it takes some 10 ms.
_TRIES: Final = 40
_PAUSE_S: Final = 0.2
#: Rows of an add that never ended are removed by `compact` so long after it began to commit, which takes seconds.
_UNFINISHED: Final = timedelta(hours=1)
_AT: Final = "%Y-%m-%dT%H:%M:%SZ"
_ID: Final = "%Y%m%dT%H%M%S"
_TORN: Final = "missing, or no whole Parquet file"
_OLDER: Final = "build the warehouse again from the runs: fencepost warehouse build RESULTS"
_NEWER: Final = "use the newer fencepost, or build the warehouse again from the runs: fencepost warehouse build RESULTS"
#: The version that was read, or none: whoever commits in between makes the commit fail, and it is tried again.
_NEXT_VERSION_ONLY: Final = CommitProperties(max_commit_retries=0)

_Result = TypeVar("_Result")
#: A night's shard, and the add that its rows came by.
NightKey = tuple[str, int]


class _Compacted(msgspec.Struct, frozen=True):
    """What `compact` did: files before and after, and adds that never ended, whose rows it removed."""

    before: int
    after: int
    unfinished: int


class DeltaStore:
    """The Delta tables below one root."""

    def __init__(self, root: str) -> None:
        self.root: Final = absolute(root)
        self.fs, self.base = fs.FileSystem.from_uri(_uri(self.root))

    def delta(self, name: str) -> DeltaTable:
        """Open a table at its newest version.

        Raises:
            UsageError: it is missing or torn, or another fencepost wrote it with other columns.
        """
        try:
            delta = DeltaTable(f"{self.root}/{name}")
        except TableNotFoundError:
            raise UsageError(f"{self.root}: the table {name} is missing", hint=_OLDER) from None
        except DeltaError as error:
            first = str(error).partition("\n")[0]
            raise UsageError(f"{self.root}/{name}: its log cannot be read: {first}", hint=_OLDER) from None
        version, own = int((delta.metadata().description or "0").split()[-1]), layout(name).version
        if version != own:
            raise UsageError(
                f"{self.root}: the table {name} has version {version}, and this fencepost reads {own}",
                hint=_NEWER if version > own else _OLDER,
            )
        return delta

    def files(self, name: str, delta: DeltaTable | None = None, *, whole: bool = False) -> list[str]:
        """The files of a table, relative to its folder.

        Raises:
            UsageError: as `delta`, and for the first torn file. `whole`: after reading the rows, not only the footers.
        """
        delta = self.delta(name) if delta is None else delta
        # Before that, delta-rs writes the root as in a URI.
        files = [uri.rpartition(f"/{name}/")[2] for uri in delta.file_uris()]
        read = pq.read_table if whole else pq.read_metadata

        def is_torn(file: str) -> bool:
            try:
                read(f"{self.base}/{name}/{file}", filesystem=self.fs, **({"partitioning": None} if whole else {}))
            except (OSError, pa.ArrowException):
                return True
            return False

        with ThreadPoolExecutor(1 if whole else _SIDE_BY_SIDE) as pool:
            for file, torn in zip(files, pool.map(is_torn, files), strict=True):
                if torn:
                    raise UsageError(f"{self.root}/{name}/{file}: {_TORN}", hint=_OLDER)
        return files

    def refuse_torn(self) -> None:
        """Raise UsageError for the first file of the warehouse whose rows cannot be read."""
        for name in TABLES:
            self.files(name, whole=True)

    def read(self, name: str, columns: Sequence[str] | None = None, delta: DeltaTable | None = None) -> Any:
        """Read a table, or these columns of it, as an Arrow table; raises as `files`."""
        delta = self.delta(name) if delta is None else delta
        self.files(name, delta)
        schema = layout(name).schema
        names = schema.names if columns is None else list(columns)
        return delta.to_pyarrow_table(columns=names).cast(pa.schema([schema.field(each) for each in names]))

    def runs(self, delta: DeltaTable | None = None) -> dict[str, str]:
        """Every run that counts, with the add that brought it."""
        rows = self.read(RUN.name, [RUN_ID, ADDED], delta)
        return dict(zip(rows[RUN_ID].to_pylist(), rows[ADDED].to_pylist(), strict=True))

    def nights(self, delta: DeltaTable | None = None) -> dict[NightKey, tuple[int, str]]:
        """Every night's shard that counts: how many records of its register are known, and by which add."""
        rows = self.read(NIGHTS.name, [NIGHT, SHARD, RECORDS, ADDED], delta).to_pylist()
        return {(row[NIGHT], row[SHARD]): (row[RECORDS], row[ADDED]) for row in rows}

    def add_runs(self, added: str, files: Iterable[File], runs: Any, rebuilt: Any) -> set[str]:
        """Commit the runs of one add; return those of them that another add has brought meanwhile."""
        self._append(added, files, rebuilt)

        def mark() -> set[str]:
            delta = self.delta(RUN.name)
            twice = sorted(set(runs[RUN_ID].to_pylist()) & self.runs(delta).keys())
            rest = runs
            if twice:
                self._delete_runs(_OF_RUNS, [(run, added) for run in twice])
                rest = runs.filter(pc.invert(pc.is_in(runs[RUN_ID], pa.array(twice, TEXT))))
            if len(rest):
                write_deltalake(delta, rest, mode="append", commit_properties=_NEXT_VERSION_ONLY)
            return set(twice)

        return self._until_first(mark)

    def replace_runs(
        self, added: str, files: Iterable[File], runs: Any, rebuilt: Any, before: Mapping[str, str]
    ) -> int:
        """Commit the runs of a build in the place of those `before`; return how many adds came meanwhile, and stay."""
        self._append(added, files, rebuilt)
        own = set(runs[RUN_ID].to_pylist())

        def mark() -> tuple[dict[str, str], dict[str, str]]:
            delta = self.delta(RUN.name)
            now = self.runs(delta)
            kept = {run: by for run, by in now.items() if run not in own and before.get(run) != by}
            rows = self.read(RUN.name, delta=delta)
            rest = rows.filter(pc.is_in(rows[RUN_ID], pa.array(list(kept), TEXT)))
            whole = pa.concat_tables([runs, rest])
            write_deltalake(delta, whole, mode="overwrite", commit_properties=_NEXT_VERSION_ONLY)
            return now, kept

        now, kept = self._until_first(mark)
        dead = {run: by for run, by in now.items() if kept.get(run) != by}
        gone = set(dead.values()) - set(kept.values())
        if gone:
            self._delete(_OF_RUNS, f"{ADDED} in ({_texts(gone)})")
        self._delete_runs(_OF_RUNS, [(run, by) for run, by in dead.items() if by not in gone])
        return len(set(kept.values()))

    def set_nights(
        self, added: str, rows: Mapping[str, Any], before: Mapping[NightKey, tuple[int, str]] | None = None
    ) -> None:
        """Commit what one add read of nights, in the place of what is known of them.

        `rows` are the tables of nights by name. `before`: what a build found there, and does not keep.
        """
        nights = rows[NIGHTS.name]
        if not len(nights) and not before:
            return
        for name, table in rows.items():
            if name != NIGHTS.name and len(table):
                write_deltalake(self.delta(name), table, mode="append")

        def mark() -> dict[NightKey, set[str]]:
            delta = self.delta(NIGHTS.name)
            now = self.nights(delta)
            own = [row for row in nights.to_pylist() if now.get(_key(row), (0, ""))[0] <= row[RECORDS]]
            keys = set(map(_key, own))
            kept = {key for key, known in now.items() if key not in keys and (before or {}).get(key) != known}
            rest = [row for row in self.read(NIGHTS.name, delta=delta).to_pylist() if _key(row) in kept]
            whole = pa.Table.from_pylist([*own, *rest], schema=nights.schema)
            write_deltalake(delta, whole, mode="overwrite", commit_properties=_NEXT_VERSION_ONLY)
            dead = {key: {by} for key, (_, by) in now.items() if key not in kept}
            for key in set(map(_key, nights.to_pylist())) - keys:
                dead[key] = {added}
            return dead

        for (night, shard), adds in self._until_first(mark).items():
            of = f"{NIGHT} = {_text(night)} and {SHARD} = {shard} and {ADDED} in ({_texts(adds)})"
            self._delete([name for name in OF_NIGHTS if name != NIGHTS.name], of)

    def compact(self) -> _Compacted:
        """Make few files of many, and remove rows of adds that never ended, and those that a killed build left."""
        before = sum(len(self.delta(name).file_uris()) for name in TABLES)
        runs = self.runs()
        live = {*runs.values(), *(by for _, by in self.nights().values())}
        rebuilt = self.read(REBUILT_NAME, [ADDED, AT])
        began = dict(zip(rebuilt[ADDED].to_pylist(), rebuilt[AT].to_pylist(), strict=True))
        limit = datetime.now(UTC) - _UNFINISHED
        unfinished = set()
        for name in TABLES:
            adds = set(pc.unique(self.read(name, [ADDED])[ADDED]).to_pylist()) - live
            # An add of nights alone has its name from when it commits.
            late = {by for by in adds if began.get(by, f"{limit:{_AT}}") <= f"{limit:{_AT}}" and by < f"{limit:{_ID}}"}
            if late:
                self._delete([name], f"{ADDED} in ({_texts(late)})")
            unfinished |= late
            if name in _OF_RUNS:
                pairs = self.read(name, [RUN_ID, ADDED]).group_by([RUN_ID, ADDED]).aggregate([]).to_pylist()
                there = [(row[RUN_ID], row[ADDED]) for row in pairs if row[RUN_ID] in runs and row[ADDED] in live]
                self._delete_runs([name], [(run, by) for run, by in there if runs[run] != by])
            self._until_first(lambda name=name: self.delta(name).optimize.compact())  # type: ignore[misc]
        return _Compacted(before, sum(len(self.delta(name).file_uris()) for name in TABLES), len(unfinished))

    def vacuum(self, keep_hours: int) -> int:
        """Remove files that no version of the last `keep_hours` names; return how many."""
        options: dict[str, Any] = {"retention_hours": keep_hours, "enforce_retention_duration": False, "full": True}
        return sum(len(self.delta(name).vacuum(dry_run=False, **options)) for name in TABLES)

    def make(self) -> None:
        """Make the tables that are not there yet; `run` comes last, so that a warehouse has all of them."""

        def create(name: str) -> None:
            own = layout(name)
            DeltaTable.create(
                f"{self.root}/{name}",
                schema=Schema.from_arrow(own.schema),
                partition_by=list(own.parted_by),
                mode="ignore",
                name=name,
                description=f"version {own.version}",
            )

        self.fs.create_dir(self.base, recursive=True)
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(lambda name: self._until_first(lambda: create(name)), (n for n in TABLES if n != RUN.name)))
        self._until_first(lambda: create(RUN.name))

    def clear(self, added: str) -> None:
        """Remove a warehouse that cannot be read, all but the files of this build."""
        for info in self.fs.get_file_info(fs.FileSelector(self.base, recursive=True, allow_not_found=True)):
            if info.type is fs.FileType.File and not info.base_name.startswith(f"{added}-"):
                self.fs.delete_file(info.path)

    def _append(self, added: str, files: Iterable[File], rebuilt: Any) -> None:
        """Commit to all tables of runs but `run`."""
        self._until_first(lambda: write_deltalake(self.delta(REBUILT_NAME), rebuilt, mode="append"))
        by_table: dict[str, list[File]] = {}
        for file in files:
            by_table.setdefault(file.table, []).append(file)

        def commit(name: str) -> None:
            own = layout(name)
            actions: list[AddAction | RemoveAction] = [_action(file, added) for file in by_table[name]]
            schema, parted_by = Schema.from_arrow(own.schema), list(own.parted_by)
            self._until_first(lambda: self.delta(name).create_write_transaction(actions, "append", schema, parted_by))

        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(commit, by_table))

    def _delete(self, names: Iterable[str], predicate: str) -> None:
        """Delete rows from these tables, but from `run`, whose rows are replaced in one commit with others."""
        own = [name for name in names if name != RUN.name]
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(lambda name: self._until_first(lambda: self.delta(name).delete(predicate)), own))

    def _delete_runs(self, names: Iterable[str], runs: Iterable[tuple[str, str]]) -> None:
        """Delete the rows of these runs that came by these adds."""
        by_add: dict[str, set[str]] = {}
        for run, by in runs:
            by_add.setdefault(by, set()).add(run)
        for by, own in by_add.items():
            self._delete(names, f"{ADDED} = {_text(by)} and {RUN_ID} in ({_texts(own)})")

    def _until_first(self, commit: Callable[[], _Result]) -> _Result:
        """Commit, again and again while other writers are faster."""
        for _ in range(_TRIES):
            try:
                return commit()
            except CommitFailedError:
                time.sleep(random.uniform(0, _PAUSE_S))
        raise HarnessError(f"{self.root}: other writers were faster, {_TRIES} times", hint="try again")


def open_store(root: str) -> DeltaStore:
    """The warehouse at `root`.

    Raises:
        UsageError: nothing is there, or something that this fencepost cannot read.
    """
    if not is_warehouse(root):
        raise UsageError(f"{root}: no warehouse is here", hint="make one: fencepost warehouse build RESULTS")
    return DeltaStore(root)


def is_warehouse(root: str) -> bool:
    """Whether a warehouse is at `root`; False where nothing is. Raises UsageError for anything else."""
    store = DeltaStore(root)
    kind = store.fs.get_file_info(store.base).type
    if kind is fs.FileType.NotFound:
        return False
    entries = store.fs.get_file_info(fs.FileSelector(store.base)) if kind is fs.FileType.Directory else []
    names = {entry.base_name for entry in entries if not entry.base_name.startswith(".")}
    if _OLD_MARK in names:
        raise UsageError(
            f"{root}: an earlier fencepost made this warehouse, and this one reads only Delta tables", hint=_OLDER
        )
    # Tables that are not ready are a warehouse that is made right now.
    if kind is not fs.FileType.Directory or not names <= set(TABLES):
        raise NotAWarehouse(f"{root}: no warehouse is here, but something else", hint="give another place: --warehouse")
    return bool(DeltaTable.is_deltatable(f"{store.root}/{RUN.name}"))


class NotAWarehouse(UsageError):
    """Something that is no warehouse, not even a torn or an old one: a build must not replace it."""


def new_id() -> str:
    """A name that no other add has, and that sorts by time, also among the adds of one second."""
    now = datetime.now(UTC)
    return f"{now:{_ID}}.{now.microsecond:06d}-{uuid.uuid4().hex[:12]}"


def commit_time() -> str:
    """The time at which an add begins to commit, as the column `at` of `rebuilt`."""
    return f"{datetime.now(UTC):{_AT}}"


def spark_name(root: str) -> str:
    """The place as Spark names it: its connector for S3 goes by another scheme."""
    return root.replace("s3://", "s3a://", 1)


def absolute(root: str) -> str:
    """The place of a warehouse as executors must name it: an absolute path, or the URI that it is."""
    return root.replace("s3a://", "s3://", 1) if "://" in root else str(Path(root).absolute())


def _uri(root: str) -> str:
    return root if "://" in root else Path(root).absolute().as_uri()


def _text(value: str) -> str:
    """A text as delta-rs writes it in a predicate."""
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(_text, sorted(values)))


def _key(row: Mapping[str, Any]) -> NightKey:
    return row[NIGHT], row[SHARD]


def _action(file: File, added: str) -> AddAction:
    """What makes a file count. Its statistics say which add it is of, so that no other's delete reads it."""
    bounds = {ADDED: added}
    stats = {"numRecords": file.rows, "minValues": bounds, "maxValues": bounds, "nullCount": {ADDED: 0}}
    values = {NIGHT: file.night, SYSTEM: file.system}
    return AddAction(file.path, file.size, values, time.time_ns() // 1_000_000, True, json.dumps(stats))
