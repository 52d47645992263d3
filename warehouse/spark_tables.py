"""The schema of a Spark table as one `StructType`."""

from pyspark.sql import types as T


def table(**columns: T.DataType) -> T.StructType:
    """Make the schema with these columns, in order."""
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])
