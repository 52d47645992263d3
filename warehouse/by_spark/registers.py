"""Judge registers through Spark: the native search runs next to the data, for histories beyond one machine.

Operations are distributed over partitions by key and sorted within them. Each partition is a stream of Arrow batches,
whose integer columns go to the native search unchanged, one call for each batch. If a key continues in the next batch,
its operations are carried over (`checkers.tables.operations.whole_keys`). A group or a call for each key would cost
more than the search itself.

The number of partitions, and every key's share of the budget, depend only on the number of operations. So the verdict
does not depend on the number of machines. Executors need Python and fencepost.
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
from fencepost.harness.verdict import Budget, Facts, Verdict
from fencepost.warehouse.by_spark.schemas import FOUND, OPERATIONS_TABLE
from fencepost.warehouse.spark_tables import conforms

#: The operations of one task: they are sorted in a few tens of megabytes and judged in a second or less.
PARTITION_OPERATIONS: Final = 1_000_000
PARTITIONS_MIN: Final = 2
#: Rows of an Arrow batch. The search is called once for each batch; a task holds one batch and its open key.
BATCH_ROWS: Final = 100_000


def check(spark: SparkSession, uri: str, facts: Facts) -> Verdict:
    """Judge the table of operations at `uri`, which executors must reach too; raises MalformedHistory."""
    own = tuned(spark)
    table = read_table(own, uri)
    tally = judge_table(table, facts.budget, uri)

    def explain(keys: list[int]) -> Any:
        return explain_rows(rows_of(table.where(F.col("key").isin(keys)).toArrow()), facts.budget)

    return verdict(tally, explain, facts, engine="spark", partitions=partitions(tally.operations))


def tuned(spark: SparkSession) -> SparkSession:
    """Return a new session with the settings that this job needs."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    return own


def read_table(spark: SparkSession, uri: str) -> DataFrame:
    """Read the table of operations at `uri` (-> OPERATIONS_TABLE); raises MalformedHistory for wrong columns."""
    rows = spark.read.parquet(uri)
    check_types({field.name: _arrow_type(field.dataType) for field in rows.schema.fields}, uri)
    return rows.select(*COLUMNS).transform(conforms, OPERATIONS_TABLE)


def judge_table(table: DataFrame, budget: Budget, source: str) -> Tally:
    """Search all keys and add up the results (OPERATIONS_TABLE -> FOUND); raises MalformedHistory."""
    operations = table.count()

    def run(deal: Deal, keys: list[int] | None) -> Tally:
        chosen = table if keys is None else table.where(F.col("key").isin(keys))
        judgements = chosen.transform(by_key, deal.operations).transform(judged, deal).toArrow()
        return tally((msgspec.convert(row, Found) for row in judgements.to_pylist()), source)

    return search(run, operations, budget)


def by_key(table: DataFrame, operations: int) -> DataFrame:
    """Bring all operations of a key side by side into one partition.

    The only sort key is the register: one integer is sorted by radix, several by comparison, which would cost more than
    the search.
    """
    return table.repartition(partitions(operations), "key").sortWithinPartitions("key")


def judged(table: DataFrame, deal: Deal) -> DataFrame:
    """Run the native search over partitions that are sorted by key (OPERATIONS_TABLE -> FOUND)."""
    return table.mapInArrow(partial(judge_batches, deal), FOUND).transform(conforms, FOUND)


def judge_batches(deal: Deal, batches: Iterable[Any]) -> Iterator[Any]:
    """Judge one partition, in an executor's Python: Arrow batches of operations in, batches of results out."""
    schema = to_arrow_schema(FOUND)
    try:
        for rows in whole_keys(_rows(batches)):
            judgements = [msgspec.to_builtins(one) for one in judge(in_order(rows), deal)]
            yield pa.RecordBatch.from_pylist(judgements, schema=schema)
    except MalformedHistory as error:
        wrong = msgspec.to_builtins(Found(key=None, verdict="malformed", reason=error.message))
        yield pa.RecordBatch.from_pylist([wrong], schema=schema)


def partitions(operations: int) -> int:
    """Return how many tasks share a table."""
    return max(PARTITIONS_MIN, -(-operations // PARTITION_OPERATIONS))


def _rows(batches: Iterable[Any]) -> Iterator[Rows]:
    return (rows_of(batch) for batch in batches)


def _arrow_type(kind: T.DataType) -> str:
    """Return a column's type by Arrow's name; by Spark's name if Arrow has none."""
    try:
        return str(to_arrow_schema(T.StructType([T.StructField("it", kind)])).field("it").type)
    except Exception:
        return kind.simpleString()
