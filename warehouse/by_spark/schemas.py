"""The tables of the checks through Spark. A name in the docstrings such as PAIRED -> OPERATIONS_TABLE means these."""

from typing import Final

from pyspark.sql import types as T

from fencepost.warehouse.spark_tables import table as _table

_LONG: Final = T.LongType()
_INT: Final = T.IntegerType()
_BYTE: Final = T.ByteType()
_TEXT: Final = T.StringType()
_LONGS: Final = T.ArrayType(T.LongType())

#: The columns of a history's events that pairing reads.
EVENTS: Final = _table(
    kind=_TEXT,
    index=_LONG,
    time_ns=_LONG,
    type=_TEXT,
    process=_LONG,
    f=_TEXT,
    node=_TEXT,
    key=_TEXT,
    value=_TEXT,
)

#: Operations on registers in integer columns, as `checkers.tables.operations.COLUMNS`.
OPERATIONS_TABLE: Final = _table(
    key=_LONG,
    f=_BYTE,
    a=_LONG,
    b=_LONG,
    process=_INT,
    invoked=_LONG,
    returned=_LONG,
)

#: The same columns, and the key's name.
NAMED_OPERATIONS: Final = T.StructType([*OPERATIONS_TABLE.fields, *_table(name=_TEXT).fields])

#: Operations of a history with their values as JSON text; `broken` is the rule that their event breaks.
PAIRED: Final = _table(
    index=_LONG,
    complete_index=_LONG,
    process=_LONG,
    f=_TEXT,
    node=_TEXT,
    key=_TEXT,
    type=_TEXT,
    invoked_ns=_LONG,
    completed_ns=_LONG,
    value=_TEXT,
    result=_TEXT,
    broken=_TEXT,
)

#: Results of the native search, as `checkers.tables.operations.Found`: keys that are not valid, and sums of the others.
FOUND: Final = _table(
    key=_LONG,
    verdict=_TEXT,
    reason=_TEXT,
    stop=_TEXT,
    keys=_LONG,
    operations=_LONG,
    info_operations=_LONG,
    exposed_reads=_LONG,
    exposed_swaps=_LONG,
    steps=_LONG,
    failed_process=_LONG,
    failed_invoked=_LONG,
)

#: Micro-operations and what whole keys of them show: `MICRO` and `PIECE` of `checkers.tables.transactions_by_key`.
MICRO_OPERATIONS: Final = _table(
    key=_LONG,
    transaction=_LONG,
    process=_INT,
    outcome=_BYTE,
    invoked=_LONG,
    completed=_LONG,
    place=_INT,
    elsewhere=_BYTE,
    f=_INT,
    value=_LONG,
    list=_LONGS,
)
PIECES: Final = _table(
    what=_LONG,
    name=_TEXT,
    key=_LONG,
    source=_LONG,
    target=_LONG,
    kind=_LONG,
    source_time=_LONG,
    target_time=_LONG,
    target_until=_LONG,
)

#: Keys that an order of transactions does not explain.
UNEXPLAINED: Final = _table(key=_LONG)
