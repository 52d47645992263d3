"""A warehouse as a data source of Spark's own, for a data engineer's notebook or job.

    from fencepost.warehouse.data_source import register

    register(spark)
    spark.read.format("fencepost").option("table", "reigns").load("results").where("system = 'etcd'")

Every table of runs has the columns `night` and `system`. Each file is one task, and nothing is read by the driver.
Spark applies all conditions itself: it keeps what a Python data source makes of pushed conditions for later queries on
the same DataFrame, which would then answer with the rows of an earlier one.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.harness.base.errors import UsageError
from fencepost.harness.verdict.fact_tables import RUN_ID, TEXT
from fencepost.warehouse.night_tables import NIGHT, OF_NIGHTS, SYSTEM, schema_of
from fencepost.warehouse.selection import choose, latest_nights
from fencepost.warehouse.store import MARK, Store, open_store
from fencepost.warehouse.warehouse import STORED

#: Below a folder of results, as `fencepost warehouse` makes it.
_BELOW_RESULTS: Final = "warehouse"


def register(spark: SparkSession) -> None:
    """Make `format("fencepost")` known to this session.

    Raises:
        UsageError: the Python of the session's workers on this machine has no fencepost.
    """
    context = spark.sparkContext
    python = str(context.pythonExec)
    if str(context.master).startswith("local") and shutil.which(python) != sys.executable:
        done = subprocess.run([python, "-c", "import fencepost"], capture_output=True, check=False)
        if done.returncode:
            raise UsageError(
                f"Spark's Python workers run {python}, which cannot import fencepost",
                hint=f"before the session is made, set PYSPARK_PYTHON={sys.executable}",
            )
    spark.dataSource.register(FencepostSource)


class FencepostSource(DataSource):
    """`format("fencepost")`: option `table`, and the path of a warehouse or of the results that hold it."""

    @classmethod
    def name(cls) -> str:
        return "fencepost"

    def schema(self) -> StructType:
        return from_arrow_schema(_schema(self._table))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._root, self._table)

    @property
    def _table(self) -> str:
        table = self.options.get("table", "run")
        if table not in STORED:
            raise UsageError(f"there is no table {table!r}", hint=f"choose from: {', '.join(STORED)}")
        return str(table)

    @property
    def _root(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise UsageError("the source has no path", hint='give one: .load("results")')
        below = Path(path) / _BELOW_RESULTS
        return str(below) if "://" not in path and not (Path(path) / MARK).is_file() and below.is_dir() else str(path)


class _File(InputPartition):
    """One file of a generation, the columns that its place says, and the runs of it that are left out."""

    def __init__(self, generation: str, path: str, place: dict[str, str], left_out: frozenset[str]) -> None:
        super().__init__(None)
        self.generation, self.path, self.place, self.left_out = generation, path, place, left_out


class _Reader(DataSourceReader):
    def __init__(self, root: str, table: str) -> None:
        self._root, self._name = root, table

    def partitions(self) -> Sequence[InputPartition]:
        store = open_store(self._root)
        if self._name in OF_NIGHTS:
            files = [file for part in latest_nights(store.adds()) for file in part.files.get(self._name, ())]
            return [_File(store.generation, file, {}, frozenset()) for file in files]
        return [
            _File(store.generation, file, {NIGHT: one.night, SYSTEM: one.system}, one.left_out)
            for one in choose(store.adds(), self._name)
            for file in one.files
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _File):
            # Where there is no file, Spark asks once all the same.
            return
        rows = Store(self._root, partition.generation).read_file(partition.path)
        if partition.left_out:
            again = pc.is_in(rows[RUN_ID], pa.array(sorted(partition.left_out), TEXT))
            rows = rows.filter(pc.invert(again))
        schema = _schema(self._name)
        columns = [
            rows[field.name] if field.name in rows.column_names else _constant(partition.place, field, len(rows))
            for field in schema
        ]
        yield from pa.table(columns, schema=schema).to_batches()


def _schema(name: str) -> pa.Schema:
    """The table's columns and, for a table of runs, where each run belongs."""
    own = schema_of(STORED[name])
    if name in OF_NIGHTS:
        return own
    return pa.schema([*own, *(pa.field(key, TEXT) for key in (NIGHT, SYSTEM) if key not in own.names)])


def _constant(place: dict[str, str], field: pa.Field, rows: int) -> pa.Array:
    """A column that the file lacks: what its place says; null for one that came later."""
    return pa.array([place.get(field.name)], field.type).take(pa.array([0] * rows, pa.int64()))
