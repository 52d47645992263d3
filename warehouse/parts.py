"""The Parquet files that one task writes into a warehouse's tables. They count when the add commits them."""

import uuid
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fencepost.harness.verdict.fact_tables import LONG, RUN, TEXT, FactTables
from fencepost.warehouse.night_tables import ADDED, NIGHT, SYSTEM, layout

#: A task writes what it has collected when it reaches this size, so that its memory does not grow with its runs.
_PART_BYTES: Final = 64_000_000


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a table: its night and system, its path below the table, bytes and rows."""

    table: str
    night: str
    system: str
    path: str
    size: int
    rows: int


FILE: Final = pa.struct([(name, LONG if name in ("size", "rows") else TEXT) for name in File.__struct_fields__])


class TaskTables:
    """The tables of a task's runs: one file for each table, night and system.

    The rows of the table `run`, one for each run, are not written: they are what makes a run count, and the driver
    commits them. Files have names of their own, so a task that Spark repeats leaves files that nobody commits.
    """

    def __init__(self, root: str, added: str) -> None:
        self._fs, self._base = fs.FileSystem.from_uri(root if "://" in root else f"file://{quote(root)}")
        self._added: Final = added
        self._tables: dict[tuple[str, str, str], list[Any]] = {}
        self._bytes = 0
        self.files: Final[list[File]] = []
        self.runs: Final[list[Any]] = []

    def add(self, night: str, system: str, tables: FactTables) -> None:
        """Add the tables of a run, and write what is there if it has become large."""
        for name, table in tables.items():
            if name == RUN.name:
                self.runs.append(self.kept(name, table, {NIGHT: night, SYSTEM: system}))
            elif len(table):
                self._tables.setdefault((name, night, system), []).append(table)
                self._bytes += table.nbytes
        if self._bytes >= _PART_BYTES:
            self.write()

    def kept(self, name: str, table: Any, more: dict[str, str]) -> Any:
        """`table` with all columns of its kept rows."""
        columns = {ADDED: self._added, **more}
        schema = layout(name).schema
        return pa.table(
            [
                table[field.name]
                if field.name in table.column_names
                else pa.array([columns[field.name]], TEXT).take(pa.array([0] * len(table), LONG))
                for field in schema
            ],
            schema=schema,
        )

    def write(self) -> None:
        """Write what was added since the last file; tables without a row get no file. Raises OSError."""
        for (name, night, system), tables in self._tables.items():
            rows = self.kept(name, pa.concat_tables(tables), {NIGHT: night, SYSTEM: system})
            folder = f"night={quote(night, safe='')}/system={quote(system, safe='')}"
            path = f"{folder}/{self._added}-{uuid.uuid4().hex}.parquet"
            place = f"{self._base}/{name}/{path}"
            self._fs.create_dir(f"{self._base}/{name}/{folder}", recursive=True)
            pq.write_table(rows.select(layout(name).in_files.names), place, filesystem=self._fs, compression="zstd")
            size = self._fs.get_file_info(place).size
            self.files.append(File(table=name, night=night, system=system, path=path, size=size, rows=len(rows)))
        self._tables, self._bytes = {}, 0
