"""Turns a stored history of registers into a table of operations and judges that: pairing, numbering, the search.

    EVENTS -> PAIRED               one window per process, as in `warehouse.operations`; never a join
    PAIRED -> OPERATIONS_TABLE     partitions of whole keys; `register_anomalies.encode` numbers keys and values in the
                                   executors' Python, so two values are equal here if they are on one machine

Of the rules of a history (`harness.history.validate`), pairing checks those that concern one process: it has one open
operation, it does not act after `info`, and its times do not go back.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.checkers.storage.register_anomalies import CAS_REGISTER, encode
from fencepost.checkers.tables.operations import COLUMNS, UNKNOWN, explain, verdict
from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict, Witness
from fencepost.warehouse.by_spark.registers import judge_table, partitions, tuned
from fencepost.warehouse.by_spark.schemas import EVENTS, NAMED_OPERATIONS, OPERATIONS_TABLE, PAIRED
from fencepost.warehouse.spark_tables import conforms

#: Numbers of keys that one partition may give out.
_KEYS_MAX: Final = 1 << 40


def check(spark: SparkSession, uri: str, facts: Facts) -> Verdict:
    """Judge the reads, writes and compare-and-sets of the history at `uri`.

    Raises UsageError for other operations, MalformedHistory for a broken rule.
    """
    own = tuned(spark)
    pairs = own.read.schema(EVENTS).parquet(uri).transform(paired).cache()
    try:
        operations = _look_over(pairs, uri)
        table = pairs.transform(numbered, operations).cache()
        try:
            tally = judge_table(table.select(*COLUMNS).transform(conforms, OPERATIONS_TABLE), facts.budget, uri)

            def explained(keys: list[int]) -> list[Witness]:
                named = table.where(F.col("key").isin(keys)).select("key", "name").distinct().collect()
                return explain(_operations(pairs, [row["name"] for row in named]), facts.budget)

            return verdict(tally, explained, facts, engine="spark", partitions=partitions(tally.operations))
        finally:
            table.unpersist()
    finally:
        pairs.unpersist()


def write_table(spark: SparkSession, history_uri: str, table_uri: str) -> None:
    """Write the table of the history's operations, a folder of part files; the column `name` has each key's name."""
    pairs = tuned(spark).read.schema(EVENTS).parquet(history_uri).transform(paired).cache()
    try:
        pairs.transform(numbered, _look_over(pairs, history_uri)).write.parquet(table_uri)
    finally:
        pairs.unpersist()


def paired(history: DataFrame) -> DataFrame:
    """Pair invocations with their completions (EVENTS -> PAIRED); `broken` says which rule an event breaks."""
    of_process = Window.partitionBy("process").orderBy("index")
    event = F.struct("index", "type", "f", "key", "node", "time_ns", "value")
    events = (
        history.where(F.col("kind") == "op")
        .withColumn("before", F.lag(event).over(of_process))
        .withColumn("after", F.lead(event).over(of_process))
    )
    invoked = F.col("type") == "invoke"
    same = F.lit(True)
    for name in ("f", "key", "node"):
        same = same & F.col(f"before.{name}").eqNullSafe(F.col(name))
    answers = (F.col("before.type") == "invoke") & same
    broken = (
        F.when(F.col("before.time_ns") > F.col("time_ns"), F.lit("its time is before that of its process's last event"))
        .when(invoked & (F.col("before.type") == "invoke"), F.lit("its process has an open operation"))
        .when(invoked & (F.col("before.type") == "info"), F.lit("its process acts after info"))
        .when(~invoked & ~F.coalesce(answers, F.lit(False)), F.lit("it completes no open operation of its process"))
    )
    ended = F.col("after.index").isNotNull() & (F.col("after.type") != "invoke")
    outcome = F.when(ended, F.col("after.type")).otherwise(F.lit("info"))
    return (
        events.withColumn("broken", broken)
        .where(invoked | F.col("broken").isNotNull())
        .select(
            "index",
            F.when(ended, F.col("after.index")).alias("complete_index"),
            "process",
            "f",
            "node",
            "key",
            outcome.alias("type"),
            F.col("time_ns").alias("invoked_ns"),
            F.when(ended & (outcome != "info"), F.col("after.time_ns")).alias("completed_ns"),
            "value",
            F.when(outcome == "ok", F.col("after.value")).alias("result"),
            "broken",
        )
        .transform(conforms, PAIRED)
    )


def numbered(pairs: DataFrame, operations: int) -> DataFrame:
    """Make the table of operations (PAIRED -> NAMED_OPERATIONS)."""
    known = (F.col("type") == "ok") | ((F.col("type") == "info") & (F.col("f") != "read"))
    return (
        pairs.where(known)
        .repartition(partitions(operations), "key")
        .sortWithinPartitions("key", "index")
        .mapInArrow(number_batches, NAMED_OPERATIONS)
        .transform(conforms, NAMED_OPERATIONS)
    )


def number_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Number the keys of one partition, in an executor's Python; each partition has a range of numbers."""
    context = TaskContext.get()
    first = _KEYS_MAX * (context.partitionId() if context else 0)
    schema = to_arrow_schema(NAMED_OPERATIONS)
    for rows in _whole_keys(batches):
        columns = encode([_operation(row) for row in rows])
        names = [columns.keys[key] for key in columns.key.tolist()]
        table = {
            "key": columns.key + first,
            "f": columns.f,
            "a": columns.a,
            "b": columns.b,
            "process": [op.process for op in columns.operations],
            "invoked": columns.invoked,
            "returned": columns.returned.clip(UNKNOWN),
            "name": names,
        }
        first += len(columns.keys)
        yield pa.RecordBatch.from_arrays([pa.array(table[field.name], field.type) for field in schema], schema=schema)


