"""How many cores a Spark has, without one: on a cluster the executors join one after the other."""

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from fencepost.warehouse.spark_session import executor_cores, shuffle_partitions


def cluster(joined: list[int], cores_each: int) -> SparkSession:
    """A session of a cluster; `joined` is how many executors there are at each look, and stays at its last."""
    looks = iter(joined)
    now = [0]

    def infos() -> list[None]:
        now[0] = next(looks, now[0])
        return [None] * (now[0] + 1)

    class Context:
        master = "spark://host:7077"
        _jsc = SimpleNamespace(
            sc=lambda: SimpleNamespace(statusTracker=lambda: SimpleNamespace(getExecutorInfos=infos))
        )

        @property
        def defaultParallelism(self) -> int:
            return max(2, now[0] * cores_each)

    return cast(SparkSession, SimpleNamespace(sparkContext=Context()))


def test_the_executors_count_once_they_have_joined() -> None:
    assert executor_cores(cluster([0, 0, 1, 2, 3], 16)) == 48


def test_partitions_follow_the_executors() -> None:
    assert shuffle_partitions(cluster([3], 16)) == 96


def test_an_embedded_spark_has_the_cores_that_it_was_given() -> None:
    local = SimpleNamespace(sparkContext=SimpleNamespace(master="local[5]", defaultParallelism=5))
    assert executor_cores(cast(SparkSession, local)) == 5
