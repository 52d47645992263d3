"""Each step on a few rows of its declared schema, both sides of every bound."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from fencepost.harness.base import spark_tables
from fencepost.harness.results.columns import COLUMNS
from fencepost.harness.results.columns import schema as arrow_schema
from fencepost.harness.warehouse import leadership, schemas
from fencepost.harness.warehouse.operations import operations
from fencepost.harness.warehouse.service import Gap, Segment, Service, longest_gap, segments, service
from fencepost.harness.warehouse.staleness import regressions, stale_reads

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, schema: StructType, *rows: dict[str, Any]) -> DataFrame:
    names = schema.fieldNames()
    assert all(set(row) <= set(names) for row in rows)
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)


def rows_of(found: DataFrame, schema: StructType, *columns: str) -> list[Any]:
    """The rows, ordered; the schema is compared first."""
    found.transform(spark_tables.conforms, schema)
    return sorted((tuple(row) for row in found.select(*columns).collect()), key=repr)


def op(index: int, type_: str, process: int = 0, f: str = "read", **more: Any) -> dict[str, Any]:
    key = None if f == "sync" else "k"
    common = {"kind": "op", "index": index, "time_ns": index * 10, "node": "n1", "key": key}
    return common | {"type": type_, "process": process, "f": f} | more


def test_history_is_the_harness_s_own() -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    assert from_arrow_schema(arrow_schema()) == schemas.HISTORY
    assert schemas.HISTORY.fieldNames() == list(COLUMNS)


def test_a_frame_that_does_not_conform_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match=r"expected the columns .*'first_ok_ns', 'bigint'.* got .*'id', 'bigint'"):
        spark.range(1).transform(spark_tables.conforms, schemas.STAMPS)


def test_operations_are_paired(spark: SparkSession) -> None:
    history = frame(
        spark,
        schemas.HISTORY,
        op(0, "invoke"),
        op(1, "invoke", process=1, f="write"),
        {"kind": "note", "index": 2, "time_ns": 20},
        op(3, "ok", position=7, epoch=2),
        op(4, "invoke"),
        op(5, "info", process=1, f="write", error="timeout"),
        op(6, "invoke", process=2),
    )
    found = rows_of(
        operations(history), schemas.OPERATIONS, "invoke_index", "complete_index", "type", "completed_ns", "latency_ns"
    )
    assert found == [
        (0, 3, "ok", 30, 30),
        (1, 5, "info", None, 40),
        (4, None, "info", None, None),
        (6, None, "info", None, None),
    ]


@pytest.mark.parametrize(("invoked", "position", "count"), [(4, 5, 1), (4, 6, 0), (2, 5, 0)])
def test_a_read_is_stale_when_a_newer_position_was_known_as_it_was_invoked(
    spark: SparkSession, invoked: int, position: int, count: int
) -> None:
    read = [op(invoked, "invoke", process=1), op(5, "ok", process=1, value_position=position)]
    history = frame(
        spark,
        schemas.HISTORY,
        op(0, "invoke", f="write"),
        op(3, "ok", f="write", value_position=6),
        *read,
        # Another key, and an outcome that proves nothing.
        op(6, "invoke", process=3, key="other"),
        op(7, "ok", process=3, key="other", value_position=1),
    )
    found = rows_of(
        history.transform(operations).transform(stale_reads), schemas.STALE_READS, "key", "count", "overdue_ns_max"
    )
    assert found == ([("k", 1, 10), (None, 1, 10)] if count else [])


@pytest.mark.parametrize("kept", [True, False])
def test_positions_go_back_in_one_session_only(spark: SparkSession, kept: bool) -> None:
    history = frame(
        spark,
        schemas.HISTORY,
        op(0, "invoke", f="sync"),
        op(1, "ok", f="sync", position=9, session=1),
        op(2, "invoke", f="sync"),
        op(3, "ok", f="sync", position=8, session=1 if kept else 2),
    )
    found = rows_of(
        history.transform(operations).transform(regressions), schemas.REGRESSIONS, "of", "process", "first_index"
    )
    assert found == ([("session", 0, 2), ("session", None, 2)] if kept else [])


BELIEF = {"kind": "belief", "subject": "leader", "node": "n1", "incarnation": 0, "claims": "yes"}


def test_a_claim_speaks_of_no_moment_in_which_the_node_was_stopped(spark: SparkSession) -> None:
    asked_and_lo = [(9, 9), (10, 50), (49, 50), (50, 50), (90, 95)]
    history = frame(
        spark,
        schemas.HISTORY,
        *(
            BELIEF | {"index": index, "asked_ns": asked, "answered_ns": 95, "epoch": 1}
            for index, (asked, _) in enumerate(asked_and_lo)
        ),
    )
    background = {"node": "n1", "incarnation": 0, "stops": [(10, 50), (90, 99)], "elections": []}
    found = leadership.claims(history, frame(spark, schemas.BACKGROUNDS, background))
    assert rows_of(found, schemas.CLAIMS, "index", "lo_ns") == [(i, lo) for i, (_, lo) in enumerate(asked_and_lo)]


def test_an_epoch_that_is_only_bounded_comes_from_the_node_s_own_log(spark: SparkSession) -> None:
    read_ns = 1_000_000_000
    last = read_ns - leadership.LOG_DELAY_NS
    bounds_answers_expected = [
        (3, last, 4, True),
        (3, last - 1, 3, False),  # the line came too late for this answer
        (5, last, 5, False),  # the log knows of no such epoch
        (None, last, 4, True),
    ]
    history = frame(
        spark,
        schemas.HISTORY,
        BELIEF | {"claims": "no", "index": 9},
        *(
            BELIEF | {"index": i, "asked_ns": at, "answered_ns": at, "epoch": bound, "epoch_exact": False}
            for i, (bound, at, _, _) in enumerate(bounds_answers_expected)
        ),
    )
    background = {"node": "n1", "incarnation": 0, "stops": [], "elections": [(4, read_ns)]}
    found = leadership.claims(history, frame(spark, schemas.BACKGROUNDS, background))
    assert rows_of(found, schemas.CLAIMS, "index", "epoch", "exact") == [
        (i, epoch, exact) for i, (_, _, epoch, exact) in enumerate(bounds_answers_expected)
    ]


def test_what_a_superseded_leader_was_sent(spark: SparkSession) -> None:
    """It was superseded at 100 and claimed its epoch 4 until 300."""
    changes_and_counted: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"invoked_ns": 100}, False),  # not after the later epoch had begun
        ({"completed_ns": 300}, False),  # not before the last claim
        ({"completed_ns": 300, "epoch": 4}, True),  # but its own stamp says so
        ({"completed_ns": 300, "epoch": 5}, False),
        ({"node": "n2"}, False),
        ({"type": "fail"}, True),
        ({"type": "info", "completed_ns": None}, True),
        ({"type": "info", "completed_ns": None, "invoked_ns": 300}, False),
    ]
    late = {"node": "n1", "type": "ok", "invoked_ns": 101, "completed_ns": 299}
    ops = [late | {"invoke_index": i} | changes for i, (changes, _) in enumerate(changes_and_counted)]
    reign = {"node": "n1", "epoch": 4, "incarnation_from_ns": 0, "superseded_ns": 100, "claimed_until_ns": 300}
    earlier_incarnation = reign | {"epoch": 3, "incarnation_from_ns": 200}
    found = leadership.served_superseded(
        frame(spark, schemas.OPERATIONS, *ops), frame(spark, schemas.SUPERSEDED, reign, earlier_incarnation)
    )
    assert rows_of(found, schemas.SERVED_SUPERSEDED, "node", "epoch", "type", "first_indexes") == [
        ("n1", 4, "fail", [6]),
        ("n1", 4, "info", [7]),
        ("n1", 4, "ok", [0, 3]),
    ]
    assert [i for i, (_, counted) in enumerate(changes_and_counted) if counted] == [0, 3, 6, 7]


def test_service_counts_and_gaps_per_segment(spark: SparkSession) -> None:
    """Cut within a bucket, at the very moment of a completion, which belongs to what follows."""
    cuts = segments(999, [255])
    width = 10
    ops = [
        {"node": "n1", "type": "ok", "invoked_ns": 250, "completed_ns": 250},
        {"node": "n2", "type": "fail", "invoked_ns": 251, "completed_ns": 252},
        {"node": "n2", "type": "ok", "invoked_ns": 252, "completed_ns": 254},
        {"node": "n1", "type": "ok", "invoked_ns": 254, "completed_ns": 255},
        {"node": "n1", "type": "info", "invoked_ns": 256},
    ]
    cut_rows = [cut._asdict() for cut in cuts]
    found = service(frame(spark, schemas.OPERATIONS, *ops), frame(spark, schemas.SEGMENTS, *cut_rows), width)
    columns = ("node", "ok", "fail", "info", "served", "gap_ns_max", "gap_from_ns")
    before, after = (next(c.segment for c in cuts if c.from_ns == at) for at in (250, 255))
    assert rows_of(found.where(F.col("segment") == before), schemas.SERVICE, *columns) == [
        ("n1", 2, 0, 0, 1, None, None),
        ("n2", 1, 1, 0, 1, 4, 250),
    ]
    assert rows_of(found.where(F.col("segment") == after), schemas.SERVICE, *columns) == [
        ("n1", 0, 0, 1, 1, None, None)
    ]


def test_segments_cover_the_run_without_gaps() -> None:
    cuts = segments(1234, [0, 7, 7, 500, 1234, 9999])
    assert [c.to_ns for c in cuts[:-1]] == [c.from_ns for c in cuts[1:]]
    assert (cuts[0].from_ns, cuts[-1].to_ns) == (0, 1235)
    assert {7, 500, 1234} <= {c.from_ns for c in cuts}
    assert all(c.from_ns // 13 == c.bucket == (c.to_ns - 1) // 13 for c in cuts)
    assert segments(0, []) == [Segment(0, 0, 0, 1)]


def test_the_longest_gap_may_lie_inside_between_or_at_the_ends_of_segments() -> None:
    def row(segment: int, first: int, last: int, gap: int | None, gap_from: int | None) -> Service:
        return Service(segment, "n1", 1, 0, 0, 2, first, last, gap, gap_from)

    assert longest_gap([row(1, 10, 40, 25, 12), row(2, 50, 60, 10, 50)], 0, 70) == Gap(25, 12)
    assert longest_gap([row(1, 10, 12, 2, 10), row(3, 50, 60, 10, 50)], 0, 70) == Gap(38, 12)
    assert longest_gap([row(1, 30, 32, 2, 30)], 0, 40) == Gap(30, 0)
    assert longest_gap([row(1, 1, 2, 1, 1)], 0, 90) == Gap(88, 2)
    assert longest_gap([], 5, 9) == Gap(4, 5)
