"""A warehouse as tables: of facts, of nights, and what spans runs, all by name and in SQL."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.base.errors import UsageError
from fencepost.harness.judging.run_facts import stored_tables
from fencepost.harness.verdict.fact_tables import RUN_ID, FactTable
from fencepost.warehouse.executors import shuffle_partitions
from fencepost.warehouse.night_tables import OF_NIGHTS, PLACED, schema_of
from fencepost.warehouse.rebuild import REBUILT
from fencepost.warehouse.selection import choose, latest_nights
from fencepost.warehouse.steps import STEPS
from fencepost.warehouse.store import Add, open_store

#: Every table that parts hold, by name.
STORED: Final = {**stored_tables(), PLACED.name: PLACED, **OF_NIGHTS}
#: One row for each run that an add looked at: its outcome, the verdicts that differ from before, or why it failed.
REBUILT_NAME: Final = "rebuilt"
NAMES: Final = (*STORED, *STEPS, REBUILT_NAME)
#: Up to so many runs, plans are interpreted and not adapted: compiling them costs more than their rows.
_FEW_RUNS: Final = 50


class Warehouse:
    """The warehouse in force at a root that all executors reach, as it was when this was made.

    Raises:
        UsageError: none is there, a newer fencepost wrote it, or a part is torn.
    """

    def __init__(self, spark: SparkSession, root: str, *, nights: Collection[str] | None = None) -> None:
        self.store: Final = open_store(root)
        self.root: Final = self.store.root
        self.adds: Final[list[Add]] = self.store.adds()
        self.store.refuse_torn(self.adds)
        self._nights = nights
        self._spark: Final = tuned(spark.newSession(), len({run for add in self.adds for run in add.runs}))

    def table(self, name: str) -> DataFrame:
        """A table by its name, computed when it is asked for; raises UsageError for a name that there is not."""
        if name in STEPS:
            return STEPS[name].compute(self)
        if name == REBUILT_NAME:
            return self._read([add.rebuilt for add in self.adds if add.rebuilt], from_arrow_schema(REBUILT))
        if name not in STORED:
            raise UsageError(f"there is no table {name!r}", hint=f"choose from: {', '.join(NAMES)}")
        table = STORED[name]
        return self._of_nights(table) if name in OF_NIGHTS else self._of_runs(table)

    def __getitem__(self, name: str) -> DataFrame:
        return self.table(name)

    def sql(self, query: str) -> DataFrame:
        """The answer to a query, in which every table stands under its name."""
        for name in NAMES:
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

    def _of_runs(self, table: FactTable) -> DataFrame:
        chosen = choose(self.adds, table.name, nights=self._nights)
        schema = from_arrow_schema(schema_of(table))
        whole = self._read([file for one in chosen if not one.left_out for file in one.files], schema)
        for one in chosen:
            if one.left_out:
                part = self._read(list(one.files), schema)
                whole = whole.unionByName(part.where(~F.col(RUN_ID).isin(sorted(one.left_out))))
        return whole

    def _of_nights(self, table: FactTable) -> DataFrame:
        parts = [part for part in latest_nights(self.adds) if self._nights is None or part.night in self._nights]
        files = [file for part in parts for file in part.files.get(table.name, ())]
        return self._read(files, from_arrow_schema(schema_of(table)))

    def _read(self, files: list[str], schema: Any) -> DataFrame:
        if not files:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*(f"{self.store.data}/{file}" for file in files))

    @staticmethod
    def _each(frame: DataFrame) -> Iterator[dict[str, Any]]:
        return (row.asDict(recursive=True) for row in frame.toLocalIterator())


def tuned(spark: SparkSession, runs: int) -> SparkSession:
    """Settings for so many runs, in a session of its own; it shares the JVM and its executors."""
    few = runs <= _FEW_RUNS
    spark.conf.set("spark.sql.adaptive.enabled", str(not few).lower())
    spark.conf.set("spark.sql.codegen.wholeStage", str(not few).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")
    # What fails must say so, not be tried in another way.
    spark.conf.set("spark.sql.execution.arrow.pyspark.fallback.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "2" if few else str(shuffle_partitions(spark)))
    return spark
