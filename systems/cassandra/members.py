"""Members of groups by rows that live for a time, as in KIP-30's published plug-in.

A member is a row with a time to live that is inserted where it is absent, renewed and deleted on condition that it is
still of the same incarnation. Cassandra counts whole seconds of the coordinator's clock, so a row of 3 s can end after
little more than 2: each row gets a second more than it is granted for, which the plug-in does not do. A second table
says which row belongs to a handle: whoever knows the handle can renew the row over any connection.

Nothing tells a client of a change. A listener reads the group again and again.

Source: riptano/kafka-cassandra-plugin, README and CassandraGroupMembership.scala.
"""

import asyncio
from typing import Final

import msgspec

from fencepost.harness.coordination import Definite, Granted, Indefinite, ListedMember, NotSent, ReadMode, Reply, Roster
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.statements import Statements, level
from fencepost.systems.cassandra.wire import errors
from fencepost.systems.cassandra.wire.frames import Consistency

_POLL_S: Final = 0.1
#: A row ends up to this much before its time to live is over.
_ROUNDING_S: Final = 1
_NEW: Final = "SELECT now() AS id FROM system.local"
_NOTE: Final = f"INSERT INTO {KEYSPACE}.leases (handle, team, id, data) VALUES (?, ?, ?, ?)"
_WHOSE: Final = f"SELECT team, id, data FROM {KEYSPACE}.leases WHERE handle = ?"
_ENTER: Final = f"INSERT INTO {KEYSPACE}.members (team, id, data, pid) VALUES (?, ?, ?, ?) IF NOT EXISTS USING TTL ?"
_KEEP: Final = f"UPDATE {KEYSPACE}.members USING TTL ? SET data = ?, pid = ? WHERE team = ? AND id = ? IF pid = ?"
_LEAVE: Final = f"DELETE FROM {KEYSPACE}.members WHERE team = ? AND id = ? IF pid = ?"
_LIST: Final = f"SELECT id, data FROM {KEYSPACE}.members WHERE team = ?"


class _Entry(msgspec.Struct, frozen=True):
    """Which row a handle is about."""

    team: bytes
    id: bytes
    data: bytes


class RowMemberships(Statements):
    """`harness.coordination.Memberships` on Cassandra, without keys of its leases that are no members."""

    _watched: tuple[str, frozenset[tuple[str, bytes]]] | None = None

    async def grant(self, ttl_ms: int) -> Granted:
        """Make a handle, a new number of the node's; nothing is kept before somebody enters with it."""
        seconds = ttl_ms // 1000
        rows = await self._connection.query(_NEW, consistency=Consistency.ONE)
        return Granted(f"{(rows[0]['id'] or b'').hex()}.{seconds}", seconds * 1000)

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        entry = _Entry(group.encode(), member.encode(), data)
        try:
            await self._connection.query(_NOTE, handle.encode(), entry.team, entry.id, data)
        except NotSent:
            raise
        except (Definite, Indefinite) as error:
            # Nobody is a member by it.
            raise Definite(error.code, "at the note of the handle") from None
        values = (entry.team, entry.id, data, handle.encode(), _ttl(handle))
        return await self._change(_ENTER, *values, otherwise=errors.EXISTS)

    async def keep_alive(self, handle: str) -> Granted:
        own = await self._entry(handle)
        pid = handle.encode()
        await self._change(_KEEP, _ttl(handle), own.data, pid, own.team, own.id, pid, otherwise=errors.LEASE_EXPIRED)
        return Granted(handle, _seconds(handle) * 1000)

    async def revoke(self, handle: str) -> Reply:
        own = await self._entry(handle)
        return await self._change(_LEAVE, own.team, own.id, handle.encode(), otherwise=errors.LEASE_EXPIRED)

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        rows = await self._connection.query(_LIST, group.encode(), consistency=level(mode))
        # A row whose values have ended, but not its key, is no member any more.
        members = ((row["id"] or b"", row["data"]) for row in rows)
        return Roster(tuple(ListedMember(id_.decode(), data) for id_, data in members if data is not None))

    async def watch_roster(self, group: str) -> Roster:
        roster = await self.roster(group, ReadMode.PLAIN)
        self._watched = group, _content(roster)
        return roster

    async def roster_changed(self, wait_s: float) -> bool:
        """Read the group every 100 ms until it is another one."""
        if self._watched is None:
            raise Definite(errors.NOT_WATCHING)
        group, before = self._watched
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while _content(await self.roster(group, ReadMode.PLAIN)) == before:
            if loop.time() + _POLL_S > end_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _entry(self, handle: str) -> _Entry:
        """Which row the handle is about, by the second table."""
        rows = await self._first(_WHOSE, handle.encode())
        if not rows:
            raise Definite(errors.LEASE_EXPIRED, "nobody entered with it")
        return _Entry(rows[0]["team"] or b"", rows[0]["id"] or b"", rows[0]["data"] or b"")


def _seconds(handle: str) -> int:
    return int(handle.partition(".")[2])


def _ttl(handle: str) -> bytes:
    return (_seconds(handle) + _ROUNDING_S).to_bytes(4)


def _content(roster: Roster) -> frozenset[tuple[str, bytes]]:
    return frozenset((member.id, member.data) for member in roster.members)
