"""What the start-up archive of Spark's JVM is made from: an empty warehouse, and the questions asked of it."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.results import run_folder as store
from fencepost.harness.results.fact_files import write_table
from fencepost.harness.verdict.run_tables import TABLES
from fencepost.harness.warehouse.build import FACTS, MARK, REBUILT_NAME, Warehouse, write_across
from fencepost.harness.warehouse.index import write_index
from fencepost.harness.warehouse.rebuild import REBUILT, Batches


def exercise(spark: SparkSession, scratch: Path) -> None:
    """Make the warehouse below `scratch`; for `harness.warehouse.spark_session.prepare_archive`."""
    out = scratch / "training"
    for name, table in TABLES.items():
        (out / FACTS / name).mkdir(parents=True)
        write_table(table.stored_schema.empty_table(), out / FACTS / name / "none.parquet")
    none = spark.range(0, 1, 1, 1).mapInArrow(_no_rows, from_arrow_schema(REBUILT))
    none.write.parquet(str(out / REBUILT_NAME))
    store.write_json(out / MARK, {"runs": 1})
    write_across(spark, out)
    warehouse = Warehouse(spark, out)
    list(warehouse.changes())
    list(warehouse.failures())
    write_index(warehouse, out / "index.html")


def _no_rows(batches: Batches) -> Batches:
    for _ in batches:
        yield from REBUILT.empty_table().to_batches()
