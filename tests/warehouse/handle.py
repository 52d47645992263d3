"""A stand-in for the handle of Spark's JVM, so that commands use the session that the tests have."""

from pyspark.sql import SparkSession


def handle_of(spark: SparkSession, asked: list[str]) -> type:
    """In place of `warehouse.spark_session.SparkHandle`; `asked` gets the master of each that is made."""

    class Handle:
        def __init__(self, master: str) -> None:
            asked.append(master)

        def session(self) -> SparkSession:
            return spark

        def __enter__(self) -> "Handle":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    return Handle
