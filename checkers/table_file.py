"""A table of operations in Parquet, judged on one machine: read by Arrow, sorted by key if it is not, judged in parts.

`checkers.spark.linearizable` judges the same file through Spark, to the same verdict.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from checkers.operations_table import (
    COLUMNS,
    Deal,
    Rows,
    Tally,
    check_types,
    explain_rows,
    in_order,
    judge,
    rows_of,
    search,
    tally,
    verdict,
    whole_keys,
)
from harness.errors import MalformedHistory
from harness.verdict import Budget, Facts, Verdict

#: Rows of one call of the native search: enough for all processors, little beside what a table holds.
_PART_ROWS: Final = 1_000_000


def check(path: Path, facts: Facts) -> Verdict:
    """The verdict on the table in `path`, a file or a folder of files; raises MalformedHistory."""
    table = TableFile(path)
    found = table.search(facts.budget)
    return verdict(found, lambda keys: explain_rows(table.read(keys), facts.budget), facts, {"engine": "native"})


class TableFile:
    """The Parquet file or files of one table."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        try:
            self._files = ds.dataset(path, format="parquet")
        except (pa.ArrowException, OSError) as error:
            raise MalformedHistory(f"{path}: not a whole Parquet file: {error}") from None
        check_types({field.name: str(field.type) for field in self._files.schema}, self.source)

    def read(self, keys: list[int] | None = None) -> Rows:
        """The rows of these keys, or all, in no particular order."""
        chosen = None if keys is None else ds.field("key").isin(keys)
        try:
            return self._rows(self._files.to_table(columns=list(COLUMNS), filter=chosen))
        except (pa.ArrowException, OSError) as error:
            raise MalformedHistory(f"{self.source}: not a whole Parquet file: {error}") from None

    def search(self, budget: Budget, threads: int = 0) -> Tally:
        """Judge all keys, by so many threads at once (0: as many as there are processors)."""
        rows = in_order(self.read())

        def run(deal: Deal, keys: list[int] | None) -> Tally:
            chosen = rows if keys is None else rows.at(np.isin(rows.key, keys))
            found = (one for part in whole_keys(_parts(chosen)) for one in judge(part, deal, threads=threads))
            return tally(found, self.source)

        return search(run, len(rows.key), budget)

    def _rows(self, table: Any) -> Rows:
        try:
            return rows_of(table)
        except MalformedHistory as error:
            raise MalformedHistory(f"{self.source}: {error.message}", hint=error.hint) from None


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows.key), _PART_ROWS):
        yield Rows(*(column[start : start + _PART_ROWS] for column in rows))
