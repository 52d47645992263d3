"""The schema of a Spark table as one `StructType`, and the check that a DataFrame has it."""

from pyspark.sql import DataFrame
from pyspark.sql import types as T


def table(**columns: T.DataType) -> T.StructType:
    """Make the schema with these columns, in order."""
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


def conforms(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """Return `frame` if its names and types are those of `schema`, in that order; else raise a TypeError with both.

    Nullability is not compared: Spark derives it from the steps, and outer joins change it.
    """
    expected = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    got = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    if got != expected:
        raise TypeError(f"expected the columns {expected}, got {got}")
    return frame
