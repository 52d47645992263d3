"""`fencepost check TABLE`: a table of transactions."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.cli.check.foreign import Reading
from fencepost.harness.cli.check.judged_table import JudgedTable
from fencepost.harness.cli.check.operations import say_one_machine
from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.by_guarantee import table_figures
from fencepost.harness.verdict.consistency_models import NAMES
from fencepost.harness.verdict.tables import LIST_APPEND, RW_REGISTER, STRICT

#: Numbers in micro-operations that are handed to another tool: as events about a gigabyte, as text a tenth of that.
HANDED_MAX: Final = 20_000_000


def has_transactions(path: Path) -> bool:
    """Whether a Parquet table has the micro-operations of transactions."""
    try:
        first = min(path.glob("*.parquet")) if path.is_dir() else path
        return "ops" in pq.read_schema(first).names
    except (pa.ArrowException, OSError):
        return False


def judge_transactions(path: Path, reading: Reading) -> JudgedTable:
    """Judge the table's transactions by a consistency model: on this machine, since a cycle spans keys."""
    from fencepost.harness.cli.check.table_report import write_transactions_report

    model, held = reading.model, reading.consistency or STRICT
    if model not in (None, LIST_APPEND, RW_REGISTER):
        raise UsageError(
            f"{path}: a table of transactions is of the model {LIST_APPEND} or {RW_REGISTER}, not {model}",
            hint="docs/reference/transactions-table.md says what its columns mean",
        )
    if held not in NAMES:
        raise unknown_choice("consistency model", held, NAMES)
    if reading.also:
        _refuse_others(path, reading.also, model, held)
    facts = Facts(system="", workload=model or "", nodes=(), guarantees=(), required=(held,), read_guarantee=held)
    opened = registry.table("transactions")(path, model)
    if reading.spark_master is not None:
        say_one_machine(path, opened.model)
    verdict = opened.check(facts)
    return JudgedTable(
        path=path,
        form="transactions",
        what="table of transactions",
        size=f"{table_figures(verdict).rows} transactions",
        verdict=verdict,
        facts=msgspec.structs.replace(facts, workload=verdict.checker),
        page=write_transactions_report,
        ask=partial(_question, path, verdict),
    )


def _refuse_others(path: Path, others: Sequence[str], model: str | None, held: str) -> None:
    """Raise UsageError for tools that cannot be asked, before anything is judged."""
    from fencepost.harness.cli.check.second_opinions import refuse_unasked

    table = registry.table("transactions")(path, model)
    refuse_unasked(path, others, table.model, held)
    size = table.size()
    if size > HANDED_MAX:
        raise UsageError(
            f"{path}: --also {others[0]}: its micro-operations hold {size} numbers, and at most {HANDED_MAX} are "
            "handed to another tool",
            hint="ask about a table of some of the keys, or leave --also out",
        )


def _question(path: Path, verdict: Verdict) -> ToolQuestion:
    from fencepost.harness.cli.check.second_opinions import question_of_table

    return question_of_table(registry.table("transactions")(path).events(), verdict)
