"""Reads that return less than was already known: to anybody (stale), or to the reader itself (non-monotonic).

Both go by positions: the store's own number of the write that made a value (etcd: mod_revision, ZooKeeper: mzxid),
which grows with every write. So no values are compared, and the rules hold for reads of any workload. A read whose
reply carries no such position (an absent key) is not judged.

These are counts, not violations: whether a stale read breaks a promise is decided by the checkers, which know what was
promised.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.warehouse.schemas import KNOWN, REGRESSIONS, SEEN, STALE_READS


def with_known_position(events: DataFrame) -> DataFrame:
    """Add to every event the newest position of its key that was acknowledged to anybody so far (-> KNOWN).

    Reads count as much as writes: a value that was read had been written. `known_since_ns` is when that position was
    first acknowledged.
    """
    # Keyless operations have no such position; their process spreads them over the partitions.
    subhistory = Window.partitionBy(F.coalesce("key", F.col("process").cast("string"))).orderBy("index")
    acknowledged = (F.col("type") == "ok") & F.col("key").isNotNull() & F.col("value_position").isNotNull()
    # The greatest position; of equal ones the earliest.
    candidate = F.when(acknowledged, F.struct("value_position", (-F.col("time_ns")).alias("minus_ns")))
    newest = F.max(candidate).over(subhistory.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    known = F.when(F.col("key").isNotNull(), F.col("newest"))
    return (
        events.withColumn("newest", newest)
        .withColumn("known_position", known["value_position"])
        .withColumn("known_since_ns", -known["minus_ns"])
        .drop("newest")
        .transform(conforms, KNOWN)
    )


def with_seen_positions(ops: DataFrame) -> DataFrame:
    """Add what the caller itself had been shown before each operation (OPERATIONS -> SEEN).

    `session_position`: the greatest position of any reply in the same session of the same process.
    `key_position`: the greatest position of a value of the same key, over all sessions of the process.
    """
    before = (Window.unboundedPreceding, -1)
    of_session = Window.partitionBy("process", "session").orderBy("invoke_index").rowsBetween(*before)
    of_key = Window.partitionBy("process", "key").orderBy("invoke_index").rowsBetween(*before)
    ok = F.col("type") == "ok"
    return (
        ops.withColumn("session_position", F.max(F.when(ok, F.col("position"))).over(of_session))
        .withColumn("key_position", F.max(F.when(ok & F.col("key").isNotNull(), F.col("value_position"))).over(of_key))
        .transform(conforms, SEEN)
    )


def stale_reads(ops: DataFrame, reads: tuple[str, ...] = ("read",)) -> DataFrame:
    """Reads of a value that somebody knew to be overwritten when they were invoked (OPERATIONS -> STALE_READS).

    A row per node and key, and one per node with all its keys (`key` null). `overdue_ns_max`: the longest that the
    newest value had then been known.
    """
    stale = (F.col("type") == "ok") & F.col("f").isin(*reads) & (F.col("value_position") < F.col("known_position"))
    return (
        ops.where(stale)
        .rollup("node", "key")
        .agg(
            F.count("*").alias("count"),
            F.max(F.col("invoked_ns") - F.col("known_since_ns")).alias("overdue_ns_max"),
            F.min("invoke_index").alias("first_index"),
        )
        .where(F.col("node").isNotNull())
        .transform(conforms, STALE_READS)
    )


def regressions(ops: DataFrame, reads: tuple[str, ...] = ("read",)) -> DataFrame:
    """Replies that go back behind what their caller was shown before (OPERATIONS -> REGRESSIONS).

    `of` is "value": a read of a key returned an older value than the process had read or written there; or "session":
    the position of a reply is less than that of an earlier one in the same session. A row per process and node, and
    one with all of them (both null).
    """
    seen = ops.transform(with_seen_positions).where(F.col("type") == "ok")
    value = F.col("f").isin(*reads) & (F.col("value_position") < F.col("key_position"))
    session = F.col("position") < F.col("session_position")
    kinds = F.array(F.when(value, F.lit("value")), F.when(session, F.lit("session")))
    return (
        seen.where(value | session)
        .select("process", "node", "invoke_index", F.explode(kinds).alias("of"))
        .where(F.col("of").isNotNull())
        .groupingSets([["of"], ["of", "process", "node"]], "of", "process", "node")
        .agg(F.count("*").alias("count"), F.min("invoke_index").alias("first_index"))
        .select(*REGRESSIONS.fieldNames())
        .transform(conforms, REGRESSIONS)
    )
