"""The warehouse of many runs: their facts and verdicts derived again, and from these what spans runs.

    OUT/facts/<table>/<run id>.parquet   the tables of every run (docs/facts-tables.md), one file each
    OUT/rebuilt/                         one row for each run: what came of judging it again, and what changed
    OUT/across/<table>/                  what spans runs (`harness.warehouse.across`)
    OUT/warehouse.json                   the mark of a warehouse, and how many runs it holds

Spark has one task for each run, which calls the function that the run itself called; so a checker that changed judges
thousands of stored histories again. A warehouse is made beside the old one and takes its place when it is whole.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.base.errors import UsageError
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict.run_tables import TABLES
from fencepost.harness.warehouse.across import ACROSS
from fencepost.harness.warehouse.rebuild import REBUILT, task

MARK: Final = "warehouse.json"
FORMAT: Final = 1
#: Its folders.
FACTS: Final = "facts"
REBUILT_NAME: Final = "rebuilt"
_ACROSS: Final = "across"
#: Up to so many runs, plans are interpreted and not adapted: compiling them costs more than their rows.
_FEW_RUNS: Final = 50


class Warehouse:
    """A warehouse at a path that all executors reach."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        if not (path / MARK).is_file():
            raise UsageError(f"{path}: no warehouse is here", hint="make one: fencepost warehouse build RESULTS")
        self.path: Final = path
        runs = store.read_json(path / MARK).get("runs", 0)
        self._spark: Final = _tuned(spark.newSession(), int(runs))

    def table(self, name: str) -> DataFrame:
        """A table by its name: of facts, `rebuilt`, or one that spans runs."""
        if name in ACROSS:
            return self._spark.read.parquet(str(self.path / _ACROSS / name))
        if name == REBUILT_NAME:
            return self._spark.read.schema(from_arrow_schema(REBUILT)).parquet(str(self.path / REBUILT_NAME))
        return _facts(self._spark, self.path / FACTS, name)

    def sql(self, query: str) -> DataFrame:
        """The answer to a query, in which every table stands under its name."""
        for name in (*TABLES, *ACROSS, REBUILT_NAME):
            self.table(name).createOrReplaceTempView(name)
        return self._spark.sql(query)

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Every episode of a superseded leader with its run, one after the other."""
        runs = self.table("run").select("run_id", "folder", "system", "version")
        episodes = self.table("zombie_episodes").join(runs, "run_id")
        return self._each(episodes.orderBy("system", "version", "folder", "superseded_ns"))

    def changes(self) -> Iterator[dict[str, Any]]:
        """Every verdict that reads otherwise than the stored one."""
        changed = self.table(REBUILT_NAME).select("run_id", "folder", F.explode("changes").alias("change"))
        return self._each(changed.select("run_id", "folder", "change.*").orderBy("folder", "guarantee"))

    def failures(self) -> Iterator[dict[str, Any]]:
        """Every run that could not be judged, with the reason."""
        return self._each(self.table(REBUILT_NAME).where(F.col("error").isNotNull()).orderBy("folder"))

    @staticmethod
    def _each(frame: DataFrame) -> Iterator[dict[str, Any]]:
        return (row.asDict(recursive=True) for row in frame.toLocalIterator())


def run_folders(results: Path) -> list[Path]:
    """Every run below `results`, or `results` itself; raises UsageError when there is none."""
    plans = [results / store.PLAN] if (results / store.PLAN).is_file() else sorted(results.glob(f"**/{store.PLAN}"))
    histories = (store.HISTORY, store.HISTORY_LINES)
    runs = [p.parent.resolve() for p in plans if any((p.parent / name).is_file() for name in histories)]
    if not runs:
        raise UsageError(f"{results}: no run is kept here", hint="give the folder that `fencepost run` kept runs in")
    return runs


def build(spark: SparkSession, folders: Sequence[Path], out: Path) -> Warehouse:
    """Judge these runs again and write the warehouse `out`; raises UsageError where something else is in its place."""
    if out.exists() and not (out / MARK).is_file():
        raise UsageError(f"{out} exists and is no warehouse", hint="give another folder with --out")
    # Spark leaves out what begins with a dot or an underscore.
    new = out.with_name(f"{out.name}.building-{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        _build(_tuned(spark.newSession(), len(folders)), folders, new)
        store.write_json(new / MARK, {"format": FORMAT, "runs": len(folders)})
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Warehouse(spark, out)


def _build(spark: SparkSession, folders: Sequence[Path], out: Path) -> None:
    facts = out / FACTS
    for name in TABLES:
        (facts / name).mkdir(parents=True)
    work = task([str(folder) for folder in folders], str(facts))
    numbers = spark.range(0, len(folders), 1, len(folders))
    numbers.mapInArrow(work, from_arrow_schema(REBUILT)).write.parquet(str(out / REBUILT_NAME))
    if not any((facts / "run").iterdir()):
        (first,) = spark.read.parquet(str(out / REBUILT_NAME)).select("folder", "error").take(1)
        raise UsageError(f"none of {len(folders)} runs could be judged: {first['folder']}: {first['error']}")
    write_across(spark, out)


def write_across(spark: SparkSession, out: Path) -> None:
    """Compute what spans runs from the runs' tables of the warehouse `out`, and write it beside them."""
    tables = {name: _facts(spark, out / FACTS, name) for name in TABLES}
    for name, step in ACROSS.items():
        frame = step(tables).coalesce(1)
        frame.sortWithinPartitions(*frame.columns[:5]).write.parquet(str(out / _ACROSS / name))


def _facts(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    return spark.read.schema(from_arrow_schema(TABLES[name].stored_schema)).parquet(str(folder / name))


def _tuned(spark: SparkSession, runs: int) -> SparkSession:
    """A session of its own for its own settings; it shares the JVM and its executors."""
    few = runs <= _FEW_RUNS
    spark.conf.set("spark.sql.adaptive.enabled", str(not few).lower())
    spark.conf.set("spark.sql.codegen.wholeStage", str(not few).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")
    if few:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark
