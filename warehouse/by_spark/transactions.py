"""Transactions judged through Spark: edges by key, pruned to those that may close a cycle, which are judged natively.

    table -> MICRO_OPERATIONS    one row each, dealt out by key
    MICRO_OPERATIONS -> PIECES   what whole keys show: anomalies, dependencies, who was seen; one native call a part
    PIECES -> a core             those dependencies that may lie on a cycle (`checkers.tables.transactions_windows`)

The core is collected and judged natively, with real time. What is found then names few keys. Their transactions are
read again and judged as on one machine, which tells and confirms everything again; a finding that is not repeated is a
defect.

Without any finding the points of the transactions are an order of them all. `valid` rests on its being carried out,
key by key, by `checkers.tables.transactions_by_key.explained`. For registers the order is one of several, so it may
fail there; then, and where findings do not rule out the model that is asked for, the whole table is judged on one
machine if it fits into the budget's memory, and is `unknown` else.

Nothing depends on how many machines take part: parts of tables do not matter, and cores are the same.

Size: one file, since one class carries the table through the steps above, in their order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.checkers.findings.finding import Conclusion, Doubt, conclude, contradicted
from fencepost.checkers.tables import transactions_windows as transaction_windows
from fencepost.checkers.tables.transactions import (
    TIME_MAX,
    Judgement,
    Rows,
    malformed,
    model_of,
    null_in,
    same_number,
    schema,
    two_open,
    two_writes,
    verdict,
)
from fencepost.checkers.tables.transactions_by_key import (
    ANOMALY,
    BROKEN,
    CHANCES,
    CIRCLE,
    COUNTED,
    EDGE,
    NO_TRANSACTION,
    NULLS,
    OBSERVED,
    TWICE,
    VIRTUAL_MAX,
    explained,
    pieces,
    whole_keys,
)
from fencepost.checkers.tables.transactions_core import Transactions, collected
from fencepost.checkers.tables.transactions_core import judged as judged_core
from fencepost.checkers.tables.transactions_file import judge, judged, rows_of
from fencepost.checkers.tables.transactions_windows import UNRAISED, Column, Edges, Points, Windows
from fencepost.checkers.transactions.anomalies import NOTHING_TESTED, asks_for_real_time
from fencepost.checkers.transactions.columns import FAIL, INFO, NEVER, OK, READ, WRITE
from fencepost.checkers.transactions.native import Assumed
from fencepost.checkers.transactions.rules import READS_ELSEWHERE, WRITES_ELSEWHERE, Chances, rules_of
from fencepost.checkers.transactions.weak_isolation import CommitCircle
from fencepost.checkers.transactions.words import TransactionFinding
from fencepost.harness.base.errors import HarnessError, MalformedHistory, unknown_choice
from fencepost.harness.verdict import Cause, Facts, Stop, Validity, Verdict
from fencepost.harness.verdict.consistency_models import NAMES, implied, ruled_out, ruled_out_of_registers
from fencepost.harness.verdict.figures import TransactionTableFigures
from fencepost.harness.verdict.tables import LIST_APPEND
from fencepost.warehouse.by_spark.registers import tuned
from fencepost.warehouse.by_spark.schemas import MICRO_OPERATIONS, PIECES, UNEXPLAINED
from fencepost.warehouse.spark_tables import conforms

if TYPE_CHECKING:
    from pyspark import Broadcast

#: One task's share of transactions, and the least number of tasks.
PARTITION_TRANSACTIONS: Final = 250_000
PARTITIONS_MIN: Final = 2
#: Memory for each edge that is collected, and by how much more a table takes while it is judged than its numbers do.
_EDGE_BYTES: Final = 200
_OVERHEAD: Final = 4
_ORDER_FAILS: Final = "the order that was tried does not explain all reads"
_FROM_THE_FIRST: Final = Window.unboundedPreceding
_TOP: Final = ("transaction", "process", "outcome", "invoked", "completed")
#: Where `checkers.tables.transactions_by_key` puts what it counts.
_COUNTED: Final = {"keys": "key", "micro_operations": "source", "reads": "target", "elements": "kind"}
_BY_KEY: Final = ("ww", "wr", "rw")


def check(spark: SparkSession, uri: str, facts: Facts, model: str | None = None) -> Verdict:
    """Judge the table of transactions at `uri`, which executors must reach too; raises MalformedHistory."""
    own = tuned(spark)
    table = own.read.parquet(uri)
    model = model_of(_arrow(table), uri, model)
    return Judging(own, table.select(*schema(lists=True).names), uri, facts, model).verdict()


@dataclass
class _Searched:
    """What the keys show under one set of assumptions; `keys` has two for each kind of finding, and those of cycles."""

    anomalies: dict[str, int] = field(default_factory=dict)
    keys: set[int] = field(default_factory=set)
    circles: int = 0
    cycles: tuple[str, ...] = ()
    points: Points | None = None
    counts: dict[str, int] = field(default_factory=dict)
    #: Why there is no answer, and which part of the budget ended the search.
    ended: str = ""
    stop: Stop | None = None

    @property
    def is_clean(self) -> bool:
        return not (self.anomalies or self.cycles or self.circles)


class Judging:
    """The steps from one table to its verdict.

    Size: one class carries the table through its steps, in their order.
    """

    def __init__(self, spark: SparkSession, table: DataFrame, source: str, facts: Facts, model: str) -> None:
        self._spark = spark
        self._table = table
        self._source = source
        self._facts = facts
        self._model = model
        self._lists = model == LIST_APPEND
        self._held = facts.required[0]
        self._counts: dict[str, int] = {}
        #: How many transactions did not fail, and how often each rule could have fired.
        self._happened = 0
        self._chances = Chances()
        #: Transactions of unknown outcome that happened.
        self._seen: Column = np.zeros(0, np.int64)

    def verdict(self) -> Verdict:
        """Judge the whole table; raises MalformedHistory."""
        if self._held not in NAMES:
            raise unknown_choice("consistency model", self._held, NAMES)
        self._counts = self._look_over()
        assumed = Assumed()
        if not self._lists:
            assumed = Assumed(
                sequential="strong-session-snapshot-isolation" in implied(self._held),
                linearizable=asks_for_real_time(self._held),
            )
        searched = self._search(assumed)
        if searched.is_clean and not self._counts["reads"]:
            return self._say(conclude(broken="", doubt=Doubt(Cause.NO_EXPOSURE, NOTHING_TESTED)), searched)
        if not searched.is_clean:
            return self._confirmed(searched, assumed)
        if searched.ended:
            return self._say(conclude(broken="", doubt=Doubt(Cause.OUT_OF_BUDGET, searched.ended)), searched)
        if searched.points is not None:
            wrong = self._unexplained_key(searched.points)
            if wrong is None:
                return self._say(conclude(broken=""), searched, certificate="a serial order that keeps real time")
            if self._lists:
                why = f"the search found an order of all transactions, and its replay does not explain key {wrong}"
                return self._say(conclude(broken="", doubt=contradicted([why])), searched)
            return self._whole(
                searched, "no anomaly was found, and the order that was tried does not explain all reads"
            )
        return self._whole(searched, "no anomaly was found, and no order keeps real time")

    # What concerns transactions apart from their micro-operations; the rules of these are looked at where they are.

    def _look_over(self) -> dict[str, int]:
        """Check the rows and return the number of transactions; raises MalformedHistory."""
        invoked, completed, outcome = F.col("invoked"), F.col("completed"), F.col("outcome")
        late = (completed <= invoked) | (completed > TIME_MAX)
        broken = (F.col("transaction") < 0) | ~outcome.between(OK, INFO) | ~invoked.between(0, TIME_MAX)
        top = self._table.select(*_TOP, F.col("ops").isNull().alias("without"))
        totals = top.agg(
            *(F.count(F.when(F.col(name).isNull(), 1)).alias(name) for name in _TOP),
            F.count(F.when(F.col("without"), 1)).alias("ops"),
            F.count("*").alias("transactions"),
            F.count(F.when(outcome == INFO, 1)).alias("info_transactions"),
            F.count(F.when(outcome != FAIL, 1)).alias("happened"),
            F.min(F.when(broken | ((outcome == OK) & late), F.struct("invoked", *_TOP))).alias("broken"),
        ).collect()[0]
        for name in (*_TOP, "ops"):
            if totals[name]:
                raise null_in(self._source, f"column {name!r}", totals[name])
        if totals["broken"] is not None:
            raise self._malformed(dict(zip(_TOP, totals["broken"][1:], strict=True)))
        again = top.groupBy("transaction").count().where(F.col("count") > 1).orderBy("transaction").first()
        if again is not None:
            raise same_number(self._source, again["transaction"], again["count"])
        earlier = Window.partitionBy("process").orderBy("invoked", "transaction").rowsBetween(_FROM_THE_FIRST, -1)
        completed = F.when(F.col("outcome") == OK, F.struct("completed", "transaction"))
        opened = (
            top.withColumn("before", F.max(completed).over(earlier))
            .where(F.col("before.completed") > F.col("invoked"))
            .orderBy("invoked", "transaction")
            .first()
        )
        if opened is not None:
            raise two_open(self._source, opened["process"], opened["transaction"], opened["before"]["transaction"])
        self._happened = int(totals["happened"])
        return {name: int(totals[name]) for name in ("transactions", "info_transactions")}

    def _malformed(self, row: dict[str, int]) -> MalformedHistory:
        """Return the error that the check on one machine raises for a row that breaks a rule of whole transactions."""
        one = pa.Table.from_pylist([{**row, "ops": []}], schema=schema(lists=self._lists))
        breach = Rows(one, lists=self._lists).broken()
        if breach is None:
            raise HarnessError(f"{self._source}: transaction {row['transaction']} was refused, and breaks no rule")
        return malformed(self._source, *breach[1:])

    # By key.

    def _micro(self) -> DataFrame:
        """Bring all micro-operations of a key together in one partition (-> MICRO_OPERATIONS)."""
        op = F.col("op")
        lacking = (op, op["f"], op["key"])
        ok, not_failed = F.col("outcome") == OK, F.col("outcome") != FAIL
        f = op["f"].cast("int")
        for null, field_ in reversed(list(zip(NULLS, lacking, strict=True))):
            f = F.when(field_.isNull(), null).otherwise(f)
        dealt = self._table.select(*_TOP, "ops", F.posexplode("ops").alias("place", "op")).select(
            F.coalesce(op["key"], F.lit(0)).alias("key"),
            "transaction",
            "process",
            "outcome",
            "invoked",
            F.when(F.col("outcome") == OK, F.col("completed")).otherwise(NEVER).alias("completed"),
            "place",
            (WRITES_ELSEWHERE * _elsewhere(WRITE, not_failed) + READS_ELSEWHERE * _elsewhere(READ, ok))
            .cast("byte")
            .alias("elsewhere"),
            f.alias("f"),
            op["value"].alias("value"),
            (op["list"] if self._lists else F.lit(None).cast("array<bigint>")).alias("list"),
        )
        # Spark unpacks the rows by itself: to hand all of them to Python and back would cost more than judging them.
        parts = dealt.transform(conforms, MICRO_OPERATIONS).repartition(self._partitions(), "key")
        return parts.sortWithinPartitions("key")

    def _partitions(self) -> int:
        return max(PARTITIONS_MIN, -(-self._counts["transactions"] // PARTITION_TRANSACTIONS))

    def _search(self, assumed: Assumed) -> _Searched:
        """Search for all anomalies; raises MalformedHistory."""
        shown = self._micro().mapInArrow(partial(_show, self._lists, assumed), PIECES).transform(conforms, PIECES)
        shown = shown.persist()
        try:
            return self._searched(shown)
        finally:
            shown.unpersist()

    def _searched(self, shown: DataFrame) -> _Searched:
        searched = _Searched()
        sums = self._sums(shown)
        of = {row["what"]: row for row in sums if row["anomaly"] is None}
        if BROKEN in of:
            _, number, rule, whose = of[BROKEN]["least"]
            named = whose != NO_TRANSACTION
            raise malformed(self._source, number, rule) if named else MalformedHistory(f"{self._source}: {rule}")
        if TWICE in of:
            raise two_writes(self._source, *of[TWICE]["write"])
        for counted, column in _COUNTED.items():
            self._counts[counted] = int(of[COUNTED][column]) if COUNTED in of else 0
        searched.counts = {"edges": int(of[EDGE]["count"]) if EDGE in of else 0}
        searched.circles = int(of[CIRCLE]["count"]) if CIRCLE in of else 0
        searched.anomalies = {row["anomaly"]: int(row["count"]) for row in sums if row["what"] == ANOMALY}
        self._chances = Chances(**{row["anomaly"]: int(row["source"]) for row in sums if row["what"] == CHANCES})
        for row in sums:
            if row["what"] in (ANOMALY, CIRCLE):
                searched.keys |= {row["first_key"], row["last_key"]}
        if OBSERVED in of:
            seen = shown.where(F.col("what") == OBSERVED).select("source").distinct().toArrow()
            self._seen = np.sort(_numbers(seen, "source"))
        self._judge_core(shown, searched)
        return searched

    def _sums(self, shown: DataFrame) -> list[Any]:
        """Count pieces by kind, anomaly and chance, with sums, two keys, and the first broken rule or repeat."""
        anomaly = F.when(F.col("what").isin(ANOMALY, CHANCES), F.col("name")).alias("anomaly")
        sums = shown.groupBy("what", anomaly).agg(
            F.count("*").alias("count"),
            *(F.sum(name).alias(name) for name in _COUNTED.values()),
            F.min("key").alias("first_key"),
            F.max("key").alias("last_key"),
            F.min(F.struct("source_time", "source", "name", "kind")).alias("least"),
            F.min(F.struct("key", "kind", "source", "target")).alias("write"),
        )
        return sums.orderBy("what", "anomaly").collect()

    def _judge_core(self, shown: DataFrame, searched: _Searched) -> None:
        """Search for cycles; without any, find the points of an order, or say why there is no answer."""
        edges = shown.where(F.col("what") == EDGE).select(*Edges._fields)
        limit = self._facts.budget.memory_bytes // _EDGE_BYTES
        core = collected(
            lambda points, spanned: self._scan(edges, points, spanned, limit), searched.counts["edges"], limit
        )
        searched.counts["rounds"] = core.rounds
        if core.edges is None:
            searched.ended = (
                f"more than {limit} dependencies may lie on a cycle: the budget's memory does not hold them"
            )
            searched.stop = Stop.MEMORY
            return
        searched.counts["core_edges"] = len(core.edges)
        if not len(core.edges):
            searched.points = core.points
            return
        nodes = np.unique(np.concatenate([core.edges.source, core.edges.target]))
        result = judged_core(core.edges, core.points, self._transactions(nodes[nodes >= 0]))
        searched.counts |= result.figures
        searched.points = result.points
        # As on one machine, cycles with real time are no findings where the model does not ask for it.
        cycles = [one for one in result.cycles if asks_for_real_time(self._held) or not one[0].endswith("-realtime")]
        searched.cycles = tuple(name for name, _ in cycles)
        searched.keys |= self._keys_of(shown, [step for _, steps in cycles for step in steps])
        if searched.points is None and not result.cycles:
            searched.ended = "there are cycles; the budget ended before any of them was found"
            searched.stop = result.stop

    def _scan(self, edges: DataFrame, points: Points, spanned: Windows | None, limit: int) -> Edges:
        """Return the edges that are not forward, or those within windows; at most one more than `limit`."""
        if spanned is None and points is UNRAISED:
            chosen = edges.where(F.col("source_time") >= F.col("target_time"))
        else:
            given = self._spark.sparkContext.broadcast((points, spanned))
            chosen = edges.mapInArrow(partial(_choose, given), edges.schema)
        edges_chosen = chosen.limit(limit + 1).toArrow()
        return Edges(*(_numbers(edges_chosen, name) for name in Edges._fields))

    def _transactions(self, numbers: Column) -> Transactions:
        """Return these transactions without their micro-operations."""
        chosen = self._spark.createDataFrame(pa.table({"transaction": numbers}))
        chosen_rows = self._table.select(*_TOP).join(F.broadcast(chosen), "transaction").toArrow()
        columns = [_numbers(chosen_rows, name) for name in _TOP]
        order = np.lexsort((columns[0], columns[_TOP.index("invoked")]))
        return Transactions(*(np.ascontiguousarray(column[order]) for column in columns))

    def _keys_of(self, shown: DataFrame, steps: Sequence[tuple[int, int, str]]) -> set[int]:
        """Return the keys that cause the steps of cycles, and those that show transactions of unknown outcome."""
        pairs = {(before, after) for before, after, kind in steps if kind in _BY_KEY}
        if not pairs:
            return set()
        involved = sorted({number for pair in pairs for number in pair})
        rows = self._table.where(F.col("transaction").isin(involved))
        key_rows = rows.select("transaction", F.array_distinct(F.col("ops.key")).alias("keys")).collect()
        keys = {row["transaction"]: set(row["keys"]) for row in key_rows}
        seen = shown.where((F.col("what") == OBSERVED) & F.col("source").isin(involved)).select("key").distinct()
        return {key for before, after in pairs for key in keys[before] & keys[after]} | {
            row["key"] for row in seen.collect()
        }

    # What is said.

    def _unexplained_key(self, points: Points) -> int | None:
        """A key whose reads the order of points does not explain."""
        given = self._spark.sparkContext.broadcast((points, self._seen))
        wrong = self._micro().mapInArrow(partial(_unexplained, self._lists, given), UNEXPLAINED).limit(1).collect()
        return int(wrong[0]["key"]) if wrong else None

    def _confirmed(self, searched: _Searched, assumed: Assumed) -> Verdict:
        """Read the keys of the findings again, and explain and confirm the findings as on one machine."""
        keys, circles = searched.keys, searched.circles
        if assumed != Assumed() and (searched.cycles or circles):
            vouched = self._search(Assumed())
            keys, circles = keys | vouched.keys, vouched.circles
        concerned = self._table.withColumn("ops", F.filter("ops", lambda op: op["key"].isin(sorted(keys))))
        rows = rows_of(concerned.where(F.size("ops") > 0).toArrow(), lists=self._lists, source=self._source)
        judgement = judge(rows, self._held, self._source)
        lost = set(searched.anomalies) - set(judgement.anomalies)
        lost |= set(searched.cycles) - set(judgement.anomalies) if self._lists else set()
        if lost and judgement.validity is not Validity.INVALID:
            names = ", ".join(sorted(lost))
            why = (
                f"the search of all keys found {names}, and the search of keys {sorted(keys)} alone does not confirm it"
            )
            doubt = contradicted([why])
            return self._say(conclude(broken="", doubt=doubt), searched, judgement.anomalies, judgement.findings, rows)
        confirmed = {name: count for name, count in searched.anomalies.items() if name not in lost}
        anomalies = judgement.anomalies | confirmed
        if "cyclic-versions" in anomalies:
            anomalies["cyclic-versions"] = max(circles, 1)
        # Which circle of commits is found depends on what else there is: it is looked for in all, if that fits.
        by_circle = any(isinstance(finding.proof, CommitCircle) for finding in judgement.findings)
        if judgement.validity is not Validity.INVALID or (by_circle and self._fits()):
            names = ", ".join(anomalies)
            return self._whole(searched, f"{names} do not rule out {self._held}", anomalies, judgement.findings, rows)
        figures = {"ruled_out": judgement.ruled_out, "weakest_ruled_out": judgement.weakest}
        conclusion = Conclusion(judgement.validity, judgement.reason, judgement.cause)
        return self._say(conclusion, searched, anomalies, judgement.findings, rows, **figures)

    def _whole(
        self,
        searched: _Searched,
        reason: str,
        anomalies: dict[str, int] | None = None,
        findings: Sequence[TransactionFinding] = (),
        rows: Rows | None = None,
    ) -> Verdict:
        """Judge the whole table on one machine, if it fits into memory."""
        if self._fits():
            whole = rows_of(self._table.toArrow(), lists=self._lists, source=self._source)
            return judged(whole, self._facts, self._model, self._source, engine="spark", others=self._others(searched))
        beyond = f"an order that proves it is looked for on one machine, and takes {self._needed():,} bytes"
        limit = f"the budget has {self._facts.budget.memory_bytes:,}"
        doubt = Doubt(Cause.OUT_OF_BUDGET, f"{reason}; {beyond}: {limit}")
        return self._say(conclude(broken="", doubt=doubt), searched, anomalies, findings, rows)

    def _fits(self) -> bool:
        return self._needed() <= self._facts.budget.memory_bytes

    def _needed(self) -> int:
        """Return the bytes that the whole table needs while it is judged on one machine."""
        numbers = 6 * self._counts["transactions"] + 5 * self._counts["micro_operations"] + self._counts["elements"]
        return 8 * _OVERHEAD * numbers

    def _say(
        self,
        conclusion: Conclusion,
        searched: _Searched,
        anomalies: dict[str, int] | None = None,
        findings: Sequence[TransactionFinding] = (),
        rows: Rows | None = None,
        **figures: Any,
    ) -> Verdict:
        rule = ruled_out if self._lists else ruled_out_of_registers
        allowed = [name for name in anomalies or {} if self._held not in rule([name])]
        judgement = Judgement(
            conclusion=conclusion,
            reads=self._counts["reads"],
            rules=rules_of(self._held, self._chances, lists=self._lists, transactions=self._happened),
            anomalies=anomalies or {},
            findings=findings,
            rows=rows,
            figures=self._figures(searched, **figures),
            allowed=tuple(allowed),
        )
        return verdict(self._facts, self._model, judgement)

    def _figures(self, searched: _Searched, **more: Any) -> TransactionTableFigures:
        figures = {**self._counts, **searched.counts}
        own: dict[str, Any] = {n: figures[n] for n in TransactionTableFigures.__struct_fields__ if n in figures}
        return TransactionTableFigures(engine="spark", others=self._others(searched), **own, **more)

    def _others(self, searched: _Searched) -> dict[str, Any]:
        figures = {"partitions": self._partitions(), **self._counts, **searched.counts}
        return {name: value for name, value in figures.items() if name not in TransactionTableFigures.__struct_fields__}


def _elsewhere(f: int, counts: SparkColumn) -> SparkColumn:
    """Return 1 if `counts` holds and the transaction of `op` has a micro-operation `f` on another key; else 0."""
    there = F.exists("ops", lambda other: (other["f"] == f) & (other["key"] != F.col("op.key")))
    return F.when(counts & F.coalesce(there, F.lit(False)), 1).otherwise(0)


def _show(lists: bool, assumed: Assumed, batches: Iterable[Any]) -> Iterator[Any]:
    """Find the pieces of one partition, in an executor's Python: batches of MICRO_OPERATIONS in, of PIECES out."""
    context = TaskContext.get()
    virtual = -VIRTUAL_MAX * (context.partitionId() if context else 0)
    for part in whole_keys(batches):
        shown = pieces(part, lists=lists, assumed=assumed, virtual=virtual)
        virtual = min(virtual, int(np.min(_numbers(shown, "target"), initial=0)))
        yield shown


def _choose(given: "Broadcast[tuple[Points, Windows | None]]", batches: Iterable[Any]) -> Iterator[Any]:
    points, spanned = given.value
    for batch in batches:
        edges = Edges(*(_numbers(batch, name) for name in Edges._fields))
        if spanned is None:
            chosen = transaction_windows.not_forward(edges, points)
        else:
            chosen = transaction_windows.within(edges, points, spanned)
        yield batch.filter(pa.array(chosen))


def _unexplained(lists: bool, given: "Broadcast[tuple[Points, Column]]", batches: Iterable[Any]) -> Iterator[Any]:
    points, seen = given.value
    for part in whole_keys(batches):
        yield pa.record_batch({"key": pa.array(explained(part, points, seen, lists=lists), pa.int64())})


def _numbers(table: Any, name: str) -> Column:
    return np.ascontiguousarray(table.column(name).to_numpy(), dtype=np.int64)


def _arrow(table: DataFrame) -> Any:
    """Return the Arrow schema of those columns that a table of transactions has."""
    fields = [column for column in table.schema.fields if column.name in schema(lists=True).names]
    return to_arrow_schema(T.StructType(fields))
