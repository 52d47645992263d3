"""A table of Spark's as one `StructType`: names and types are fixed where it is declared, and steps are held to it."""

from pyspark.sql import DataFrame
from pyspark.sql import types as T


def table(**columns: T.DataType) -> T.StructType:
    """The schema with these columns, in order."""
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


def conforms(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """`frame` itself, once its names and types are those of `schema`, in that order; else a TypeError that says where.

    Whether a column may be null is left out: Spark derives that from the steps, and outer joins change it.
    """
    expected = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    got = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    if got != expected:
        raise TypeError(f"expected the columns {expected}, got {got}")
    return frame
