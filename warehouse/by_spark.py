"""`fencepost check FILE --spark`: registers and other objects of one history that is too large for one machine.

One job: rows are grouped by shares of their keys, an executor judges each share with the checker and the native core
that judge the whole on one machine, and the verdicts are added up. Keys are independent objects (linearizability is
local: Herlihy & Wing, 1990), so no violation lies between two shares. How many shares there are depends on the rows
alone, so the verdict does not depend on the number of machines. Executors need Python and fencepost.

Of the rules of a history (`harness.history.validate`) those of one process cannot be seen key by key. Shares of the
processes are looked at first.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.checkers.violations.finding import WITNESSES_MAX, Doubt, conclude, no_chance, one_of_each_first, too_few
from fencepost.harness.base.errors import HarnessError, MalformedHistory
from fencepost.harness.history import OpEvent, broken_rule
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.interchange.formats.imported import (
    Imported,
    ImportedHistory,
    InFile,
    check_values,
    json_text,
    operations_of,
)
from fencepost.harness.interchange.formats.tables import COLUMNS, BadRow, checked, imported_operations
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.results.columns import check_parquet, to_events
from fencepost.harness.verdict import Cause, Facts, Rule, Verdict, in_words, without_rows
from fencepost.harness.verdict.figures import Traced
from fencepost.warehouse.spark_session import SparkHandle

#: The rows of one share: they are sorted and judged in a second or two, in a few hundred megabytes.
SHARE_ROWS: Final = 500_000
SHARES_MIN: Final = 2
_REASONS_MAX: Final = 3
_OF_EVENTS: Final = ("kind", *(field.name for field in msgspec.structs.fields(OpEvent)))


class _Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a share shows: its verdict, or which rule its first row that breaks one does, and where that stands."""

    verdict: Verdict | None = None
    broken: str = ""
    hint: str | None = None
    place: tuple[int, ...] = ()


def judge(path: Path, master: str, holds: str, facts: Facts) -> Verdict:
    """Judge a table of operations or a history through Spark at `master`.

    Raises:
        MalformedHistory: a row or an event breaks a rule.
        HarnessError: Spark fails, for that is no verdict.
    """
    with SparkHandle(master) as handle:
        try:
            return check(handle.session(), path, holds, facts)
        except (PySparkException, Py4JJavaError) as error:
            reason = _reason(str(error).splitlines())
            lacking = "ModuleNotFoundError" in reason or "ImportError" in reason
            raise HarnessError(
                f"{path}: Spark at {master} gave no verdict: {reason}",
                hint="executors need fencepost and its native core for the Python that PYSPARK_PYTHON names there"
                if lacking
                else "without --spark it is judged on this machine",
            ) from error


def _reason(lines: list[str]) -> str:
    """The innermost exception that is named: it stands behind its traceback, before Spark's own."""
    named = [line.strip() for line in lines if re.match(r"(Caused by: )?[\w.]+(Error|Exception)\b", line)]
    filled = [line for line in lines if line.strip()]
    return (named[-1] if named else filled[0] if filled else "no reason given").removeprefix("Caused by: ")


def check(spark: SparkSession, path: Path, holds: str, facts: Facts) -> Verdict:
    """Judge what `path` holds, "operations" or a history ("parquet") of the model `facts.workload`.

    Executors must reach the path.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    rows = own.read.parquet(str(path.resolve()))
    if holds == "operations":
        try:
            checked(holds, rows.limit(0).toArrow())
        except MalformedHistory as error:
            raise MalformedHistory(f"{path}: {error.message}", hint=error.hint) from None
        table = rows.select(*COLUMNS.names)
        judge_share: Callable[[Any], _Share] = partial(judge_rows, str(path))
    else:
        check_parquet(path)
        table = rows.where(F.col("kind") == "op").select(*_OF_EVENTS)
        judge_share = partial(judge_events, facts.workload, str(path))
    count = table.count()
    if holds != "operations":
        by_processes(table, count, str(path))
    shares = by_shares(table, F.col("key"), count, judge_share)
    whole = shares or [judge_share(table.limit(0).toArrow())]
    _refuse_broken(whole, str(path))
    return added([share.verdict for share in whole if share.verdict is not None], facts)


def by_shares(table: DataFrame, column: Column, rows: int, judge_share: Callable[[Any], _Share]) -> list[_Share]:
    """Judge the rows in shares, each of which has all rows of its values in `column`."""
    shares = max(SHARES_MIN, -(-rows // SHARE_ROWS))
    table.sparkSession.conf.set("spark.sql.shuffle.partitions", str(shares))

    def judged_in_arrow(share: Any) -> Any:
        return pa.table({"share": [msgspec.json.encode(judge_share(share.drop_columns(["share"]))).decode()]})

    numbered = table.withColumn("share", F.pmod(F.xxhash64(column), F.lit(shares)).cast("int"))
    judged_shares = numbered.groupBy("share").applyInArrow(judged_in_arrow, "share string").collect()
    return [msgspec.json.decode(row["share"], type=_Share) for row in judged_shares]


def judge_rows(source: str, share: Any) -> _Share:
    """Judge a share of a table of operations, in an executor's Python."""
    try:
        imported = imported_operations(checked("operations", share), source)
        (verdict,) = judge_foreign(imported, source).verdicts
        return _share_of(verdict)
    except BadRow as bad:
        return _Share(broken=bad.message, hint=bad.hint, place=bad.place)
    except MalformedHistory as error:
        return _Share(broken=error.message, hint=error.hint)


