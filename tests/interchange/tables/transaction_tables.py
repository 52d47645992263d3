"""Tables of transactions for tests: known histories as the table has them, and tables that break a rule."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fencepost.checkers.transactions.columns import NEVER, NIL, OK, READ, WRITE, TransactionColumns
from fencepost.harness.interchange.formats.tables import TIME_MAX, transaction_columns
from tests.checkers.transactions.transaction_histories import Shape, Txn, columns, simulated, small, spliced, told


def in_time(txns: Sequence[Txn]) -> list[Txn]:
    """From moment 0 on and in the order of invocation, as a table is judged."""
    first = min(txn.invoked for txn in txns)
    moved = [replace(txn, invoked=txn.invoked - first, completed=txn.completed - first) for txn in txns]
    return sorted(moved, key=lambda txn: txn.invoked)


def table(txns: Sequence[Txn], *, lists: bool, seed: int | None = None) -> Any:
    """The table of some transactions; with a seed its rows are shuffled."""
    made = arrow_table(columns(in_time(txns)), lists=lists)
    if seed is None:
        return made
    order = list(range(made.num_rows))
    random.Random(seed).shuffle(order)
    return made.take(order)


def arrow_table(columns: TransactionColumns, *, lists: bool) -> Any:
    """The table of these columns, rows numbered as they stand.

    Names of keys and of values are dropped: their numbers stand for them.
    """
    c = columns
    write = c.kind == WRITE
    named = write if lists else write | ((c.kind == READ) & (c.value != NIL))
    fields = [pa.array(c.kind, pa.int8()), pa.array(c.key, pa.int64()), pa.array(c.value, pa.int64(), mask=~named)]
    names = ["f", "key", "value"]
    if lists:
        listed = (c.kind == READ) & np.repeat(c.outcome == OK, np.diff(c.first))
        lengths = np.diff(c.start)
        elements = c.elements[c.start[0] : c.start[-1]][np.repeat(listed, lengths)]
        ends = np.cumsum(np.where(listed, lengths, 0))
        # The offset of a list that is not there is null; the one before it ends at the next offset that is there.
        offsets = pa.array(np.append(0, ends), pa.int32(), mask=np.append(~listed, False))
        fields.append(pa.ListArray.from_arrays(offsets, pa.array(elements, pa.int64())))
        names.append("list")
    ops = pa.ListArray.from_arrays(pa.array(c.first, pa.int32()), pa.StructArray.from_arrays(fields, names))
    given = {
        "transaction": np.arange(len(c)),
        "process": c.process,
        "outcome": c.outcome,
        "invoked": c.invoked,
        "completed": np.where(c.outcome == OK, c.completed, NEVER),
    }
    kinds = transaction_columns(lists=lists)
    columns_ = [pa.array(given[name], kinds.field(name).type) for name in given]
    return pa.Table.from_arrays([*columns_, ops], schema=kinds)


def small_ones(count: int, *, lists: bool) -> list[list[Txn]]:
    """Random histories of a few transactions, most of them wrong somewhere."""
    return [small(random.Random(f"{lists}-{seed}"), lists=lists, most=9) for seed in range(count)]


#: Anomalies to put into a longer history, each in keys of its own.
MOTIFS: Final = {
    "stale": ("ax1 @0-5 #1", "rx @6-9 #2", "rx1 @10-12 #2"),
    "skew": ("rx ay1", "ry ax1"),
    "circle": ("ax1 ry1", "ay1 rx1"),
    "aborted": ("ax1 !fail", "rx1"),
    "lost": ("rx ax1", "rx ax2", "rx1,2"),
    "garbage": ("rx7",),
    "intermediate": ("ax1 ax2", "rx1", "rx1,2"),
    "order": ("ax1", "ax2", "rx1,2", "rx2,1"),
}


def longer(seed: int, transactions: int, *, lists: bool, isolation: str = "serializable", motif: str = "") -> list[Txn]:
    """A simulated history with unknown outcomes and failures, and an anomaly in it."""
    rng = random.Random(f"{seed}{isolation}{motif}")
    shape = Shape(transactions=transactions, clients=10, info=0.03, fails=0.03, isolation=isolation, lists=lists)
    history = simulated(rng, shape)
    return spliced(history, told(*MOTIFS[motif]), 0.5) if motif else history


def changed(made: Any, name: str, row: int, value: object) -> Any:
    """A table with another value in one row of a column."""
    values = made.column(name).to_pylist()
    values[row] = value
    place = made.schema.get_field_index(name)
    return made.set_column(place, made.schema.field(name), pa.array(values, made.schema.field(name).type))


def op(f: object = 0, key: object = 0, value: object = None, seen: object = None) -> dict[str, object]:
    """One micro-operation of a table of lists."""
    return {"f": f, "key": key, "value": value, "list": seen}


def wrong(made: Any) -> list[tuple[Any, str]]:
    """What is wrong with it, of a table of lists whose transactions 0, 1 and 2 are ok, and what is said of it."""
    at = made.column("invoked").to_pylist()
    process = made.column("process").to_pylist()
    return [
        (changed(made, "transaction", 1, 0), "transaction 0: 2 rows have this number"),
        (changed(made, "transaction", 1, -4), "transaction -4: its number is negative"),
        (changed(made, "outcome", 1, 3), "transaction 1: outcome is 3, not 0, 1 or 2"),
        (changed(made, "invoked", 0, -1), "transaction 0: invoked is -1, not from 0 to"),
        (changed(made, "completed", 1, at[1]), f"transaction 1: completed at {at[1]}, not after it was invoked"),
        (changed(made, "process", 1, process[0]), f"transaction 1: process {process[0]} invoked it before 0 was"),
        (changed(made, "ops", 1, [op(3)]), "transaction 1: micro-operation 0: f is 3, not 0 (write, append), 1 (read)"),
        (changed(made, "ops", 1, [op(0, 5)]), "transaction 1: micro-operation 0: it writes null"),
        (changed(made, "ops", 1, [op(1, 5)]), "transaction 1: micro-operation 0: a read has no list"),
        (changed(made, "ops", 1, [op(0, 5, 1, [])]), "transaction 1: micro-operation 0: an append has a list"),
        (changed(made, "ops", 1, [op(2, 5, None, [])]), "a read that was not answered has a list"),
        (changed(made, "ops", 1, [op(0, 900, 1), op(0, 900, 1)]), "it writes 1 to key 900, as transaction 1 does"),
        (changed(made, "ops", 1, [op(0, None, 1)]), "micro-operation 0: it, its f or its key is null"),
        (changed(made, "ops", 1, [op(1, 1, None, [None])]), "an element of its list is null"),
        (changed(made, "ops", 1, [None]), "micro-operation 0: it, its f or its key is null"),
        (changed(made, "invoked", 1, None), "column 'invoked' is null in 1 rows"),
        (changed(made, "completed", 1, TIME_MAX + 1), f"transaction 1: completed is {TIME_MAX + 1}, above {TIME_MAX}"),
    ]


def wrongly_typed(made: Any) -> list[tuple[Any, str]]:
    """Tables of other columns, and what is said."""
    texts = pa.array([[{"f": "r", "key": 1}]] * made.num_rows)
    return [
        (made.drop_columns(["process"]), "column 'process' is missing"),
        (made.set_column(5, "ops", texts), "a column is of another type"),
        (made.set_column(5, "ops", pa.array([1] * made.num_rows)), "a column is of another type"),
    ]
