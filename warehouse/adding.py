"""Runs and nights brought into a warehouse: added to what is there, or all of them judged again into a new one."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.campaigns.night.register import REGISTER, read_register
from fencepost.harness.base.errors import UsageError
from fencepost.harness.verdict.fact_tables import RUN
from fencepost.warehouse.night_tables import ADDED, AT, OF_NIGHTS, REBUILT, REBUILT_NAME, RECORDS, SHARD, layout
from fencepost.warehouse.parts import File
from fencepost.warehouse.rebuild import DEALT, DONE, stored_verdicts, task
from fencepost.warehouse.sources import RunSource, night_folders, rows_of_night, sources_below
from fencepost.warehouse.spark_session import executor_cores
from fencepost.warehouse.store import DeltaStore, NightKey, NotAWarehouse, commit_time, is_warehouse, new_id
from fencepost.warehouse.warehouse import tuned

#: A task costs Spark about 30 ms and one file per table: it judges several runs, but leaves enough tasks that both the
#: last ones are short and a repeated one costs little. Beyond so many for each core, files would grow with the runs.
_RUNS_PER_TASK: Final = 16
_TASKS_PER_CORE: Final = 4
_TASKS_PER_CORE_MAX: Final = 32
#: What a run costs beside its history, as if its file were so much larger.
_RUN_BYTES: Final = 30_000
#: So many runs that could not be judged a message names, where none could; of more, their number.
_NAMED: Final = 5


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What an add or a build did.

    `known` are runs that were there already, `half` half runs of lost attempts, which are left out. `failures` are the
    folder and the reason of each run that could not be judged, `changes` the verdicts that differ from the stored ones
    (run_id, folder, guarantee, before, after). `dropped` are runs of other results, which a build does not keep;
    `carried` are adds that came while it ran, which it keeps.
    """

    runs: int
    known: int = 0
    nights: int = 0
    half: int = 0
    dropped: int = 0
    carried: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    changes: tuple[dict[str, Any], ...] = ()

    @property
    def failed(self) -> int:
        return len(self.failures)


def add(spark: SparkSession, paths: Sequence[Path], root: str) -> Added:
    """Bring the runs and nights below these paths into the warehouse at `root`, which is made where there is none.

    Runs that are there already are left as they are, and tables that a run left in today's form are taken without
    judging it again. Nights are read from their registers; a night that went on counts as it is now. An add that
    brings neither writes nothing.

    Raises:
        UsageError: no run and no night is below a path, none of the runs could be judged, a part of the warehouse is
            torn, or `root` holds something else.
        HarnessError: other writers were faster again and again.
    """
    target = DeltaStore(root)
    if not is_warehouse(root):
        target.make()
    there, known = target.runs(), target.nights()
    nights = _nights(paths)
    sources, half = _sources(paths, may_be_empty=bool(nights))
    fresh = [source for source in sources if source.run_id not in there]
    grown = [folder for folder in nights if _is_news(folder, known)]
    changes = _still_changed(target, there, sources)
    brought: set[str] = set()
    failures: list[tuple[str, str]] = []
    if fresh or grown:
        done = _judge(spark, target, fresh, again=False)
        failures, brought = done.failures, done.run_ids
        if failures and not brought and not grown and len(failures) == len(sources):
            raise _none_judged(failures, half)
        if brought:
            brought -= target.add_runs(done.added, done.files, done.runs, done.rebuilt)
        if grown:
            target.set_nights(done.added, _rows_of_nights(grown, done.added))
        changes += done.changes
    return Added(
        runs=len(brought),
        known=len(sources) - len(failures) - len(brought),
        nights=len(grown),
        half=half,
        failures=tuple(failures),
        changes=tuple(changes),
    )


def build(spark: SparkSession, paths: Sequence[Path], root: str) -> Added:
    """Judge every run below these paths again, by today's checkers, into a warehouse that takes the place of `root`'s.

    Runs of other results are not kept; what is added while the build runs is. A warehouse that is torn or of an earlier
    fencepost is replaced as a whole.

    Raises:
        UsageError: no run is below a path, none of them could be judged, or `root` holds something else.
        HarnessError: other writers were faster again and again.
    """
    sources, half = _sources(paths, may_be_empty=False)
    target = DeltaStore(root)
    before: dict[str, str] = {}
    nights_before: dict[NightKey, tuple[int, str]] = {}
    try:
        is_readable = is_warehouse(root)
        if is_readable:
            target.refuse_torn()
            before, nights_before = target.runs(), target.nights()
    except NotAWarehouse:
        raise
    except UsageError:
        is_readable = False
    done = _judge(spark, target, sources, again=True)
    if not done.run_ids:
        raise _none_judged(done.failures, half)
    if not is_readable:
        target.clear(done.added)
    target.make()
    nights = _nights(paths)
    carried = target.replace_runs(done.added, done.files, done.runs, done.rebuilt, before)
    target.set_nights(done.added, _rows_of_nights(nights, done.added), nights_before)
    return Added(
        runs=len(done.run_ids),
        nights=len(nights),
        half=half,
        dropped=len(before.keys() - done.run_ids - {source.run_id for source in sources}),
        carried=carried,
        failures=tuple(done.failures),
        changes=tuple(done.changes),
    )


def _none_judged(failures: Sequence[tuple[str, str]], half: int) -> UsageError:
    if not failures:
        return UsageError(f"no whole run is below these paths, but {half} half runs of lost attempts")
    named = [f"{folder}: {why}" for folder, why in sorted(failures)[:_NAMED]]
    more = [f"and {len(failures) - _NAMED} more"] if len(failures) > _NAMED else []
    return UsageError(f"none of {len(failures)} runs could be judged: {'; '.join([*named, *more])}")


