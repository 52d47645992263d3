"""The Cassandra client: one connection to one node, one statement for each call, outcomes by `wire/errors.py`.

Nothing retries, reconnects, speculates or queues, and there are no time-outs: the caller cancels a call at its own
deadline. The node is the coordinator of every call. Writes carry no timestamp, so the coordinator stamps them.

A compare-and-set is a lightweight transaction, and so is a write unless `-O writes=quorum` makes it a plain one.
Cassandra tells no position of a write or of a row, and has no leader, so `position` and `epoch` are None.
"""

import asyncio
import functools
import uuid
from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import Interface, Keys, Members, ReadMode, Reply
from fencepost.systems.cassandra import schema
from fencepost.systems.cassandra.elections import RowElections
from fencepost.systems.cassandra.members import RowMemberships
from fencepost.systems.cassandra.options import Writes
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.statements import Statements, level
from fencepost.systems.cassandra.transactions import RowTransactions
from fencepost.systems.cassandra.wire import errors

#: Keys that are created at a time.
_TOGETHER: Final = 20
_SET: Final = f"UPDATE {KEYSPACE}.pairs SET v = ?, edition = now() WHERE k = ?"
_CREATE: Final = f"INSERT INTO {KEYSPACE}.pairs (k, v, edition) VALUES (?, ?, now()) IF NOT EXISTS"
_READ: Final = f"SELECT v, edition FROM {KEYSPACE}.pairs WHERE k = ?"
_ADD: Final = f"INSERT INTO {KEYSPACE}.sets (name, element) VALUES (?, ?)"
_MEMBERS: Final = f"SELECT element FROM {KEYSPACE}.sets WHERE name = ?"


class RowStorage(Statements):
    """`harness.coordination.KeyValue` on Cassandra."""

    async def prepare(self, needs: Keys) -> None:
        """Create these keys with an empty value too: a write by transaction changes a row that exists."""
        await super().prepare(needs)
        for first in range(0, len(needs.names), _TOGETHER):
            some = needs.names[first : first + _TOGETHER]
            made = (functools.partial(self._apply, _CREATE, key.encode(), b"") for key in some)
            await asyncio.gather(*map(schema.insist, made))

    async def read(self, key: str, mode: ReadMode) -> Reply:
        rows = await self._connection.query(_READ, key.encode(), consistency=level(mode))
        if not rows:
            return Reply()
        edition = rows[0]["edition"]
        return Reply(value=rows[0]["v"], version=None if edition is None else int.from_bytes(edition))

    async def write(self, key: str, value: bytes) -> Reply:
        if self._options.writes is Writes.QUORUM:
            await self._connection.query(_SET, value, key.encode())
            return Reply()
        return await self.update(key, value)

    async def update(self, key: str, value: bytes) -> Reply:
        """`harness.coordination.storage.UpdatesKeys`: a lightweight transaction."""
        return await self._change(f"{_SET} IF EXISTS", value, key.encode(), otherwise=errors.ABSENT)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        return await self._change(f"{_SET} IF v = ?", new, key.encode(), old, otherwise=errors.CAS_MISMATCH)

    async def create(self, key: str, value: bytes) -> Reply:
        return await self._change(_CREATE, key.encode(), value, otherwise=errors.EXISTS)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Compare the edition, which is new at every write; without one the key must be absent."""
        if version is None:
            return await self._change(_CREATE, key.encode(), value, otherwise=errors.CAS_MISMATCH)
        edition = uuid.UUID(int=version).bytes
        return await self._change(f"{_SET} IF edition = ?", value, key.encode(), edition, otherwise=errors.CAS_MISMATCH)

    async def add(self, name: str, element: int) -> Reply:
        """Add a row to the partition of the set; a plain write does not see whether it is there."""
        values = name.encode(), element.to_bytes(4)
        if self._options.writes is Writes.QUORUM:
            await self._connection.query(_ADD, *values)
            return Reply()
        return await self._change(f"{_ADD} IF NOT EXISTS", *values, otherwise=errors.EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        rows = await self._connection.query(_MEMBERS, name.encode(), consistency=level(mode))
        return Members(tuple(sorted(int.from_bytes(row["element"] or b"") for row in rows)))


SESSIONS: Final[Mapping[str, type[Statements]]] = {
    Interface.STORAGE: RowStorage,
    Interface.ELECTION: RowElections,
    Interface.MEMBERSHIP: RowMemberships,
    Interface.LISTS: RowTransactions,
}
