"""A table of transactions in Parquet, judged on one machine.

`warehouse.by_spark.transactions` judges the same file through Spark, to the same verdict.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fencepost.checkers.findings.finding import Conclusion
from fencepost.checkers.tables.parquet import ParquetFiles
from fencepost.checkers.tables.transactions import (
    Judgement,
    Rows,
    arrow_table,
    malformed,
    model_of,
    same_number,
    schema,
    two_open,
    two_writes,
    verdict,
)
from fencepost.checkers.transactions.anomalies import TransactionVerdict, check_list_append, check_register
from fencepost.checkers.transactions.history import encode, transactions_of
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import TransactionTableFigures
from fencepost.harness.verdict.tables import LIST_APPEND


def check(path: Path, facts: Facts, model: str | None = None) -> Verdict:
    """The verdict on the table in `path`, a file or a folder of files; raises MalformedHistory."""
    file = TransactionsFile(path, model)
    return judged(file.read(), facts, file.model, str(path), engine="native")


def write(history: History, path: Path, *, lists: bool) -> None:
    """Write the table of a history's `txn` operations, by which times are indexes of events.

    Values that are no integers are numbered. Raises MalformedHistory as `checkers.transactions.history.encode`.
    """
    pq.write_table(arrow_table(encode(transactions_of(history.operations), lists=lists), lists=lists), path)


class TransactionsFile(ParquetFiles):
    """The Parquet file or files of one table of transactions."""

    def __init__(self, path: Path, model: str | None = None) -> None:
        super().__init__(path)
        self.model = model_of(self.schema, self.source, model)

    def read(self, numbers: Collection[int] | None = None) -> Rows:
        """The transactions of these numbers, or all, in the order of invocation."""
        lists = self.model == LIST_APPEND
        columns = schema(lists=lists).names
        if numbers is None:
            table = self.query(lambda files: files.to_table(columns=columns))
        elif numbers:
            chosen = ds.field("transaction").isin(pa.array(sorted(numbers), pa.int64()))
            table = self.query(lambda files: files.to_table(columns=columns, filter=chosen))
        else:
            table = self.schema.empty_table()
        return rows_of(table, lists=lists, source=self.source)

    def size(self) -> int:
        """How many numbers its micro-operations hold, those that are null too, by what the files say of themselves."""
        return self.query(_size)


def _size(files: Any) -> int:
    groups = (group for fragment in files.get_fragments() for group in fragment.row_groups)
    columns = (group.metadata.column(place) for group in groups for place in range(group.metadata.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema.startswith("ops."))


def rows_of(table: Any, *, lists: bool, source: str) -> Rows:
    """The rows of a whole table, which break no rule; raises MalformedHistory."""
    try:
        rows = Rows(table, lists=lists)
    except MalformedHistory as error:
        raise MalformedHistory(f"{source}: {error.message}", hint=error.hint) from None
    broken = rows.broken()
    if broken is not None:
        raise malformed(source, *broken[1:])
    numbers = np.sort(rows.numbers)
    again = numbers[1:][numbers[1:] == numbers[:-1]]
    if len(again):
        raise same_number(source, int(again[0]), int((numbers == again[0]).sum()))
    return rows


def judged(
    rows: Rows, facts: Facts, model: str, source: str, *, engine: str, others: dict[str, Any] | None = None
) -> Verdict:
    """Judge all rows of a table by the native core; `engine` read them, and `others` are figures of its own."""
    shown = judge(rows, facts.required[0], source)
    c = rows.columns
    judgement = Judgement(
        conclusion=Conclusion(shown.validity, shown.reason, shown.cause),
        reads=int(c.tested().sum()),
        rules=shown.rules,
        anomalies=shown.anomalies,
        findings=shown.findings,
        rows=rows,
        figures=TransactionTableFigures(
            **{
                **msgspec.structs.asdict(shown.figures),
                "engine": engine,
                "keys": len(np.unique(c.key)),
                "others": others or {},
            }
        ),
        allowed=shown.allowed,
    )
    return verdict(facts, model, judgement)


def judge(rows: Rows, consistency: str, source: str) -> TransactionVerdict:
    """What the native core says of these rows; raises MalformedHistory in the table's own numbers."""
    try:
        check_ = check_list_append if rows.lists else check_register
        return check_(rows.numbered(), model=consistency)
    except MalformedHistory:
        twice, opened = rows.written_twice(), rows.open_twice()
        if opened is not None:
            raise two_open(source, *opened) from None
        if twice is not None:
            raise two_writes(source, *twice) from None
        raise