def _whole_keys(batches: Iterable[Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists, none of which splits a key."""
    held: list[dict[str, Any]] = []
    for batch in batches:
        rows = batch.to_pylist()
        if not rows:
            continue
        last = rows[-1]["key"]
        start = next((i for i in range(len(rows), 0, -1) if rows[i - 1]["key"] != last), 0)
        if start:
            yield held + rows[:start]
            held = rows[start:]
        elif held and held[-1]["key"] != last:
            yield held
            held = rows
        else:
            held += rows
    if held:
        yield held


def _look_over(pairs: DataFrame, source: str) -> int:
    """Count the operations; raises MalformedHistory or UsageError if they cannot be judged."""
    totals = pairs.agg(
        F.min(F.when(F.col("broken").isNotNull(), F.struct("index", "broken"))).alias("broken"),
        F.collect_set("f").alias("functions"),
        F.count("*").alias("operations"),
    ).collect()[0]
    if totals["broken"] is not None:
        raise MalformedHistory(f"{source}: event {totals['broken']['index']}: {totals['broken']['broken']}")
    strange = sorted(set(totals["functions"]) - set(CAS_REGISTER.functions))
    if strange:
        raise UsageError(
            f"{source}: operations {', '.join(strange)}: only registers (read, write, cas) are judged through Spark",
            hint="without --spark the history is judged on this machine",
        )
    return int(totals["operations"])


def _operations(pairs: DataFrame, names: Sequence[str | None]) -> list[Operation]:
    """Return all operations of these keys, failed ones included, in the order of invocation."""
    chosen = F.col("key").isin([name for name in names if name is not None])
    if None in names:
        chosen = chosen | F.col("key").isNull()
    return [_operation(row.asDict()) for row in pairs.where(chosen).orderBy("index").collect()]


def _operation(row: dict[str, Any]) -> Operation:
    value, result = (None if row[name] is None else msgspec.json.decode(row[name]) for name in ("value", "result"))
    return Operation(
        invoke_index=row["index"],
        complete_index=row["complete_index"],
        process=row["process"],
        f=row["f"],
        node=row["node"],
        type=Outcome(row["type"]),
        invoked_ns=row["invoked_ns"],
        completed_ns=row["completed_ns"],
        ended_ns=row["completed_ns"],
        key=row["key"],
        value=value,
        result=result,
    )
