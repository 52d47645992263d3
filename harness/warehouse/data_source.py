"""A warehouse as a data source of Spark's own, for a data engineer's notebook or job.

    from fencepost.harness.warehouse.data_source import register

    register(spark)
    spark.read.format("fencepost").option("table", "reigns").load("results").where("system = 'etcd'")

Every table of runs has the columns `night` and `system`. Conditions on these and on `run_id` choose the files that are
opened at all; each file is one task, and nothing is read by the driver.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.harness.base.errors import UsageError
from fencepost.harness.verdict.fact_table import RUN_ID, TEXT
from fencepost.harness.warehouse.night_tables import NIGHT, OF_NIGHTS, SYSTEM, schema_of
from fencepost.harness.warehouse.selection import choose, latest_nights
from fencepost.harness.warehouse.store import MARK, Store, open_store
from fencepost.harness.warehouse.warehouse import STORED

#: By these a file is chosen without opening it.
_KEYS: Final = (RUN_ID, NIGHT, SYSTEM)
#: Below a folder of results, as `fencepost warehouse` makes it.
_BELOW_RESULTS: Final = "warehouse"


def register(spark: SparkSession) -> None:
    """Make `format("fencepost")` known to this session, and let Spark hand it conditions."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
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
    """One file, the columns that its place says, and the runs of it that are wanted or left out."""

    def __init__(self, path: str, place: dict[str, str], runs: frozenset[str] | None, left_out: frozenset[str]) -> None:
        super().__init__(None)
        self.path, self.place, self.runs, self.left_out = path, place, runs, left_out


class _Reader(DataSourceReader):
    def __init__(self, root: str, table: str) -> None:
        self._root, self._name = root, table
        self._wanted: dict[str, frozenset[str]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take conditions on run, night and system; every other one is left to Spark."""
        for each in filters:
            values = _values(each)
            if values is None:
                yield each
                continue
            key, own = values
            self._wanted[key] = self._wanted.get(key, own) & own

    def partitions(self) -> Sequence[InputPartition]:
        store = open_store(self._root)
        runs, nights, systems = (self._wanted.get(key) for key in _KEYS)
        if self._name in OF_NIGHTS:
            parts = [part for part in latest_nights(store.adds()) if nights is None or part.night in nights]
            return [_File(file, {}, None, frozenset()) for part in parts for file in part.files.get(self._name, ())]
        return [
            _File(file, {NIGHT: one.night, SYSTEM: one.system}, runs, one.left_out)
            for one in choose(store.adds(), self._name, nights=nights, systems=systems, runs=runs)
            for file in one.files
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _File):
            # Where no file was chosen, Spark asks once all the same.
            return
        store = Store(self._root, open_store(self._root).generation)
        rows = store.read_file(partition.path)
        if partition.runs is not None:
            rows = _kept(rows, partition.runs, among=True)
        if partition.left_out:
            rows = _kept(rows, partition.left_out, among=False)
        schema = _schema(self._name)
        columns = [
            rows[field.name] if field.name in rows.column_names else _constant(partition.place[field.name], len(rows))
            for field in schema
        ]
        table = pa.table(columns, schema=schema)
        for key, wanted in self._wanted.items():
            # Of nights' tables, and of a `system` that is the table's own.
            if key != RUN_ID and key in table.column_names:
                table = table.filter(pc.is_in(table[key], pa.array(sorted(wanted), TEXT)))
        yield from table.to_batches()


def _schema(name: str) -> pa.Schema:
    """The table's columns and, for a table of runs, where each run belongs."""
    own = schema_of(STORED[name])
    if name in OF_NIGHTS:
        return own
    return pa.schema([*own, *(pa.field(key, TEXT) for key in (NIGHT, SYSTEM) if key not in own.names)])


def _values(condition: Filter) -> tuple[str, frozenset[str]] | None:
    """The key and the values that a condition demands, when it is one that chooses files."""
    match condition:
        case EqualTo(attribute=(name,), value=str(value)) if name in _KEYS:
            return name, frozenset({value})
        case In(attribute=(name,), value=values) if name in _KEYS and all(isinstance(v, str) for v in values):
            return name, frozenset(values)
        case _:
            return None


def _kept(rows: pa.Table, runs: Collection[str], *, among: bool) -> pa.Table:
    inside = pc.is_in(rows[RUN_ID], pa.array(sorted(runs), TEXT))
    return rows.filter(inside if among else pc.invert(inside))


def _constant(value: str, rows: int) -> pa.Array:
    return pa.array([value], TEXT).take(pa.array([0] * rows, pa.int64()))
