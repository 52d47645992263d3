"""The shape of a table of facts: its columns with their types and meanings, and the version of its schema.

A table has `run_id` before its own columns as soon as it is kept: rows of many runs then stand in one table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

#: Names a run in every row of every table.
RUN_ID: Final = "run_id"
RUN_ID_TEXT: Final = "the run, as in its `run.json`"
#: Where the schema of a stored table says its version.
VERSION_KEY: Final = b"fencepost.table_version"

LONG: Final = pa.int64()
TEXT: Final = pa.string()
FLAG: Final = pa.bool_()
DOUBLE: Final = pa.float64()
TEXTS: Final = pa.list_(pa.string())
LONGS: Final = pa.list_(pa.int64())


class Column(msgspec.Struct, frozen=True):
    """One column; `text` says in one line what it means, and what a null means."""

    name: str
    kind: Any
    text: str


class FactTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table; `row` says what one row of it is. A change of its columns gives it another version."""

    name: str
    row: str
    columns: tuple[Column, ...]
    version: int = 1

    @property
    def schema(self) -> Any:
        """The Arrow schema, without `run_id`."""
        return pa.schema([pa.field(c.name, c.kind) for c in self.columns])

    @property
    def stored_schema(self) -> Any:
        """The Arrow schema as it is kept: with `run_id`, and the version in its metadata."""
        fields = [pa.field(RUN_ID, TEXT), *(pa.field(c.name, c.kind) for c in self.columns)]
        return pa.schema(fields, metadata={VERSION_KEY: str(self.version).encode()})

    def of_columns(self, columns: Mapping[str, Any]) -> Any:
        """The Arrow table of these arrays or lists, which must be all of its columns."""
        return pa.table({c.name: pa.array(columns[c.name], c.kind) for c in self.columns}, schema=self.schema)

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """The Arrow table of these rows, each with all of its columns."""
        return self.of_columns({c.name: [row[c.name] for row in rows] for c in self.columns})

    def stored(self, table: Any, run_id: str) -> Any:
        """`table` with the run's id in each row."""
        ids = pa.array([run_id], TEXT).take(pa.array([0] * len(table), pa.int64()))
        return pa.table([ids, *table.columns], schema=self.stored_schema)


class DerivedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a leaf brings, and what derives it from a history and the facts of its run."""

    table: FactTable
    derive: Callable[[Any, Any], Any]


#: Tables by name.
FactTables = Mapping[str, Any]


def columns(*described: tuple[str, Any, str]) -> tuple[Column, ...]:
    """Columns from (name, type, meaning)."""
    return tuple(Column(*one) for one in described)


def by_name(tables: Iterable[FactTable]) -> dict[str, FactTable]:
    """The tables by their names."""
    return {table.name: table for table in tables}