def _still_changed(target: DeltaStore, there: Mapping[str, str], sources: Sequence[RunSource]) -> list[dict[str, Any]]:
    """The verdicts that differed when these runs were added, and still differ from what the run's folder says."""
    by_id = {source.run_id: source for source in sources if source.run_id in there}
    lines: list[dict[str, Any]] = []
    for row in target.read(REBUILT_NAME).to_pylist() if by_id else ():
        if row["changes"] and row["run_id"] in by_id and there[row["run_id"]] == row[ADDED]:
            now: Mapping[str | None, str | None] = {}
            with contextlib.suppress(UsageError):
                now = stored_verdicts(Path(by_id[row["run_id"]].folder))
            lines += [line for line in _changes(row) if now.get(line["guarantee"]) != line["after"]]
    return lines


def _changes(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"run_id": row["run_id"], "folder": row["folder"], **change} for change in row["changes"]]


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks made of the runs of an add named `added`: files that do not count yet, and rows to commit."""

    added: str
    files: list[File]
    runs: pa.Table
    rows: list[dict[str, Any]]

    @property
    def run_ids(self) -> set[str]:
        return set(self.runs["run_id"].to_pylist())

    @property
    def failures(self) -> list[tuple[str, str]]:
        return [(row["folder"], row["error"]) for row in self.rows if row["error"] is not None]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [line for row in self.rows for line in _changes(row)]

    @property
    def rebuilt(self) -> pa.Table:
        more = {ADDED: self.added, AT: commit_time()}
        return pa.Table.from_pylist([{**row, **more} for row in self.rows], schema=layout(REBUILT_NAME).schema)


def _judge(spark: SparkSession, target: DeltaStore, sources: Sequence[RunSource], *, again: bool) -> _Judged:
    """Carry out tasks over these runs, which write their files."""
    added, rows = new_id(), []
    if sources:
        spark = tuned(spark.newSession(), len(sources))
        tasks = _tasks(len(sources), executor_cores(spark))
        dealt = spark.createDataFrame(deal(sources, tasks)).repartitionById(tasks, "task")
        done = dealt.mapInArrow(task(target.root, added, again=again), from_arrow_schema(DONE))
        rows = [row.asDict(recursive=True) for row in done.collect()]
    runs = [pa.ipc.open_stream(row["runs"]).read_all() for row in rows if row["runs"]]
    return _Judged(
        added=added,
        files=[File(**file) for row in rows for file in row["files"] or ()],
        runs=pa.concat_tables(runs) if runs else layout(RUN.name).schema.empty_table(),
        rows=[{name: row[name] for name in REBUILT.names} for row in rows],
    )


def _tasks(runs: int, cores: int) -> int:
    """Return how many tasks share `runs` runs on `cores` cores."""
    wanted = min(-(-runs // _RUNS_PER_TASK), _TASKS_PER_CORE_MAX * cores)
    return min(runs, max(wanted, _TASKS_PER_CORE * cores))


def deal(sources: Sequence[RunSource], tasks: int) -> pa.Table:
    """Deal the runs to tasks that take equally long (-> DEALT).

    A run that is larger than a task's share has a task of its own, which comes first. The others are dealt night by
    night, since a task writes files of its own for each of its nights.
    """
    sizes = {source.run_id: source.size + _RUN_BYTES for source in sources}
    share = sum(sizes.values()) / tasks
    alone = [source for source in sources if sizes[source.run_id] > share][: tasks - 1]
    own = {source.run_id for source in alone}
    others = sorted((s for s in sources if s.run_id not in own), key=lambda s: (s.night, s.folder))
    each = sum(sizes[source.run_id] for source in others) / (tasks - len(alone))
    dealt, before = list(enumerate(alone)), 0
    for source in others:
        middle = before + sizes[source.run_id] / 2
        dealt.append((len(alone) + int(middle / each), source))
        before += sizes[source.run_id]
    return pa.Table.from_pylist(
        [{"task": n, "number": i, **msgspec.structs.asdict(source)} for i, (n, source) in enumerate(dealt)],
        schema=DEALT,
    )


def _sources(paths: Sequence[Path], *, may_be_empty: bool) -> tuple[list[RunSource], int]:
    """The runs below these paths, and how many half runs are left out."""
    sources: dict[str, RunSource] = {}
    half: set[str] = set()
    for path in paths:
        try:
            below = sources_below(path)
        except UsageError:
            if not may_be_empty:
                raise
            continue
        for source in below:
            if source.is_half:
                half.add(source.run_id)
            else:
                sources.setdefault(source.run_id, source)
    return list(sources.values()), len(half)


def _nights(paths: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys(folder.resolve() for path in paths for folder in night_folders(path)))


def _is_news(folder: Path, known: Mapping[NightKey, tuple[int, str]]) -> bool:
    night, _ = rows_of_night(folder)
    return len(read_register(folder / REGISTER)) > known.get((night.id, night.shards_present[0]), (0, ""))[0]


def _rows_of_nights(folders: Sequence[Path], added: str) -> dict[str, pa.Table]:
    """The rows of these nights by table; of two copies of a shard, the one that knows more."""
    shards: dict[NightKey, tuple[int, Mapping[str, list[dict[str, Any]]]]] = {}
    for folder in folders:
        records = len(read_register(folder / REGISTER))
        night, rows = rows_of_night(folder)
        key = (night.id, night.shards_present[0])
        if key not in shards or records > shards[key][0]:
            shards[key] = (records, rows)
    return {
        name: pa.Table.from_pylist(
            [
                {**row, SHARD: shard, RECORDS: records, ADDED: added}
                for (_, shard), (records, rows) in shards.items()
                for row in rows[name]
            ],
            schema=layout(name).schema,
        )
        for name in OF_NIGHTS
    }
