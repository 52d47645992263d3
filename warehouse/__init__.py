"""Many runs through Spark: facts and verdicts derived again, and what only many runs together can say."""

from typing import Final

COMMANDS: Final = {
    "demo": ("fencepost.warehouse.commands.demo", "Attack etcd and ZooKeeper alike and compare them.", "Try it"),
    "warehouse": (
        "fencepost.warehouse.commands.warehouse",
        "Keep the verdicts of all runs as tables, and query them.",
        "Many runs",
    ),
}
MACHINE_CHECKS: Final = {"spark": "fencepost.warehouse.spark_session:check"}
TABLE_JUDGES: Final = {"spark": "fencepost.warehouse.by_spark:judge"}
