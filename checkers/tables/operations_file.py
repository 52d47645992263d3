"""A table of operations in Parquet, judged on one machine: read by Arrow, sorted by key if it is not, judged in parts.

A table that is too large to be held and sorted at once is read once for each share of its keys, which takes longer but
no more memory. `warehouse.by_spark.registers` judges the same file through Spark, to the same verdict.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.dataset as ds

from fencepost.checkers.tables.operations import (
    COLUMNS,
    Column,
    Deal,
    Rows,
    Tally,
    check_types,
    column_of,
    explain_rows,
    in_order,
    judge,
    rows_of,
    search,
    tally,
    verdict,
    whole_keys,
)
from fencepost.checkers.tables.parquet import ParquetFiles
from fencepost.harness.verdict import Budget, Facts, Verdict

#: Rows of one call of the native search: enough for all processors, little beside what a table holds.
_PART_ROWS: Final = 1_000_000
#: Rows that are held and sorted at once: about 4 GB. Only keys of more operations than these make it more.
SHARE_ROWS: Final = 20_000_000


def check(path: Path, facts: Facts) -> Verdict:
    """The verdict on the table in `path`, a file or a folder of files; raises MalformedHistory."""
    table = TableFile(path)
    total = table.search(facts.budget)
    return verdict(total, lambda keys: explain_rows(table.read(keys), facts.budget), facts, engine="native")


class TableFile(ParquetFiles):
    """The Parquet file or files of one table of operations."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        check_types({field.name: str(field.type) for field in self.schema}, self.source)

    def read(self, keys: list[int] | None = None) -> Rows:
        """The rows of these keys, or all, in no particular order."""
        return self._where(None if keys is None else ds.field("key").isin(keys))

    def count(self, key: int) -> int:
        """How many rows a key has."""
        return int(self.query(lambda files: files.count_rows(filter=ds.field("key") == key)))

    def search(self, budget: Budget, threads: int = 0, *, share_rows: int = SHARE_ROWS) -> Tally:
        """Judge all keys, by so many threads at once (0: as many as there are processors)."""
        operations = self.query(lambda files: files.count_rows())
        whole = in_order(self.read()) if operations <= share_rows else None

        def rows_in_order(keys: list[int] | None) -> Iterator[Rows]:
            if whole is not None:
                yield whole if keys is None else whole.at(np.isin(whole.key, keys))
            elif keys is not None:
                yield in_order(self.read(keys))
            else:
                yield from (in_order(self._where(share)) for share in self._shares(share_rows))

        def run(deal: Deal, keys: list[int] | None) -> Tally:
            results = (
                one
                for rows in rows_in_order(keys)
                for part in whole_keys(_parts(rows))
                for one in judge(part, deal, threads=threads)
            )
            return tally(results, self.source)

        return search(run, operations, budget)

    def _shares(self, share_rows: int) -> list[Any]:
        """Conditions on the key that each let about `share_rows` rows pass, and every row one of them.

        Ranges, since a file that is sorted by key need not be read but where a range lies.
        """
        # Told of the whole table, as without shares; and of a key that is null no condition is true.
        null = reduce(or_, (ds.field(name).is_null() for name in COLUMNS))
        if self.query(lambda files: files.count_rows(filter=null)):
            for name in COLUMNS:
                self._column(name)
        keys = self._column("key")
        places = np.arange(share_rows, len(keys), share_rows)
        keys.partition(places)
        bounds = np.unique(keys[places]).tolist()
        key = ds.field("key")
        between = [(key >= low) & (key < high) for low, high in pairwise(bounds)]
        return [key < bounds[0], *between, key >= bounds[-1]]

    def _where(self, condition: Any) -> Rows:
        return self.query(lambda files: rows_of(files.to_table(columns=list(COLUMNS), filter=condition)))

    def _column(self, name: str) -> Column:
        # Of its own, since it will be sorted and Arrow's memory is not to be written to.
        return self.query(lambda files: column_of(files.to_table(columns=[name]), name).copy())


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows.key), _PART_ROWS):
        yield Rows(*(column[start : start + _PART_ROWS] for column in rows))
