"""Ask a warehouse in SQL, from Python: `query("results/warehouse", "select system, outcome from run")`."""

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from fencepost.harness.base.errors import UsageError
from fencepost.harness.warehouse.build import Warehouse
from fencepost.harness.warehouse.spark_session import SparkHandle

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession


def query(
    path: str | Path, sql: str, *, spark: "SparkSession | None" = None, spark_master: str = "local[*]"
) -> "pd.DataFrame":
    """The answer as a pandas DataFrame; docs/facts-tables.md and docs/spark.md name the tables.

    `spark`: a session that is there already; without one, an embedded Spark is started and ended.

    Raises:
        UsageError: no warehouse is at `path`, or Spark does not understand the query.
    """
    if spark is None:
        with SparkHandle(spark_master) as handle:
            return query(path, sql, spark=handle.session())
    try:
        return Warehouse(spark, Path(path)).sql(sql).toPandas()
    except PySparkException as error:
        first = str(error).strip().partition("\n")[0]
        raise UsageError(f"the query was refused: {first}", hint="docs/facts-tables.md names the tables") from None
