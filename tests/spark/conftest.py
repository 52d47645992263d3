"""One Spark JVM for all tests of a run; it starts when the first test asks for it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from harness.spark_session import SparkHandle


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with SparkHandle.start("local[2]", scratch=tmp_path_factory.mktemp("spark")) as handle:
        session = handle.session(timeout_s=110)
        # The tests' frames have ten rows.
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        yield session
