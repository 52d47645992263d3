"""Ask a warehouse in SQL, from Python: `query("results/warehouse", "select system, outcome from run")`."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.harness.base.errors import UsageError
from fencepost.warehouse.spark_session import spark_failure, spark_session
from fencepost.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession


def query(
    root: str | Path, sql: str, *, spark: "SparkSession | None" = None, spark_master: str = "local[*]"
) -> "pd.DataFrame":
    """Ask a warehouse in SQL and return the answer as a pandas DataFrame.

    docs/reference/facts-tables.md and docs/how-to/many-runs-on-spark.md name the tables.

    `spark`: a session that is there already; without one, an embedded Spark is started and ended.

    Raises:
        UsageError: no warehouse is at `root`, a part of it is torn, or Spark does not understand the query.
        HarnessError: Spark failed.
    """
    if spark is None:
        with spark_session(spark_master, str(root)) as session:
            return query(root, sql, spark=session)
    warehouse = Warehouse(spark, str(root))
    try:
        with warnings.catch_warnings():
            # Spark warns of what it then raises.
            warnings.filterwarnings("ignore", message="toPandas attempted Arrow optimization")
            return warehouse.sql(sql).toPandas()
    except (PySparkException, Py4JError) as error:
        failure = spark_failure(error, warehouse.root)
        if isinstance(failure, UsageError) or not isinstance(error, PySparkException):
            raise failure from None
        first = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"the query was refused: {first}", hint="docs/reference/facts-tables.md names the tables"
        ) from None
