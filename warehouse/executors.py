"""How much a Spark has to work with: the cores of its executors, which may be other machines than the driver's."""

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS_PER_CORE: Final = 2
#: How long executors of a cluster may take to register, and how long none may join before they count as complete.
_REGISTER_S: Final = 30.0
_SETTLED_S: Final = 1.0


def shuffle_partitions(spark: "SparkSession") -> int:
    """Return in how many partitions rows are shuffled: by the executors' cores."""
    return _PARTITIONS_PER_CORE * executor_cores(spark)


def executor_cores(spark: "SparkSession") -> int:
    """Return the cores of all executors. On a cluster, wait until no further one has joined for a second.

    Spark itself counts the executors that are there when it is asked, which are none when a session has just begun.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return int(context.defaultParallelism)
    deadline = time.monotonic() + _REGISTER_S
    joined, since = 0, time.monotonic()
    while time.monotonic() < deadline and (joined == 0 or time.monotonic() - since < _SETTLED_S):
        # The driver is in this list too.
        now = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
        if now != joined:
            joined, since = now, time.monotonic()
        time.sleep(0.05)
    return int(context.defaultParallelism)