def judge_events(model: str, source: str, share: Any) -> _Share:
    """Judge a share of a history as a history that stands alone, in an executor's Python."""
    try:
        family = choose(model, (), lambda _: (), source)
        events = _events(share, source)
        values = {event.index: event.value for event in events}
        in_file = InFile(lambda event: f"event {event}", lambda event: json_text(values[event]))
        of_no_events = ImportedHistory([], family, source=source, in_file=in_file)
        history = of_no_events.with_operations(operations_of(events, family))
        check_values(history, in_file.place)
        (verdict,) = judge_foreign(Imported(history=history, form="parquet", keyed=True), source).verdicts
        return _share_of(verdict)
    except MalformedHistory as error:
        return _Share(broken=error.message.removeprefix(f"{source}: "), hint=error.hint)


def by_processes(table: DataFrame, rows: int, source: str) -> None:
    """Raise MalformedHistory for the first event that breaks a rule of its process."""

    def look(share: Any) -> _Share:
        try:
            broken = broken_rule(_events(share, source))
        except MalformedHistory as error:
            return _Share(broken=error.message.removeprefix(f"{source}: "), hint=error.hint)
        return _Share() if broken is None else _Share(broken=f"event {broken[0]}: {broken[1]}", place=(broken[0],))

    _refuse_broken(by_shares(table, F.col("process"), rows, look), source)


def _events(share: Any, source: str) -> list[OpEvent]:
    batches = share.combine_chunks().to_batches()
    events = (event for batch in batches for event in to_events(Path(source), batch, 0))
    return sorted((event for event in events if type(event) is OpEvent), key=lambda event: event.index)


def _share_of(verdict: Verdict) -> _Share:
    """A verdict as JSON can carry it: without what names every event."""
    return _Share(verdict=msgspec.structs.replace(without_rows(verdict), proofs=()))


def _refuse_broken(shares: Sequence[_Share], source: str) -> None:
    broken = [share for share in shares if share.broken]
    if broken:
        first = min(broken, key=lambda share: (share.place, share.broken))
        raise MalformedHistory(f"{source}: {first.broken}", hint=first.hint)


def added(verdicts: Sequence[Verdict], facts: Facts) -> Verdict:
    """The verdict on the whole by those on all shares."""
    first = verdicts[0]
    figures = [verdict.figures for verdict in verdicts]
    total = {
        name: sum(own.get(name, 0) for own in figures) for name in ("keys", "operations", "info_operations", "steps")
    }
    anomalies = Counter[str]()
    for verdict in verdicts:
        anomalies.update(verdict.counts)
    unfinished = [verdict for verdict in verdicts if verdict.cause not in (None, Cause.NO_EXPOSURE)]
    more = f"; {len(unfinished)} of {len(verdicts)} shares of the keys were not finished" if unfinished else ""
    exposure = sum(verdict.tested or 0 for verdict in verdicts)
    rules = tuple(map(_rule, zip(*(verdict.rules for verdict in verdicts if verdict.rules), strict=True)))
    # As on one machine: by rule, and those of no rule with the first.
    turn = {rule.name: i for i, rule in enumerate(rules)}
    witnesses = [witness for verdict in verdicts for witness in verdict.witnesses]
    witnesses.sort(key=lambda witness: (turn.get(witness.anomaly, 0), witness.from_ns))
    untested = too_few(exposure, first.exposure_of, facts) or no_chance(rules, facts)
    validity, reason, cause = conclude(
        broken=f"{in_words(anomalies)} on {total['keys']} keys{more}" if anomalies else "",
        doubt=_doubt(unfinished, len(verdicts)),
        untested=untested if total["operations"] else first.reason,
    )
    return msgspec.structs.replace(
        first,
        validity=validity,
        reason=reason,
        cause=cause,
        exposure=Traced(exposure),
        rules=rules,
        anomalies={name: Traced(count) for name, count in anomalies.items()},
        witnesses=tuple(one_of_each_first(witnesses)[:WITNESSES_MAX]),
        figures={
            **total,
            "engine": "spark",
            "shares": len(verdicts),
            **{n: v for n, v in figures[0].items() if n.startswith("core_")},
        },
    )


def _doubt(unfinished: Sequence[Verdict], shares: int) -> Doubt | None:
    if not unfinished:
        return None
    reasons = sorted({verdict.reason for verdict in unfinished})
    listed = "; ".join([*reasons[:_REASONS_MAX], *(["..."] if len(reasons) > _REASONS_MAX else [])])
    causes = {verdict.cause for verdict in unfinished}
    why = f"{len(unfinished)} of {shares} shares of the keys were not finished, none is invalid: {listed}"
    return Doubt(Cause.FAILED if Cause.FAILED in causes else Cause.OUT_OF_BUDGET, why)


def _rule(parts: Sequence[Rule]) -> Rule:
    """One rule over all shares; it lacks something where it had no chance in any of them."""
    chances = sum(part.chances for part in parts)
    return msgspec.structs.replace(parts[0], chances=chances, lacks="" if chances else parts[0].lacks)
