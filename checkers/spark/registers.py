"""Registers judged through Spark: the native search next to the data, for histories beyond one machine.

Operations are spread over partitions by key and sorted within them; each partition is one stream of Arrow batches whose
integer columns go to the native search as they are, one call a batch. Batches cut keys: the open one is carried over
(`checkers.tables.operations.whole_keys`). A group or a call per key would cost more than the search itself.

The number of partitions follows from the number of operations alone, and so does every key's part of the budget: the
verdict does not depend on how many machines found it. Executors need Python and fencepost.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.checkers.spark.schemas import FOUND, OPERATIONS_TABLE
from fencepost.checkers.tables.operations import (
    COLUMNS,
    Deal,
    Found,
    Rows,
    Tally,
    check_types,
    explain_rows,
    in_order,
    judge,
    rows_of,
    search,
    tally,
    verdict,
    whole_keys,
)
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.verdict import Budget, Facts, Verdict

#: One task's share: sorted in a few tens of megabytes, judged in a second or less.
PARTITION_OPERATIONS: Final = 1_000_000
PARTITIONS_MIN: Final = 2
#: Rows of an Arrow batch: a call of the search for each, and what a task holds at once beside its open key.
BATCH_ROWS: Final = 100_000


def check(spark: SparkSession, uri: str, facts: Facts) -> Verdict:
    """The verdict on the table of operations at `uri`, which executors must reach too; raises MalformedHistory."""
    own = tuned(spark)
    table = read_table(own, uri)
    found = judge_table(table, facts.budget, uri)

    def explain(keys: list[int]) -> Any:
        return explain_rows(rows_of(table.where(F.col("key").isin(keys)).toArrow()), facts.budget)

    return verdict(found, explain, facts, {"engine": "spark", "partitions": partitions(found.operations)})


def tuned(spark: SparkSession) -> SparkSession:
    """A session of its own, with the settings that this job needs."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    return own


def read_table(spark: SparkSession, uri: str) -> DataFrame:
    """The table of operations at `uri` (-> OPERATIONS_TABLE); raises MalformedHistory for its columns."""
    found = spark.read.parquet(uri)
    check_types({field.name: _arrow_type(field.dataType) for field in found.schema.fields}, uri)
    return found.select(*COLUMNS).transform(conforms, OPERATIONS_TABLE)


def judge_table(table: DataFrame, budget: Budget, source: str) -> Tally:
    """What the search finds in all keys (OPERATIONS_TABLE -> FOUND, added up); raises MalformedHistory."""
    operations = table.count()

    def run(deal: Deal, keys: list[int] | None) -> Tally:
        chosen = table if keys is None else table.where(F.col("key").isin(keys))
        found = chosen.transform(by_key, deal.operations).transform(judged, deal).toArrow()
        return tally((msgspec.convert(row, Found) for row in found.to_pylist()), source)

    return search(run, operations, budget)


def by_key(table: DataFrame, operations: int) -> DataFrame:
    """All operations of a key in one partition, side by side.

    Sorted by nothing else: one integer is sorted by its digits, several by comparing, which costs more than the search.
    """
    return table.repartition(partitions(operations), "key").sortWithinPartitions("key")


def judged(table: DataFrame, deal: Deal) -> DataFrame:
    """The native search over partitions that are sorted by key (OPERATIONS_TABLE -> FOUND)."""
    return table.mapInArrow(partial(judge_batches, deal), FOUND).transform(conforms, FOUND)


def judge_batches(deal: Deal, batches: Iterable[Any]) -> Iterator[Any]:
    """One partition, in an executor's Python: Arrow batches of operations in, batches of what was found out."""
    schema = to_arrow_schema(FOUND)
    try:
        for rows in whole_keys(_rows(batches)):
            found = [msgspec.to_builtins(one) for one in judge(in_order(rows), deal)]
            yield pa.RecordBatch.from_pylist(found, schema=schema)
    except MalformedHistory as error:
        wrong = msgspec.to_builtins(Found(key=None, verdict="malformed", reason=error.message))
        yield pa.RecordBatch.from_pylist([wrong], schema=schema)


def partitions(operations: int) -> int:
    """How many tasks a table is dealt to."""
    return max(PARTITIONS_MIN, -(-operations // PARTITION_OPERATIONS))


def _rows(batches: Iterable[Any]) -> Iterator[Rows]:
    return (rows_of(batch) for batch in batches)


def _arrow_type(kind: T.DataType) -> str:
    """A column's type in Arrow's words; in Spark's where Arrow has none."""
    try:
        return str(to_arrow_schema(T.StructType([T.StructField("it", kind)])).field("it").type)
    except Exception:
        return kind.simpleString()
