"""Transactions over several rows, which Cassandra has with Accord (CEP-15): `BEGIN TRANSACTION`.

All reads of a transaction come before its writes. It answers with one row, which has a column for each list that was
read. There is no condition, so a transaction is never aborted.
"""

import struct
from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Lists
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.statements import Statements

_READ: Final = f"LET r{{0}} = (SELECT v FROM {KEYSPACE}.lists WHERE k = ?);"
_APPEND: Final = f"UPDATE {KEYSPACE}.lists SET v += ? WHERE k = ?;"


class RowTransactions(Statements):
    """`harness.coordination.ListTransactions` on Cassandra: a list is a row."""

    async def transact(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        shown = ", ".join(f"r{i}.v" for i in range(len(reads)))
        statement = " ".join(
            (
                "BEGIN TRANSACTION",
                *(_READ.format(i) for i in range(len(reads))),
                *([f"SELECT {shown};"] if reads else ()),
                *(_APPEND for _ in appends),
                "COMMIT TRANSACTION",
            )
        )
        added = [part for key, number in appends for part in (_list(number), key.encode())]
        rows = await self._connection.query(statement, *(key.encode() for key in reads), *added, conditional=True)
        if not reads:
            return Lists(())
        return Lists(tuple(_numbers(rows[0][f"r{i}.v"]) for i in range(len(reads))))


def _list(number: int) -> bytes:
    """A list of one number, as protocol 4 writes it: how many, then for each its size and the number."""
    return struct.pack(">iii", 1, 4, number)


def _numbers(value: bytes | None) -> tuple[int, ...]:
    if value is None:
        return ()
    (count,) = struct.unpack_from(">i", value)
    return struct.unpack(f">{'xxxxi' * count}", value[4:])
