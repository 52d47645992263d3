"""Loads the classes that a start-up archive of Spark's JVM should hold, by making and querying an empty warehouse."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.warehouse.index import write_index
from fencepost.warehouse.night_tables import OF_NIGHTS, schema_of
from fencepost.warehouse.rebuild import REBUILT, Batches
from fencepost.warehouse.store import Add, Part, new_generation
from fencepost.warehouse.warehouse import REBUILT_NAME, STORED, Warehouse


def exercise(spark: SparkSession, scratch: Path) -> None:
    """Make an empty warehouse below `scratch` and query it; for `warehouse.spark_session.prepare_archive`."""
    out = scratch / "training"
    store = new_generation(str(out))
    files = {
        name: (store.write_part(name, "none", "none", "none", schema_of(table).empty_table()),)
        for name, table in STORED.items()
        if name not in OF_NIGHTS
    }
    spark.range(0, 1, 1, 1).mapInArrow(_no_rows, from_arrow_schema(REBUILT)).collect()
    rebuilt = store.write_file(f"{REBUILT_NAME}/none.parquet", REBUILT.empty_table())
    part = Part(night="none", system="none", runs=("none",), files=files)
    store.write_manifest(Add(id="none", at="", tables={}, parts=(part,), rebuilt=rebuilt))
    store.put_in_force()
    warehouse = Warehouse(spark, str(out))
    list(warehouse.changes())
    list(warehouse.failures())
    write_index(warehouse, scratch / "index.html")


def _no_rows(batches: Batches) -> Batches:
    for _ in batches:
        yield from REBUILT.empty_table().to_batches()
