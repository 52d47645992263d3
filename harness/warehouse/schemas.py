"""Every table of the pipeline as one `StructType`: names and units are fixed here, and steps spell columns plainly.

A name in the docstrings such as HISTORY -> OPERATIONS means these tables. Nothing is inferred: the reader passes
HISTORY, and every step that makes a table ends in `conforms`.
"""

from typing import Final

from pyspark.sql import types as T

from fencepost.harness.base.spark_tables import table as _table

_LONG: Final = T.LongType()
_TEXT: Final = T.StringType()
_TEXTS: Final = T.ArrayType(T.StringType())
_LONGS: Final = T.ArrayType(T.LongType())
_FLAG: Final = T.BooleanType()
_DOUBLE: Final = T.DoubleType()


#: The history file: one row per event in the order of `index`, columns as the fields of `harness.history.operation`'s
#: events.
HISTORY: Final = _table(
    kind=_TEXT,
    index=_LONG,
    time_ns=_LONG,
    type=_TEXT,
    process=_LONG,
    f=_TEXT,
    node=_TEXT,
    key=_TEXT,
    value=_TEXT,
    error=_TEXT,
    position=_LONG,
    value_position=_LONG,
    epoch=_LONG,
    session=_LONG,
    fault_id=_LONG,
    fault=_TEXT,
    action=_TEXT,
    stage=_TEXT,
    outcome=_TEXT,
    target=_TEXT,
    nodes=_TEXTS,
    severed=_TEXTS,
    leader=_TEXT,
    proof=_TEXT,
    why=_TEXT,
    subject=_TEXT,
    incarnation=_LONG,
    claims=_TEXT,
    asked_ns=_LONG,
    answered_ns=_LONG,
    source=_TEXT,
    epoch_exact=_FLAG,
    detail=_TEXT,
    change=_TEXT,
    pid=_LONG,
    exit_status=_LONG,
    expected=_FLAG,
    phase=_TEXT,
    loop_lag_ns_max=_LONG,
    cpu_stall_ns=_LONG,
    node_cpu_ns=_TEXT,
    topic=_TEXT,
    text=_TEXT,
    details=_TEXT,
    clock=_TEXT,
    since_ns=_LONG,
    offset_ns=_LONG,
    rate=_DOUBLE,
    period_ns=_LONG,
    delta_ns=_LONG,
    length_ns=_LONG,
    certain=_FLAG,
    effects=_table(stops=_TEXT, cuts=_FLAG, holds=_FLAG, delays=_FLAG, skews=_FLAG, changes_members=_FLAG),
)

#: The events of operations, and beside each the newest position of its key that was known when it happened: a lower
#: bound on what any linearizable read invoked from then on may return. `known_since_ns`: since when it was known.
KNOWN: Final = _table(
    index=_LONG,
    time_ns=_LONG,
    type=_TEXT,
    process=_LONG,
    f=_TEXT,
    node=_TEXT,
    key=_TEXT,
    position=_LONG,
    value_position=_LONG,
    epoch=_LONG,
    session=_LONG,
    known_position=_LONG,
    known_since_ns=_LONG,
)

#: One row per operation, as `harness.history.operation.Operation`; `known_*` as at its invocation. `latency_ns` runs
#: until the caller stopped waiting, whatever the outcome.
OPERATIONS: Final = _table(
    invoke_index=_LONG,
    complete_index=_LONG,
    process=_LONG,
    f=_TEXT,
    node=_TEXT,
    key=_TEXT,
    type=_TEXT,
    invoked_ns=_LONG,
    completed_ns=_LONG,
    ended_ns=_LONG,
    latency_ns=_LONG,
    position=_LONG,
    value_position=_LONG,
    epoch=_LONG,
    session=_LONG,
    known_position=_LONG,
    known_since_ns=_LONG,
)

#: OPERATIONS, and what the same session, and the same process for the same key, had been shown before.
SEEN: Final = T.StructType([*OPERATIONS.fields, *_table(session_position=_LONG, key_position=_LONG).fields])

FUNCTIONS: Final = _table(
    f=_TEXT,
    ok=_LONG,
    fail=_LONG,
    info=_LONG,
    latency_ns_p50=_LONG,
    latency_ns_p95=_LONG,
    latency_ns_p99=_LONG,
    latency_ns_max=_LONG,
)

BUCKETS: Final = _table(
    bucket=_LONG,
    ok=_LONG,
    fail=_LONG,
    info=_LONG,
    latency_ns_p50=_LONG,
    latency_ns_p99=_LONG,
    latency_ns_max=_LONG,
)

ERRORS: Final = _table(f=_TEXT, type=_TEXT, error=_TEXT, count=_LONG)

STALE_READS: Final = _table(node=_TEXT, key=_TEXT, count=_LONG, overdue_ns_max=_LONG, first_index=_LONG)

REGRESSIONS: Final = _table(process=_LONG, node=_TEXT, of=_TEXT, count=_LONG, first_index=_LONG)

#: Segments cut the run at every landmark and bucket edge: [from_ns, to_ns), without gaps, each within one bucket.
SEGMENTS: Final = _table(segment=_LONG, bucket=_LONG, from_ns=_LONG, to_ns=_LONG)

#: What clients got in one segment from one node: by invocation (ok, fail, info), and by completion (served, the rest).
SERVICE: Final = _table(
    segment=_LONG,
    node=_TEXT,
    ok=_LONG,
    fail=_LONG,
    info=_LONG,
    served=_LONG,
    first_ok_ns=_LONG,
    last_ok_ns=_LONG,
    gap_ns_max=_LONG,
    gap_from_ns=_LONG,
)

#: What else is known of one incarnation of a node: when it was proven not to run (disjoint intervals), and when its own
#: log was read to say that it had become leader.
BACKGROUNDS: Final = _table(
    node=_TEXT,
    incarnation=_LONG,
    stops=T.ArrayType(_table(from_ns=_LONG, to_ns=_LONG)),
    elections=T.ArrayType(_table(epoch=_LONG, read_ns=_LONG)),
)

#: Every answer "yes, I lead": `lo_ns` is the earliest moment of which it can speak.
CLAIMS: Final = _table(
    index=_LONG, subject=_TEXT, node=_TEXT, incarnation=_LONG, epoch=_LONG, lo_ns=_LONG, answered_ns=_LONG, exact=_FLAG
)

REIGNS: Final = _table(
    subject=_TEXT,
    node=_TEXT,
    incarnation=_LONG,
    epoch=_LONG,
    exact=_FLAG,
    from_ns=_LONG,
    certain_from_ns=_LONG,
    certain_to_ns=_LONG,
    to_ns=_LONG,
    samples=_LONG,
)

#: When an epoch first stamped an `ok` operation.
STAMPS: Final = _table(epoch=_LONG, first_ok_ns=_LONG)

#: Reigns that a later epoch ended: from `superseded_ns` on its leader should no longer act.
SUPERSEDED: Final = _table(
    node=_TEXT, epoch=_LONG, incarnation_from_ns=_LONG, superseded_ns=_LONG, claimed_until_ns=_LONG
)

SERVED_SUPERSEDED: Final = _table(node=_TEXT, epoch=_LONG, type=_TEXT, count=_LONG, first_indexes=_LONGS)
