"""Runs and nights brought into a warehouse: added to what is there, or all of them judged again into a new one."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.campaigns.night.register import REGISTER, read_register
from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.warehouse.executors import executor_cores
from fencepost.warehouse.generations import building, replace, tidy, writing
from fencepost.warehouse.night_tables import OF_NIGHTS
from fencepost.warehouse.rebuild import DEALT, REBUILT, stored_verdicts, task
from fencepost.warehouse.sources import Source, night_folders, rows_of_night, sources_below
from fencepost.warehouse.store import (
    Add,
    NightPart,
    Part,
    Store,
    Superseded,
    new_generation,
    new_id,
    open_or_make,
    read_mark,
)
from fencepost.warehouse.warehouse import REBUILT_NAME, STORED, tuned

#: A task costs Spark about 30 ms and one file per table: it judges several runs, but leaves enough tasks that both the
#: last ones are short and a repeated one costs little. Beyond so many for each core, files would grow with the runs.
_RUNS_PER_TASK: Final = 16
_TASKS_PER_CORE: Final = 4
_TASKS_PER_CORE_MAX: Final = 32
#: What a run costs beside its history, as if its file were so much larger.
_RUN_BYTES: Final = 30_000
#: So often an add begins again when a build puts another generation in force; a build takes longer than an add.
_TRIES: Final = 5
#: So many runs that could not be judged a message names, where none could; of more, their number.
_NAMED: Final = 5
#: A night's rows stand in a part of this name instead of a system's.
_ALL_SYSTEMS: Final = "all"


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
    brings neither writes nothing. If a build puts another generation in force meanwhile, the add begins again with it.

    Raises:
        UsageError: no run and no night is below a path, none of the runs could be judged, a part of the warehouse is
            torn, or `root` holds something else.
        HarnessError: builds put other generations in force again and again.
    """
    brought: set[str] = set()
    for _ in range(_TRIES):
        tidy(root)
        target = open_or_make(root)
        try:
            with writing(target):
                return _add(spark, paths, target, brought)
        except Superseded:
            continue
        except Exception:
            # A build may have removed the files under the hands of a task.
            if target.is_in_force():
                raise
        finally:
            if not target.is_in_force():
                tidy(root)
    raise HarnessError(f"{root}: {_TRIES} builds put other generations in force during this add", hint="add again")


def _add(spark: SparkSession, paths: Sequence[Path], target: Store, brought: set[str]) -> Added:
    """Add to one generation; `brought` are runs of earlier tries, which a build may have carried over, and grows."""
    adds = target.adds()
    target.refuse_torn(adds)
    there = {run for one in adds for run in one.runs}
    nights = _nights(paths)
    sources, half = _sources(paths, may_be_empty=bool(nights))
    fresh = [source for source in sources if source.run_id not in there]
    known = {(part.night, part.shard): part.records for one in adds for part in one.nights}
    grown = [folder for folder in nights if _is_news(folder, known)]
    changes = _still_changed(target, adds, [source for source in sources if source.run_id in there])
    made: set[str] = set()
    failures: list[tuple[str, str]] = []
    if fresh or grown:
        bring = _bring(spark, target, fresh, grown, again=False)
        if not target.is_in_force():
            raise Superseded
        failures, made = bring.failures, bring.add.runs
        if failures and not made and not grown and len(failures) == len(sources):
            raise _none_judged(failures, half)
        brought |= made
        if made or grown:
            target.commit(bring.add)
        changes += bring.changes
    own = {source.run_id for source in sources} & brought
    return Added(
        runs=len(own),
        known=len(sources) - len(failures) - len(own),
        nights=len(grown),
        half=half,
        failures=tuple(failures),
        changes=tuple(changes),
    )


