"""What the runs of one command share: signals, the Spark JVM, progress; all given back at the end."""

from pathlib import Path

from fencepost.harness.base.stop_request import StopRequest
from fencepost.harness.cli.output.progress import Progress
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import execute
from fencepost.harness.warehouse.spark_session import SparkHandle


class Session:
    """Entered by a command that makes or judges runs."""

    progress: Progress
    stop: StopRequest
    spark: SparkHandle | None

    def __init__(self, spark_master: str, *, use_spark: bool = True) -> None:
        self._spark_master = spark_master
        self._use_spark = use_spark

    def __enter__(self) -> "Session":
        self.progress = Progress()
        self.stop = StopRequest()
        self.stop.install()
        # It makes its scratch folder when it boots: a command that is killed before leaves nothing.
        self.spark = SparkHandle(self._spark_master) if self._use_spark else None
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        try:
            if self.spark is not None:
                with self.stop.on_request(self.spark.abandon):
                    self.spark.stop()
        finally:
            self.stop.uninstall()
        # Also when it came after the verdict was said: who insists has one exit code.
        self.stop.check()

    def execute(self, checked: CheckedPlan, results: Path) -> Result:
        """Carry out one plan; raises as `harness.run.execute`."""
        try:
            return execute(checked, results, progress=self.progress, stop=self.stop, spark=self.spark)
        finally:
            self.progress.close()

    def stopped(self) -> bool:
        """Whether somebody asked to end."""
        return self.stop.asked
