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
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.harness.base.errors import UsageError
from fencepost.harness.verdict.fact_tables import RUN, RUN_ID, TEXT
from fencepost.warehouse.night_tables import ADDED, NIGHT, NIGHTS, OF_NIGHTS, SHARD, STORED, SYSTEM, layout, schema_of
from fencepost.warehouse.store import DeltaStore, open_store

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
        return str(below) if "://" not in path and below.is_dir() else str(path)


class _File(InputPartition):
    """One file of the table, relative to its folder, the columns that its folder says, and what counts in it."""

    def __init__(self, path: str, place: dict[str, str], counts: list[str]) -> None:
        super().__init__(None)
        self.path, self.place, self.counts = path, place, counts


class _Reader(DataSourceReader):
    def __init__(self, root: str, table: str) -> None:
        self._root, self._name = root, table
        self._mark = NIGHTS.name if table in OF_NIGHTS else RUN.name
        # A row counts when the table that is committed last has these of it, too.
        self._keys = (NIGHT, SHARD, ADDED) if table in OF_NIGHTS else (RUN_ID, ADDED)

    def partitions(self) -> Sequence[InputPartition]:
        store, parted_by = open_store(self._root), layout(self._name).parted_by
        # Read before the files are listed, so that they have all rows of what counts.
        rows = store.read(self._mark, list(dict.fromkeys((*self._keys, *parted_by))))
        counts: dict[tuple[str, ...], list[str]] = {}
        for row, key in zip(rows.to_pylist(), self._joined(rows).to_pylist(), strict=True):
            counts.setdefault(tuple(row[name] for name in parted_by), []).append(key)
        files = []
        for path in store.files(self._name):
            folders = dict(folder.split("=", 1) for folder in path.split("/")[:-1])
            place = {name: unquote(folders[name]) for name in parted_by}
            files.append(_File(path, place, counts.get(tuple(place.values()), [])))
        return files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _File):
            # Where there is no file, Spark asks once all the same.
            return
        store, schema = DeltaStore(self._root), _schema(self._name)
        path = f"{store.base}/{self._name}/{partition.path}"
        rows = pq.read_table(path, filesystem=store.fs, partitioning=None)
        for name, value in partition.place.items():
            rows = rows.append_column(name, pa.array([value], TEXT).take(pa.array([0] * len(rows), pa.int64())))
        rows = rows.filter(pc.is_in(self._joined(rows), pa.array(partition.counts, TEXT)))
        yield from rows.select(schema.names).cast(schema).to_batches()

    def _joined(self, rows: pa.Table) -> pa.ChunkedArray:
        """What says whether each row counts, as one text."""
        return pc.binary_join_element_wise(*(pc.cast(rows[key], TEXT) for key in self._keys), "\n")


def _schema(name: str) -> pa.Schema:
    """The table's columns and, for a table of runs, where each run belongs."""
    own = schema_of(STORED[name])
    more = () if name in OF_NIGHTS else (NIGHT, SYSTEM)
    return pa.schema([*own, *(pa.field(key, TEXT) for key in more if key not in own.names)])