def build(spark: SparkSession, paths: Sequence[Path], root: str) -> Added:
    """Judge every run below these paths again, by today's checkers, into a warehouse that takes the place of `root`'s.

    Runs of other results are not kept; what is added while the build runs is.

    Raises:
        UsageError: no run is below a path, none of them could be judged, another build of this warehouse is under way,
            or `root` holds something else.
    """
    sources, half = _sources(paths, may_be_empty=False)
    with building(root):
        mark = read_mark(root)
        before = Store(root, mark.generation) if mark is not None and mark.generation else None
        replaced = before.add_ids() if before else []
        target = new_generation(root)
        try:
            with writing(target):
                bring = _bring(spark, target, sources, _nights(paths), again=True)
                if not bring.add.runs:
                    raise _none_judged(bring.failures, half)
                kept = bring.add.runs | {source.run_id for source in sources}
                dropped = {run for one in _readable(before, replaced) for run in one.runs} - kept
                target.write_manifest(msgspec.structs.replace(bring.add, replaces=tuple(replaced)))
                carried = replace(target, before.generation if before else "")
        except Superseded:
            raise UsageError(f"{root}: another build of this warehouse was faster", hint="build again") from None
        except BaseException:
            if not target.is_in_force():
                target.remove()
            raise
    return Added(
        runs=len(bring.add.runs),
        nights=len(bring.add.nights),
        half=half,
        dropped=len(dropped),
        carried=carried,
        failures=tuple(bring.failures),
        changes=tuple(bring.changes),
    )


def _readable(store: Store | None, names: Sequence[str]) -> Iterator[Add]:
    """The adds of these names, without those that are torn or of another format: a build replaces them."""
    for name in names if store else ():
        with contextlib.suppress(UsageError, OSError):
            assert store is not None
            yield store.read_add(name)


def _none_judged(failures: Sequence[tuple[str, str]], half: int) -> UsageError:
    if not failures:
        return UsageError(f"no whole run is below these paths, but {half} half runs of lost attempts")
    named = [f"{folder}: {why}" for folder, why in sorted(failures)[:_NAMED]]
    more = [f"and {len(failures) - _NAMED} more"] if len(failures) > _NAMED else []
    return UsageError(f"none of {len(failures)} runs could be judged: {'; '.join([*named, *more])}")


def _still_changed(target: Store, adds: Sequence[Add], sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The verdicts that differed when these runs were added, and still differ from what the run's folder says."""
    by_id = {source.run_id: source for source in sources}
    changes = {}
    for one in adds:
        rows = target.read_file(one.rebuilt).to_pylist() if one.rebuilt else []
        changes.update({row["run_id"]: row for row in rows if row["run_id"] in by_id and row["error"] is None})
    lines: list[dict[str, Any]] = []
    for run_id, row in changes.items():
        if row["changes"]:
            now: Mapping[str | None, str | None] = {}
            with contextlib.suppress(UsageError):
                now = stored_verdicts(Path(by_id[run_id].folder))
            lines += [line for line in _changes(row) if now.get(line["guarantee"]) != line["after"]]
    return lines


def _changes(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"run_id": row["run_id"], "folder": row["folder"], **change} for change in row["changes"]]


class _Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What was written for an add, before its manifest is."""

    add: Add
    failures: list[tuple[str, str]]
    changes: list[dict[str, Any]]


def _bring(
    spark: SparkSession, target: Store, sources: Sequence[Source], nights: Sequence[Path], *, again: bool
) -> _Brought:
    name = new_id()
    spark = tuned(spark.newSession(), len(sources))
    rows = _carry_out(spark, target, sources, name, again=again) if sources else []
    judged: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["error"] is None:
            judged.setdefault((row["night"], row["system"]), []).append(row["run_id"])
    # Listed before the rows of nights are written, which are parts of another kind.
    files = target.files_of(name)
    if judged.keys() - files.keys():
        # A build has removed them.
        raise Superseded
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
        rebuilt=target.write_file(f"{REBUILT_NAME}/{name}.parquet", rebuilt) if parts or (rows and nights) else "",
    )
    failures = [(row["folder"], row["error"]) for row in rows if row["error"] is not None]
    return _Brought(add=made, failures=failures, changes=[line for row in rows for line in _changes(row)])


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


def _sources(paths: Sequence[Path], *, may_be_empty: bool) -> tuple[list[Source], int]:
    """The runs below these paths, and how many half runs are left out."""
    sources: dict[str, Source] = {}
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
