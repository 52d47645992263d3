"""From a stored history to an `Analysis`: one scan feeding several results.

    1. the landmarks come to the driver;
    2. operations are paired and cached, and every table is reduced from them to a few rows;
    3. if some leader was superseded, the operations that it was sent are looked for.

All steps are pure functions of built-in column functions: executors need no Python.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fencepost.harness.base.spark_tables import conforms
from fencepost.harness.warehouse import leadership, operations, staleness
from fencepost.harness.warehouse import service as availability
from fencepost.harness.warehouse.faults import Landmarks, landmarks
from fencepost.harness.warehouse.results import (
    Analysis,
    BucketRow,
    ErrorRow,
    FunctionRow,
    RegressionRow,
    StaleReadsRow,
    SupersededRow,
)
from fencepost.harness.warehouse.schemas import BACKGROUNDS, HISTORY, SEGMENTS, SUPERSEDED
from fencepost.harness.warehouse.summary import (
    beginnings,
    fault_rows,
    overlap_rows,
    phase_rows,
    reign_rows,
    superseded_reigns,
)

#: Of tables that grow with the number of keys or processes, how many rows are returned.
ROWS_MAX: Final = 50

#: Below, plans are interpreted and not adapted: compiling and re-planning them costs more than the rows do.
SMALL_EVENTS: Final = 50_000

R = TypeVar("R", bound=msgspec.Struct)
Rows = list[dict[str, Any]]


def read_history(spark: SparkSession, uri: str) -> DataFrame:
    """The history at `uri`, which the executors must reach too (-> HISTORY)."""
    return spark.read.schema(HISTORY).parquet(uri).transform(conforms, HISTORY)


def analyse(
    spark: SparkSession, history_uri: str, *, subject: str | None = None, reads: tuple[str, ...] = ("read",)
) -> Analysis:
    """Everything that can be said of a history as tables.

    Args:
        history_uri: a path or URI of the Parquet history.
        subject: whose epochs operations are stamped with; by default the one subject that the history asks for.
        reads: the functions `f` that read and must not be stale.

    Raises:
        ValueError: several subjects, and none was named.
    """
    marks = landmarks(read_history(spark, history_uri))
    # A session of its own, for its own settings; it shares the JVM and its executors.
    own = _tuned(spark.newSession(), marks.count)
    history = read_history(own, history_uri)
    ops = history.transform(operations.operations).cache()
    try:
        return _analyse(own, history, ops, marks, subject or _only(marks.subjects), reads)
    finally:
        ops.unpersist()


def _analyse(
    spark: SparkSession, history: DataFrame, ops: DataFrame, marks: Landmarks, subject: str, reads: tuple[str, ...]
) -> Analysis:
    width = availability.bucket_width_ns(marks.end_ns)
    cuts = availability.segments(marks.end_ns, marks.cuts_ns())
    found = _gather(
        {
            "functions": ops.transform(operations.by_function),
            "errors": history.transform(operations.by_error),
            "buckets": ops.transform(operations.by_bucket, width),
            "stale": ops.transform(staleness.stale_reads, reads).transform(_worst, "key"),
            "back": ops.transform(staleness.regressions, reads).transform(_worst, "process"),
            "service": ops.transform(availability.service, _local(spark, cuts, SEGMENTS), width),
            "reigns": history.transform(leadership.claims, _local(spark, marks.backgrounds(), BACKGROUNDS)).transform(
                leadership.reigns
            ),
            "stamps": ops.transform(leadership.stamps),
        }
    )
    begun = beginnings(found["reigns"], found["stamps"], subject)
    reigns = reign_rows(found["reigns"], begun)
    served = [availability.Service(**row) for row in found["service"]]
    old = superseded_reigns(reigns, subject, marks)
    stale_of, stale = _totals(found["stale"], "key")
    back_of, back = _totals(found["back"], "process")
    return Analysis(
        end_ns=marks.end_ns,
        bucket_ns=width,
        functions=_rows(found["functions"], FunctionRow, "f"),
        errors=_rows(found["errors"], ErrorRow, "f", "type", "error"),
        buckets=tuple(
            BucketRow(from_ns=row.pop("bucket") * width, **row) for row in _sorted(found["buckets"], "bucket")
        ),
        stale_reads=sum(row["count"] for row in stale_of),
        stale_reads_by_node={row["node"]: row["count"] for row in _sorted(stale_of, "node")},
        stale_reads_worst=_rows(stale, StaleReadsRow, "-count", "node", "key")[:ROWS_MAX],
        regressions={row["of"]: row["count"] for row in _sorted(back_of, "of")},
        regressions_worst=_rows(back, RegressionRow, "-count", "process", "node", "of")[:ROWS_MAX],
        reigns=tuple(reigns),
        overlaps=tuple(overlap_rows(reigns, begun)),
        superseded=_superseded(ops, _local(spark, old, SUPERSEDED)) if old else (),
        faults=tuple(fault_rows(marks, served, cuts, begun, subject)),
        phases=tuple(phase_rows(marks, served, cuts)),
    )


def _tuned(spark: SparkSession, events: int) -> SparkSession:
    """Settings for the size of the history: what pays for large ones costs small ones most of their time."""
    small = events < SMALL_EVENTS
    spark.conf.set("spark.sql.adaptive.enabled", str(not small).lower())
    spark.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    if small:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark


def _local(spark: SparkSession, rows: Sequence[Any], schema: StructType) -> DataFrame:
    """A small table of the driver's, shipped with the plan; without Arrow it would become a job of its own."""
    plain = [row if isinstance(row, dict) else row._asdict() for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(plain, schema=to_arrow_schema(schema)), schema)


