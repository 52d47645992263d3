"""Operations as rows: each invocation joined with its completion, and what the numbers of them say.

Pairing is one window per process, never a join: a process has at most one open operation, so the event after an
invocation is its completion, or there is none.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.warehouse.schemas import BUCKETS, ERRORS, FUNCTIONS, KNOWN, OPERATIONS
from fencepost.harness.warehouse.staleness import with_known_position

#: percentile_approx is exact up to this many distinct values in a group and within 1 / this of the rank beyond.
_ACCURACY: Final = 10_000


def operations(history: DataFrame) -> DataFrame:
    """Every operation with its outcome and times (HISTORY -> OPERATIONS).

    One that never completed has the type `info`, as one that ended `info`: no `completed_ns` in either case.
    """
    events = history.where(F.col("kind") == "op").select(*KNOWN.fieldNames()[:11])
    return events.transform(with_known_position).transform(paired)


def paired(events: DataFrame) -> DataFrame:
    """Join invocation and completion (KNOWN -> OPERATIONS)."""
    of_process = Window.partitionBy("process").orderBy("index")
    reply = F.struct("index", "type", "time_ns", "position", "value_position", "epoch", "session")
    following = events.withColumn("following", F.lead(reply).over(of_process)).where(F.col("type") == "invoke")
    completed = F.col("following.type").isNotNull() & (F.col("following.type") != "invoke")
    joined = following.withColumn("reply", F.when(completed, F.col("following")))
    outcome = F.coalesce("reply.type", F.lit("info"))
    ended = F.col("reply.time_ns")
    return joined.select(
        F.col("index").alias("invoke_index"),
        F.col("reply.index").alias("complete_index"),
        "process",
        "f",
        "node",
        "key",
        outcome.alias("type"),
        F.col("time_ns").alias("invoked_ns"),
        F.when(outcome != "info", ended).alias("completed_ns"),
        ended.alias("ended_ns"),
        (ended - F.col("time_ns")).alias("latency_ns"),
        F.col("reply.position").alias("position"),
        F.col("reply.value_position").alias("value_position"),
        F.col("reply.epoch").alias("epoch"),
        F.col("reply.session").alias("session"),
        "known_position",
        "known_since_ns",
    ).transform(conforms, OPERATIONS)


def by_function(ops: DataFrame) -> DataFrame:
    """Outcomes and latencies of each `f` (OPERATIONS -> FUNCTIONS); latencies are those of `ok` operations."""
    quantiles = F.percentile_approx(_ok_latency(), [0.5, 0.95, 0.99], _ACCURACY)
    grouped = ops.groupBy("f").agg(
        *_counts(), quantiles.alias("quantiles"), F.max(_ok_latency()).alias("latency_ns_max")
    )
    return grouped.select(
        "f",
        "ok",
        "fail",
        "info",
        *(F.col("quantiles")[i].alias(f"latency_ns_p{p}") for i, p in enumerate((50, 95, 99))),
        "latency_ns_max",
    ).transform(conforms, FUNCTIONS)


def by_bucket(ops: DataFrame, width_ns: int) -> DataFrame:
    """Outcomes and latencies over time (OPERATIONS -> BUCKETS): bucket b holds what was invoked from b x `width_ns` on.

    By invocation, so that a slow operation shows where it began to be slow. Latencies are those of `ok` operations.
    """
    quantiles = F.percentile_approx(_ok_latency(), [0.5, 0.99], _ACCURACY)
    grouped = ops.groupBy(bucket_of(F.col("invoked_ns"), width_ns).alias("bucket")).agg(
        *_counts(), quantiles.alias("quantiles"), F.max(_ok_latency()).alias("latency_ns_max")
    )
    return grouped.select(
        "bucket",
        "ok",
        "fail",
        "info",
        F.col("quantiles")[0].alias("latency_ns_p50"),
        F.col("quantiles")[1].alias("latency_ns_p99"),
        "latency_ns_max",
    ).transform(conforms, BUCKETS)


def by_error(history: DataFrame) -> DataFrame:
    """How often each error ended each `f` (HISTORY -> ERRORS)."""
    ended = history.where((F.col("kind") == "op") & F.col("error").isNotNull())
    return ended.groupBy("f", "type", "error").agg(F.count("*").alias("count")).transform(conforms, ERRORS)


def bucket_of(time_ns: Column, width_ns: int) -> Column:
    """The bucket in which a time lies."""
    return F.floor(time_ns / F.lit(width_ns)).cast("long")


def _ok_latency() -> Column:
    return F.when(F.col("type") == "ok", F.col("latency_ns"))


def _counts() -> list[Column]:
    return [F.count(F.when(F.col("type") == outcome, 1)).alias(outcome) for outcome in ("ok", "fail", "info")]
