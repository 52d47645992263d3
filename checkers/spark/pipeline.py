"""From a stored history to an `Analysis`: one scan feeding several results, and three actions in all.

    1. the landmarks come to the driver;
    2. operations are paired and cached, everything that needs only them is counted;
    3. if some leader was superseded, the operations that it was sent.

Every action of a small history costs more than its work, so the results of one action travel as one union of JSON rows.
All steps are pure functions of built-in column functions: executors need no Python.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark import availability, leadership, operations, staleness
from checkers.spark.landmarks import Landmarks, landmarks
from checkers.spark.results import (
    Analysis,
    BucketRow,
    ErrorRow,
    FunctionRow,
    RegressionRow,
    StaleReadsRow,
    SupersededRow,
)
from checkers.spark.schemas import ELECTIONS, HISTORY, SEGMENTS, STOPS, SUPERSEDED, conforms
from checkers.spark.summary import fault_rows, overlap_rows, phase_rows, reign_rows, superseded_reigns

#: Of tables that grow with the number of keys or processes, how many rows are returned.
ROWS_MAX: Final = 50

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
    history = read_history(spark, history_uri)
    marks = landmarks(history)
    ops = history.transform(operations.operations).cache()
    try:
        return _analyse(spark, history, ops, marks, subject or _only(marks.subjects), reads)
    finally:
        ops.unpersist()


def _analyse(
    spark: SparkSession, history: DataFrame, ops: DataFrame, marks: Landmarks, subject: str, reads: tuple[str, ...]
) -> Analysis:
    width = availability.bucket_width_ns(marks.end_ns)
    cuts = availability.segments(marks.end_ns, marks.cuts_ns())
    claims = leadership.claims(
        history, spark.createDataFrame(marks.stops(), STOPS), spark.createDataFrame(marks.elections(), ELECTIONS)
    )
    stale = ops.transform(staleness.stale_reads, reads)
    back = ops.transform(staleness.regressions, reads)
    found = _gather(
        {
            "functions": ops.transform(operations.by_function),
            "errors": history.transform(operations.by_error),
            "buckets": ops.transform(operations.by_bucket, width),
            "stale": _worst(stale, "node", "key"),
            "stale_by_node": stale.groupBy("node").agg(F.sum("count").alias("count")),
            "back": _worst(back, "process", "node", "of"),
            "back_of": back.groupBy("of").agg(F.sum("count").alias("count")),
            "service": ops.transform(availability.service, spark.createDataFrame(cuts, SEGMENTS), width),
            "reigns": claims.transform(leadership.reigns),
            "beginnings": claims.transform(leadership.beginnings, ops, subject),
        }
    )
    begun = {(row["subject"], row["epoch"]): row["begun_ns"] for row in found["beginnings"]}
    reigns = reign_rows(found["reigns"], begun)
    served = [availability.Service(**row) for row in found["service"]]
    old = superseded_reigns(reigns, subject, marks)
    return Analysis(
        end_ns=marks.end_ns,
        bucket_ns=width,
        functions=_rows(found["functions"], FunctionRow, "f"),
        errors=_rows(found["errors"], ErrorRow, "f", "type", "error"),
        buckets=tuple(
            BucketRow(from_ns=row.pop("bucket") * width, **row) for row in _sorted(found["buckets"], "bucket")
        ),
        stale_reads=sum(row["count"] for row in found["stale_by_node"]),
        stale_reads_by_node={row["node"]: row["count"] for row in _sorted(found["stale_by_node"], "node")},
        stale_reads_worst=_rows(found["stale"], StaleReadsRow, "-count", "node", "key"),
        regressions={row["of"]: row["count"] for row in _sorted(found["back_of"], "of")},
        regressions_worst=_rows(found["back"], RegressionRow, "-count", "process", "node", "of"),
        reigns=tuple(reigns),
        overlaps=tuple(overlap_rows(reigns, begun)),
        superseded=_superseded(ops, spark.createDataFrame(old, SUPERSEDED)) if old else (),
        faults=tuple(fault_rows(marks, served, cuts, begun, subject)),
        phases=tuple(phase_rows(marks, served, cuts)),
    )


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
    """Collect several small frames in one action; rows in no particular order."""
    # Nulls are written out, so that every row has all its columns.
    texts = [
        frame.select(F.lit(name).alias("name"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"))
        for name, frame in frames.items()
    ]
    union = texts[0]
    for other in texts[1:]:
        union = union.unionAll(other)
    found: dict[str, Rows] = {name: [] for name in frames}
    for name, row in union.collect():
        found[name].append(json.loads(row))
    return found


def _worst(frame: DataFrame, *keys: str) -> DataFrame:
    return frame.orderBy(F.col("count").desc(), *keys).limit(ROWS_MAX)


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