def _superseded(ops: DataFrame, old: DataFrame) -> tuple[SupersededRow, ...]:
    by_reign: dict[tuple[str, int], dict[str, Any]] = {}
    for row in ops.transform(leadership.served_superseded, old).collect():
        by_reign.setdefault((row["node"], row["epoch"]), {})[row["type"]] = row
    return tuple(
        SupersededRow(
            node=node,
            epoch=epoch,
            served=types["ok"]["count"] if "ok" in types else 0,
            refused=types["fail"]["count"] if "fail" in types else 0,
            unknown=types["info"]["count"] if "info" in types else 0,
            first_indexes=tuple(types["ok"]["first_indexes"]) if "ok" in types else (),
        )
        for (node, epoch), types in sorted(by_reign.items())
    )


def _gather(frames: Mapping[str, DataFrame]) -> dict[str, Rows]:
    """Collect several small tables, one after the other; rows in no particular order.

    One union of all of them would be one action, but was measured to cost half as much again: its plan is larger than
    the sum of its parts.
    """
    return {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}


def _worst(frame: DataFrame, total: str) -> DataFrame:
    """The rows that sum up (those without `total`) and then the most frequent ones."""
    rest = [F.col(name) for name in frame.columns if name != "count"]
    return frame.orderBy(F.col(total).isNotNull(), F.col("count").desc(), *rest).limit(2 * ROWS_MAX)


def _totals(rows: Rows, total: str) -> tuple[Rows, Rows]:
    """(the rows that sum up, the others)."""
    return [row for row in rows if row[total] is None], [row for row in rows if row[total] is not None]


def _rows(rows: Rows, kind: type[R], *order: str) -> tuple[R, ...]:
    return tuple(kind(**row) for row in _sorted(rows, *order))


def _sorted(rows: Rows, *order: str) -> Iterable[dict[str, Any]]:
    def place(row: dict[str, Any]) -> list[Any]:
        return [-row[name[1:]] if name.startswith("-") else row[name] for name in order]

    return sorted(rows, key=place)


def _only(subjects: tuple[str, ...]) -> str:
    if len(subjects) > 1:
        raise ValueError(
            f"the history asks for several subjects ({', '.join(subjects)}): name the one that operations use"
        )
    return subjects[0] if subjects else "leader"
