"""A warehouse as tables: of facts, of nights, and what spans runs, all by name and in SQL."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.base.errors import UsageError
from fencepost.harness.verdict.fact_tables import LONG, RUN, RUN_ID, TEXT
from fencepost.warehouse import across, findings, nightly
from fencepost.warehouse.across import Tables
from fencepost.warehouse.night_tables import (
    ADDED,
    NIGHT,
    NIGHTS,
    OF_NIGHTS,
    REBUILT,
    REBUILT_NAME,
    SHARD,
    STORED,
    layout,
    schema_of,
)
from fencepost.warehouse.spark_session import shuffle_partitions
from fencepost.warehouse.store import open_store, spark_name

#: Every table that is computed over runs: its step from tables to a DataFrame. Pages and queries compute nothing
#: themselves. A step returns as many rows as there are releases, nights, cells and findings, however many operations.
STEPS: Final[Mapping[str, Callable[[Tables], DataFrame]]] = {
    "zombie_episodes_by_version": across.zombie_episodes_by_version,
    "anomaly_rates": across.anomaly_rates,
    "guarantee_outcomes": across.guarantee_outcomes,
    "recovery_by_fault": across.recovery_by_fault,
    "availability_by_phase": across.availability_by_phase,
    "latency_by_fault": across.latency_by_fault,
    "finding_sightings": findings.sightings,
    "finding_examples": findings.examples,
    "night_runs": nightly.night_runs,
    "night_matrix": nightly.night_matrix,
    "night_trends": nightly.night_trends,
}
NAMES: Final = (*STORED, *STEPS, REBUILT_NAME)
#: Up to so many runs, plans are interpreted and not adapted: compiling them costs more than their rows.
_FEW_RUNS: Final = 50
_FILES_MAX: Final = 100_000


class Warehouse:
    """The warehouse at a root that all executors reach, as it was when this was made.

    Raises:
        UsageError: none is there, another fencepost wrote it, or its table of runs is torn.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.store: Final = open_store(root)
        self.root: Final = self.store.root
        # In these versions: what comes later does not count, and every other table has all rows of what does.
        self._marks: Final = {name: self.store.delta(name) for name in (RUN.name, NIGHTS.name)}
        self._runs: Final = self.store.runs(self._marks[RUN.name])
        self._nights: Final = self.store.nights(self._marks[NIGHTS.name])
        self._spark: Final = tuned(spark.newSession(), len(self._runs))

    def table(self, name: str) -> DataFrame:
        """A table by its name, computed when it is asked for; raises UsageError for a name that there is not."""
        if name in STEPS:
            return STEPS[name](self)
        if name not in STORED and name != REBUILT_NAME:
            raise UsageError(f"there is no table {name!r}", hint=f"choose from: {', '.join(NAMES)}")
        kept = self._kept(name)
        if name == REBUILT_NAME:
            adds = pa.table({ADDED: pa.array(sorted(set(self._runs.values())), TEXT)})
            return kept.join(self._small(adds), ADDED, "left_semi").select(*REBUILT.names)
        columns = schema_of(STORED[name]).names
        if name in self._marks:
            return kept.select(*columns)
        return kept.join(self._small(self._counting(name)), self._counting(name).column_names, "left_semi").select(
            *columns
        )

    def __getitem__(self, name: str) -> DataFrame:
        return self.table(name)

    def sql(self, query: str) -> DataFrame:
        """The answer to a query, in which every table stands under its name."""
        # Views of all tables would take a minute. A word that only looks like a table costs its view.
        candidates = set(re.findall(r"\w+", query.lower()))
        for name in (each for each in NAMES if each in candidates):
            self.table(name).createOrReplaceTempView(name)
        return self._spark.sql(query)

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Every episode of a superseded leader with its run, one after the other."""
        runs = self.table("run").select("run_id", "folder", "system", "version")
        episodes = self.table("zombie_episodes").join(runs, "run_id")
        ordered = episodes.orderBy("system", "version", "folder", "superseded_ns")
        return (row.asDict(recursive=True) for row in ordered.toLocalIterator())

    def _kept(self, name: str) -> DataFrame:
        """All rows of a table, and all columns that they have."""
        files = self.store.files(name, self._marks.get(name))
        if name not in self._marks:
            self._refuse_replaced()
        schema = from_arrow_schema(layout(name).schema)
        if not files:
            return self._spark.createDataFrame([], schema)
        base = f"{spark_name(self.root)}/{name}"
        paths = [f"{base}/{file}" for file in files]
        return self._spark.read.schema(schema).option("basePath", base).parquet(*paths)

    def _refuse_replaced(self) -> None:
        """Raise UsageError when a build has removed rows that count here."""
        if self.store.delta(RUN.name).version() != self._marks[RUN.name].version():
            now = self.store.runs()
            if any(now.get(run) != added for run, added in self._runs.items()):
                raise UsageError(f"{self.root}: a build has replaced this warehouse meanwhile", hint="ask again")

    def _counting(self, name: str) -> pa.Table:
        """What the rows of a table that count have in common: the run or the night, and the add that brought it."""
        if name not in OF_NIGHTS:
            return pa.table({RUN_ID: pa.array(self._runs.keys(), TEXT), ADDED: pa.array(self._runs.values(), TEXT)})
        adds = [added for _, added in self._nights.values()]
        return pa.table(
            {
                NIGHT: pa.array([night for night, _ in self._nights], TEXT),
                SHARD: pa.array([shard for _, shard in self._nights], LONG),
                ADDED: pa.array(adds, TEXT),
            }
        )

    def _small(self, rows: pa.Table) -> DataFrame:
        return F.broadcast(self._spark.createDataFrame(rows))


def tuned(spark: SparkSession, runs: int) -> SparkSession:
    """Settings for so many runs, in a session of its own; it shares the JVM and its executors."""
    few = runs <= _FEW_RUNS
    spark.conf.set("spark.sql.adaptive.enabled", str(not few).lower())
    # Beyond so many files Spark would list them with a job of its own, for each table.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(_FILES_MAX))
    spark.conf.set("spark.sql.codegen.wholeStage", str(not few).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")
    # What fails must say so, not be tried in another way.
    spark.conf.set("spark.sql.execution.arrow.pyspark.fallback.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "2" if few else str(shuffle_partitions(spark)))
    return spark
