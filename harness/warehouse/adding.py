"""Runs and nights brought into a warehouse: added to what is there, or all of them judged again into a new one."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.base.errors import UsageError
from fencepost.harness.campaigns.night.register import REGISTER, read_register
from fencepost.harness.warehouse.executors import executor_cores
from fencepost.harness.warehouse.night_tables import OF_NIGHTS
from fencepost.harness.warehouse.rebuild import DEALT, REBUILT, task
from fencepost.harness.warehouse.sources import Source, night_folders, rows_of_night, sources_below
from fencepost.harness.warehouse.store import Add, NightPart, Part, Store, new_generation, new_id, open_or_make
from fencepost.harness.warehouse.warehouse import REBUILT_NAME, STORED, tuned

#: A task costs Spark about 30 ms and one file per table: it judges several runs, but leaves enough tasks that both the
#: last ones are short and a repeated one costs little. Beyond so many for each core, files would grow with the runs.
_RUNS_PER_TASK: Final = 16
_TASKS_PER_CORE: Final = 4
_TASKS_PER_CORE_MAX: Final = 32
#: What a run costs beside its history, as if its file were so much larger.
_RUN_BYTES: Final = 30_000
#: A night's rows stand in a part of this name instead of a system's.
_ALL_SYSTEMS: Final = "all"


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What an add did: how many runs it brought, how many it had no need to, and how many could not be judged."""

    runs: int
    known: int
    failed: int
    nights: int


def add(spark: SparkSession, paths: Sequence[Path], root: str) -> Added:
    """Bring the runs and nights below these paths into the warehouse at `root`, which is made where there is none.

    Runs that are there already are left as they are, and tables that a run left in today's form are taken without
    judging it again. Nights are read from their registers; a night that went on counts as it is now.

    Raises:
        UsageError: no run and no night is below a path, or `root` holds something else.
    """
    target = open_or_make(root)
    there = {run for one in target.adds() for run in one.runs}
    nights = _nights(paths)
    sources = _sources(paths, may_be_empty=bool(nights))
    fresh = [source for source in sources if source.run_id not in there]
    known = {(part.night, part.shard): part.records for one in target.adds() for part in one.nights}
    grown = [folder for folder in nights if _is_news(folder, known)]
    if not fresh and not grown:
        return Added(runs=0, known=len(sources), failed=0, nights=0)
    made = _bring(spark, target, fresh, grown, again=False)
    return Added(
        runs=len(made.runs), known=len(sources) - len(fresh), failed=len(fresh) - len(made.runs), nights=len(grown)
    )


def build(spark: SparkSession, paths: Sequence[Path], root: str) -> Added:
    """Judge every run below these paths again, by today's checkers, into a warehouse that takes the place of `root`'s.

    Raises:
        UsageError: no run is below a path, none of them could be judged, or `root` holds something else.
    """
    sources = _sources(paths, may_be_empty=False)
    target = new_generation(root)
    try:
        made = _bring(spark, target, sources, _nights(paths), again=True)
        if not made.runs:
            first = next(row for row in _rebuilt(target, made) if row["error"])
            raise UsageError(f"none of {len(sources)} runs could be judged: {first['folder']}: {first['error']}")
        target.put_in_force()
    except BaseException:
        target.discard()
        raise
    return Added(runs=len(made.runs), known=0, failed=len(sources) - len(made.runs), nights=len(made.nights))


def _bring(
    spark: SparkSession, target: Store, sources: Sequence[Source], nights: Sequence[Path], *, again: bool
) -> Add:
    name = new_id()
    spark = tuned(spark.newSession(), len(sources))
    rows = _carry_out(spark, target, sources, name, again=again) if sources else []
    judged: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["error"] is None:
            judged.setdefault((row["night"], row["system"]), []).append(row["run_id"])
    # Listed before the rows of nights are written, which are parts of another kind.
    files = target.files_of(name)
    parts = [
        Part(night=night, system=system, runs=tuple(sorted(runs)), files=files[night, system])
        for (night, system), runs in sorted(judged.items())
    ]
    rebuilt = pa.Table.from_pylist(rows, schema=REBUILT)
    made = Add(
        id=name,
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        tables={name: table.version for name, table in STORED.items()},
        parts=tuple(parts),
        nights=tuple(_write_night(target, folder, name, number) for number, folder in enumerate(nights)),
        rebuilt=target.write_file(f"{REBUILT_NAME}/{name}.parquet", rebuilt) if rows else "",
    )
    target.commit(made)
    return made


def _carry_out(
    spark: SparkSession, target: Store, sources: Sequence[Source], name: str, *, again: bool
) -> list[dict[str, Any]]:
    """One row for each run, after its parts were written by a task."""
    tasks = _tasks(len(sources), executor_cores(spark))
    dealt = spark.createDataFrame(deal(sources, tasks)).repartitionById(tasks, "task")
    work = task(target.root, target.generation, name, again=again)
    return [row.asDict(recursive=True) for row in dealt.mapInArrow(work, from_arrow_schema(REBUILT)).collect()]


def _tasks(runs: int, cores: int) -> int:
    """Return how many tasks share `runs` runs on `cores` cores."""
    wanted = min(-(-runs // _RUNS_PER_TASK), _TASKS_PER_CORE_MAX * cores)
    return min(runs, max(wanted, _TASKS_PER_CORE * cores))


def deal(sources: Sequence[Source], tasks: int) -> pa.Table:
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


def _sources(paths: Sequence[Path], *, may_be_empty: bool) -> list[Source]:
    sources: dict[str, Source] = {}
    for path in paths:
        try:
            below = sources_below(path)
        except UsageError:
            if not may_be_empty:
                raise
            continue
        for source in below:
            sources.setdefault(source.run_id, source)
    return list(sources.values())


def _nights(paths: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys(folder.resolve() for path in paths for folder in night_folders(path)))


def _is_news(folder: Path, known: dict[tuple[str, int], int]) -> bool:
    night, _ = rows_of_night(folder)
    return len(read_register(folder / REGISTER)) > known.get((night.id, night.shards_present[0]), 0)


def _write_night(target: Store, folder: Path, name: str, number: int) -> NightPart:
    records = len(read_register(folder / REGISTER))
    night, rows = rows_of_night(folder)
    files = {
        table: (
            target.write_part(table, night.id, _ALL_SYSTEMS, f"{name}-{number:07d}", OF_NIGHTS[table].of_rows(own)),
        )
        for table, own in rows.items()
    }
    return NightPart(night=night.id, shard=night.shards_present[0], records=records, files=files)


def _rebuilt(target: Store, made: Add) -> Iterator[dict[str, Any]]:
    yield from target.read_file(made.rebuilt).to_pylist()
