"""Who claimed to lead, from when to when, and what a leader did after a later epoch had begun.

A claim is an answer "yes, I lead". It speaks of one moment between question and answer in which the node ran: `lo_ns`
is the earliest such moment. An epoch has certainly *begun* once a claim of it was answered, or an operation stamped
with it completed `ok`, whichever was first. A reign of epoch e is *superseded* from the first begin of a later epoch.

Assumptions, as everywhere in the project: epochs are ordered, each has at most one leader, who leads in one contiguous
interval per incarnation. Where a source only bounds the epoch from below, the epoch is that of the node's own log; if
the log says nothing, the claim is kept as inexact: it may prove that an epoch has begun, never that an old one went on.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.warehouse.schemas import CLAIMS, REIGNS, SERVED_SUPERSEDED, STAMPS

#: A log line may be read this much later than the answer that reflects it came.
LOG_DELAY_NS: Final = 300_000_000

#: How many operations of a superseded leader are named one by one.
NAMED_MAX: Final = 5


def claims(history: DataFrame, backgrounds: DataFrame) -> DataFrame:
    """Every claim with its epoch and the earliest moment that it can speak of (HISTORY, BACKGROUNDS -> CLAIMS).

    A question asked while the node was proven stopped is answered for the time after it ran again.
    """
    yes = history.where((F.col("kind") == "belief") & (F.col("claims") == "yes"))
    exact = F.coalesce("epoch_exact", F.lit(True)) & F.col("epoch").isNotNull()
    ends = F.transform(F.filter("stops", _asked_while), lambda stop: stop["to_ns"])
    lo = F.least(F.coalesce(F.array_max(ends), "asked_ns"), F.col("answered_ns"))
    logged = F.array_max(F.transform(F.filter("elections", _may_be_of), lambda election: election["epoch"]))
    return (
        yes.join(F.broadcast(backgrounds), ["node", "incarnation"], "left")
        .withColumn("logged", F.when(~exact, logged))
        .select(
            "index",
            "subject",
            "node",
            "incarnation",
            F.coalesce("logged", "epoch").alias("epoch"),
            lo.alias("lo_ns"),
            "answered_ns",
            (exact | F.col("logged").isNotNull()).alias("exact"),
        )
        .transform(conforms, CLAIMS)
    )


def _asked_while(stop: Column) -> Column:
    return (stop["from_ns"] <= F.col("asked_ns")) & (F.col("asked_ns") < stop["to_ns"])


def _may_be_of(election: Column) -> Column:
    in_time = election["read_ns"] <= F.col("answered_ns") + LOG_DELAY_NS
    return in_time & (F.col("epoch").isNull() | (election["epoch"] >= F.col("epoch")))


def reigns(claimed: DataFrame) -> DataFrame:
    """Each stretch of claims of one epoch by one incarnation (CLAIMS -> REIGNS).

    The node certainly led from `certain_from_ns` (the first answer) to `certain_to_ns` (the earliest moment of the last
    claim), if that is later; possibly from `from_ns` to `to_ns`.
    """
    return (
        claimed.groupBy("subject", "node", "incarnation", "epoch", "exact")
        .agg(
            F.min("lo_ns").alias("from_ns"),
            F.min("answered_ns").alias("certain_from_ns"),
            F.max("lo_ns").alias("certain_to_ns"),
            F.max("answered_ns").alias("to_ns"),
            F.count("*").alias("samples"),
        )
        .transform(conforms, REIGNS)
    )


def stamps(ops: DataFrame) -> DataFrame:
    """When each epoch first stamped an `ok` operation (OPERATIONS -> STAMPS)."""
    stamped = ops.where((F.col("type") == "ok") & F.col("epoch").isNotNull())
    return stamped.groupBy("epoch").agg(F.min("completed_ns").alias("first_ok_ns")).transform(conforms, STAMPS)


def served_superseded(ops: DataFrame, superseded: DataFrame) -> DataFrame:
    """Operations sent to a leader whose reign was over (OPERATIONS, SUPERSEDED -> SERVED_SUPERSEDED).

    An operation counts when it was invoked after a later epoch had begun, and either its reply is stamped with the old
    epoch, or it ended before a moment at which the same incarnation certainly still claimed that epoch. By type: `ok`
    was served, `fail` was refused, `info` was attempted with unknown outcome (judged by its invocation).
    """
    late = F.col("invoked_ns") > F.col("superseded_ns")
    stamped = F.col("epoch") == F.col("old_epoch")
    last_ns = F.when(F.col("type") == "info", F.col("invoked_ns")).otherwise(F.col("completed_ns"))
    during = (F.col("invoked_ns") >= F.col("incarnation_from_ns")) & (last_ns < F.col("claimed_until_ns"))
    old = superseded.withColumnRenamed("epoch", "old_epoch").withColumnRenamed("node", "leader")
    return (
        ops.join(F.broadcast(old), (F.col("node") == F.col("leader")) & late & (stamped | during))
        .groupBy("invoke_index", "node", "type")
        .agg(F.max("old_epoch").alias("epoch"))
        .groupBy("node", "epoch", "type")
        .agg(
            F.count("*").alias("count"),
            F.slice(F.sort_array(F.collect_list("invoke_index")), 1, NAMED_MAX).alias("first_indexes"),
        )
        .transform(conforms, SERVED_SUPERSEDED)
    )
