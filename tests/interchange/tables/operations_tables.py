"""Tables of operations for tests and measurements: from histories, and valid ones of any size by arithmetic alone."""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.storage.register_anomalies import encode
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, WRITE, ProofRow
from fencepost.harness.history import Operation
from fencepost.harness.interchange.formats.tables import COLUMNS, UNKNOWN
from fencepost.harness.results.reader import read_history
from tests.histories.language import FOLDER, cases
from tests.histories.simulate import Shape, bend, valid_history

CLIENTS: Final = 5
_STEP_NS: Final = 1_000
#: Steps by which an operation begins before its effect, and ends after it, at most: half of what its client has.
_SPREAD: Final = 2


class OperationRows(NamedTuple):
    """Operations in columns, as `COLUMNS`."""

    key: Any
    f: Any
    a: Any
    b: Any
    process: Any
    invoked: Any
    returned: Any

    def at(self, places: Any) -> "OperationRows":
        return OperationRows(*(column[places] for column in self))


def from_operations(operations: Sequence[Operation]) -> OperationRows:
    """The table of a history's reads, writes and compare-and-sets."""
    columns = encode(operations)
    process = np.array([op.process for op in columns.operations], dtype=np.int64)
    return OperationRows(columns.key, columns.f, columns.a, columns.b, process, columns.invoked, columns.returned)


def from_rows(histories: Sequence[Sequence[ProofRow]]) -> OperationRows:
    """Simulated registers, each a key of its own."""
    told = [
        (key, row.f, row.a, row.b, place, round(1000 * row.invoked), _returned(row))
        for key, history in enumerate(histories)
        for place, row in enumerate(history)
    ]
    table = np.array(told, dtype=np.int64).reshape(len(told), len(COLUMNS))
    return OperationRows(*(np.ascontiguousarray(table[:, i]) for i in range(len(COLUMNS))))


def _returned(row: ProofRow) -> int:
    return UNKNOWN if row.returned == NEVER else round(1000 * row.returned)


def arrow(rows: OperationRows) -> Any:
    return pa.table([pa.array(column, field.type) for column, field in zip(rows, COLUMNS, strict=True)], COLUMNS)


def store(rows: OperationRows, path: Path) -> str:
    pq.write_table(arrow(rows), path)
    return str(path)


def generate(path: Path, operations: int, keys: int, *, seed: int = 1, bad: Sequence[int] = ()) -> None:
    """A valid table in the order of time, as clients of all keys would leave it; each of `bad` has one stale read.

    A key is played by `CLIENTS` clients in turn. Its operations take effect one after the other: reads, writes and
    compare-and-sets to new values in equal parts. Each lasts from some moments before that to some after, so that most
    overlap others, but none of its own client.
    """
    rng = np.random.default_rng(seed)
    each = operations // keys
    stale_at = each * 9 // 10
    own = np.arange(keys, dtype=np.int64)
    phase = rng.integers(0, _STEP_NS, keys)
    last = np.zeros(keys, dtype=np.int64)
    schema = arrow(OperationRows(*(own[:0] for _ in COLUMNS))).schema
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for place in range(each):
            f = rng.integers(READ, CAS + 1, keys) if place else np.full(keys, WRITE)
            held = last
            if place == stale_at:
                f[list(bad)] = READ
                held = last.copy()
                held[list(bad)] = 0
            new = np.where(f == READ, last, place + 1)
            at = (place + _SPREAD) * _STEP_NS + phase
            rows = OperationRows(
                key=own,
                f=f,
                a=np.where(f == WRITE, new, held),
                b=np.where(f == CAS, new, 0),
                process=own * CLIENTS % 2**30 + place % CLIENTS,
                invoked=at - rng.integers(0, _SPREAD * _STEP_NS, keys),
                returned=at + rng.integers(0, _SPREAD * _STEP_NS, keys),
            )
            writer.write_table(arrow(rows.at(rng.permutation(keys))))
            last = new


def joined(tables: Sequence[OperationRows]) -> OperationRows:
    """Several tables as one; their keys are numbered on."""
    first, moved = 0, []
    for rows in tables:
        moved.append(rows._replace(key=rows.key + first))
        first += int(rows.key.max(initial=-1)) + 1
    return OperationRows(*(np.concatenate(columns) for columns in zip(*moved, strict=True)))


def shuffled(rows: OperationRows, seed: int) -> OperationRows:
    return rows.at(np.random.default_rng(seed).permutation(len(rows.key)))


@cache
def known_tables() -> tuple[OperationRows, ...]:
    """The kept histories of registers, and random ones: valid and bent, with unknown outcomes, many clients, ties."""
    tables = [from_operations(case.history.operations) for case in cases("register")]
    found = sorted((FOLDER / "found").glob("*/history.parquet"))
    tables += [from_operations(read_history(path).operations) for path in found]
    for seed in range(120):
        rng = random.Random(seed)
        shape = Shape(
            operations=rng.choice((3, 12, 60, 200)),
            clients=rng.choice((2, 5, 9)),
            values=rng.choice((0, 0, 2, 4)),
            info=rng.choice((0.0, 0.02, 0.2)),
        )
        history = valid_history(rng, shape)
        for _ in range(rng.randrange(3)):
            history = bend(rng, history, shape.values)
        rows = from_rows([history])
        if seed % 3 == 0:
            # Coarse clocks: several operations begin, or end, at one time.
            known = rows.returned >= 0
            rows = rows._replace(
                invoked=rows.invoked // 4000, returned=np.where(known, rows.returned // 4000, rows.returned)
            )
        tables.append(rows)
    return tuple(rows for rows in tables if len(rows.key))
