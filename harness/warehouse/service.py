"""What clients got, over time and around faults.

The run is cut into segments at every landmark (a fault begins or ends, a phase begins) and every bucket edge. Spark
reduces the operations to one row per segment and node; every question about an interval between landmarks (how many
operations, the longest time without an `ok`, the first `ok` after healing) is then arithmetic on those few rows.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.warehouse.operations import bucket_of
from fencepost.harness.warehouse.schemas import SERVICE

#: Into how many buckets a run is divided.
BUCKETS_MAX: Final = 100


class Segment(NamedTuple):
    """[from_ns, to_ns) within one bucket."""

    segment: int
    bucket: int
    from_ns: int
    to_ns: int


class Gap(NamedTuple):
    """The longest stretch without an `ok` completion, and where it begins."""

    length_ns: int
    from_ns: int


class Service(NamedTuple):
    """One row of SERVICE."""

    segment: int
    node: str
    ok: int
    fail: int
    info: int
    served: int
    first_ok_ns: int | None
    last_ok_ns: int | None
    gap_ns_max: int | None
    gap_from_ns: int | None


def bucket_width_ns(end_ns: int) -> int:
    """The width that makes at most BUCKETS_MAX buckets of [0, end_ns]."""
    return end_ns // BUCKETS_MAX + 1


def segments(end_ns: int, landmarks_ns: Iterable[int]) -> list[Segment]:
    """Cut [0, end_ns] at the landmarks and at every bucket edge."""
    width = bucket_width_ns(end_ns)
    inside = {at for at in landmarks_ns if 0 <= at <= end_ns}
    cuts = sorted({0, end_ns + 1} | inside | set(range(0, end_ns + 1, width)))
    return [Segment(number, start // width, start, end) for number, (start, end) in enumerate(pairwise(cuts))]


def service(ops: DataFrame, cuts: DataFrame, width_ns: int) -> DataFrame:
    """Reduce operations to what clients got per segment and node (OPERATIONS, SEGMENTS -> SERVICE).

    An operation is counted by its outcome where it was invoked, and if it ended `ok` also where it completed.
    `gap_ns_max` is the longest time between two successive `ok` completions (of any node) inside the segment; it stands
    with the node of the later one, and began at `gap_from_ns`.
    """
    moments = F.array(
        F.struct(F.col("invoked_ns").alias("at"), F.col("type").alias("what")),
        F.struct(F.when(F.col("type") == "ok", F.col("completed_ns")).alias("at"), F.lit("served").alias("what")),
    )
    at = ops.select("node", F.inline(moments)).where(F.col("at").isNotNull())
    # Equal buckets make it a hash join; a bucket holds few segments.
    placed = (
        at.withColumn("bucket", bucket_of(F.col("at"), width_ns))
        .join(F.broadcast(cuts), "bucket")
        .where((F.col("at") >= F.col("from_ns")) & (F.col("at") < F.col("to_ns")))
        .withColumn("served_ns", F.when(F.col("what") == "served", F.col("at")))
    )
    # An invocation sorts beside the completions and repeats the last of them, so it never lengthens a gap.
    so_far = Window.partitionBy("segment").orderBy("at").rowsBetween(Window.unboundedPreceding, -1)
    previous = placed.withColumn("previous_ns", F.max("served_ns").over(so_far))
    gap = F.when(F.col("served_ns").isNotNull(), F.col("served_ns") - F.col("previous_ns"))
    # The greatest length; of equal ones the earliest.
    widest = F.max(F.when(gap.isNotNull(), F.struct(gap.alias("length"), (-F.col("previous_ns")).alias("minus_ns"))))
    return (
        previous.groupBy("segment", "node")
        .agg(
            *(F.count(F.when(F.col("what") == what, 1)).alias(what) for what in ("ok", "fail", "info", "served")),
            F.min("served_ns").alias("first_ok_ns"),
            F.max("served_ns").alias("last_ok_ns"),
            widest.alias("widest"),
        )
        .withColumn("gap_ns_max", F.col("widest.length"))
        .withColumn("gap_from_ns", -F.col("widest.minus_ns"))
        .drop("widest")
        .transform(conforms, SERVICE)
    )


def within(rows: Iterable[Service], cuts: Sequence[Segment], from_ns: int, to_ns: int) -> list[Service]:
    """The rows of the segments that lie in [from_ns, to_ns); both ends must be cuts."""
    return [row for row in rows if from_ns <= cuts[row.segment].from_ns and cuts[row.segment].to_ns <= to_ns]


def longest_gap(rows: Iterable[Service], from_ns: int, to_ns: int) -> Gap:
    """The longest stretch of [from_ns, to_ns) without an `ok` completion, given the rows within it."""
    by_segment: dict[int, list[Service]] = {}
    for row in rows:
        if row.served:
            by_segment.setdefault(row.segment, []).append(row)
    best = Gap(0, from_ns)
    last_ns = from_ns
    for _, own in sorted(by_segment.items()):
        first_ns = min(row.first_ok_ns for row in own if row.first_ok_ns is not None)
        inner = [
            Gap(row.gap_ns_max, row.gap_from_ns)
            for row in own
            if row.gap_ns_max is not None and row.gap_from_ns is not None
        ]
        best = _wider([best, Gap(first_ns - last_ns, last_ns), *inner])
        last_ns = max(row.last_ok_ns for row in own if row.last_ok_ns is not None)
    return _wider([best, Gap(to_ns - last_ns, last_ns)])


def first_ok_ns(rows: Iterable[Service], from_ns: int) -> dict[str, int]:
    """By node: the first `ok` completion at or after `from_ns`, which must be a cut."""
    found: dict[str, int] = {}
    for row in rows:
        if row.first_ok_ns is not None and row.first_ok_ns >= from_ns:
            found[row.node] = min(row.first_ok_ns, found.get(row.node, row.first_ok_ns))
    return found


def _wider(gaps: list[Gap]) -> Gap:
    return max(gaps, key=lambda gap: (gap.length_ns, -gap.from_ns))
