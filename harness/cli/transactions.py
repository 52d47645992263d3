"""`fencepost check TABLE`: a table of transactions, judged on this machine or, asked to, through Spark."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.consistency_models import NAMES
from checkers.transactions import STRICT
from checkers.transactions_table import LIST_APPEND, RW_REGISTER
from harness.cli.operations import by_spark, say
from harness.errors import UsageError, unknown_choice
from harness.verdict import Facts


def has_transactions(path: Path) -> bool:
    """Whether a Parquet table has the micro-operations of transactions."""
    try:
        first = min(path.glob("*.parquet")) if path.is_dir() else path
        return "ops" in pq.read_schema(first).names
    except (pa.ArrowException, OSError):
        return False


def check_transactions(
    path: Path, *, model: str | None, consistency: str | None, spark_master: str | None, as_json: bool
) -> int:
    """Judge the table's transactions by a consistency model; through Spark when a master is given."""
    if model not in (None, LIST_APPEND, RW_REGISTER):
        raise UsageError(
            f"{path}: a table of transactions is of the model {LIST_APPEND} or {RW_REGISTER}, not {model}",
            hint="docs/transactions-table.md says what its columns mean",
        )
    held = consistency or STRICT
    if held not in NAMES:
        raise unknown_choice("consistency model", held, NAMES)
    facts = Facts(system="", workload=model or "", nodes=(), guarantees=(), required=(held,), read_guarantee=held)
    if spark_master is None:
        from checkers import transactions_file

        verdict = transactions_file.check(path, facts, model)
    else:
        from checkers.spark import transactions

        verdict = by_spark(path, spark_master, lambda session, uri: transactions.check(session, uri, facts, model))
    figures = verdict.figures
    facts = Facts(system="", workload=verdict.checker, nodes=(), guarantees=(), required=(held,), read_guarantee=held)
    said = f"{figures['transactions']} transactions on {figures['keys']} keys"
    return say(path, verdict, facts, form="transactions", what="table of transactions", said=said, as_json=as_json)
