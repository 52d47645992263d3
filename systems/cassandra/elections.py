"""Leader election by a row that lives for a time: the recipe of KIP-30's published plug-in, with a term beside it.

The plug-in keeps who leads in a row with a time to live of 2 s. A candidate inserts it where it is absent, the leader
renews it on condition that it is still its own, and removes it on the same condition. All three are lightweight
transactions. What the plug-in lacks is a token: a leader whose row has ended, and that does not know, acts on.

So there is a number beside the row, which grows with every grant and never ends. It is the term, and the owner's name
is made of it. The trail stands in the same partition, since a transaction reaches one partition alone: an act that is
guarded is written on condition that the row is still the leader's. Acts have no position; the trail has them in the
order of their ballots, which are the timestamps of what transactions write.

Source: riptano/kafka-cassandra-plugin, README and CassandraLeaderElection.scala.
"""

from typing import Final

from fencepost.harness.coordination import Deeds, Definite, Held, Keys, Leading, ReadMode, Reply
from fencepost.systems.cassandra import schema
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.statements import Statements, level
from fencepost.systems.cassandra.wire import errors

_TABLE: Final = f"{KEYSPACE}.leaders"
#: The one election with its trail.
_PARTITION: Final = b"election"
#: What an act is written with: a row without any value would not exist.
_DONE: Final = b"\x01"
_SECOND_NS: Final = 1_000_000_000

_LOOK: Final = f"SELECT owner, term FROM {_TABLE} WHERE resource = ? LIMIT 1"
_BEGIN_COUNT: Final = f"UPDATE {_TABLE} SET term = ? WHERE resource = ? IF term = null"
_TAKE: Final = (
    f"BEGIN BATCH UPDATE {_TABLE} USING TTL ? SET owner = ? WHERE resource = ? IF owner = null AND term = ?;"
    f" UPDATE {_TABLE} SET term = ? WHERE resource = ?; APPLY BATCH"
)
_RENEW: Final = f"UPDATE {_TABLE} USING TTL ? SET owner = ? WHERE resource = ? IF owner = ?"
_RESIGN: Final = f"DELETE owner FROM {_TABLE} WHERE resource = ? IF owner = ?"
_ACT: Final = f"UPDATE {_TABLE} SET done = ? WHERE resource = ? AND deed = ? IF done = null"
_ACT_IF: Final = f"UPDATE {_TABLE} SET done = ? WHERE resource = ? AND deed = ? IF owner = ?"
_TRAIL: Final = f"SELECT deed, WRITETIME(done) AS at FROM {_TABLE} WHERE resource = ?"


class RowElections(Statements):
    """`harness.coordination.Elections` on Cassandra. The name of the election and of its trail are not used."""

    _owner: bytes | None = None

    async def prepare(self, needs: Keys) -> None:
        """Begin to count terms too."""
        await super().prepare(needs)
        await schema.insist(lambda: self._apply(_BEGIN_COUNT, _number(0), _PARTITION))

    async def acquire(self, name: str) -> Held:
        """Look who leads, then take the row where it is absent; of candidates that see one term, one gets the next."""
        rows = await self._first(_LOOK, _PARTITION)
        if not rows or rows[0]["term"] is None:
            raise Definite(errors.ABSENT, "the terms are not counted yet")
        if rows[0]["owner"] is not None:
            raise Definite(errors.HELD)
        before, ttl = rows[0]["term"], self._ttl()
        term = int.from_bytes(before) + 1
        handle = f"t{term}"
        values = (ttl, handle.encode(), _PARTITION, before, _number(term), _PARTITION)
        await self._change(_TAKE, *values, otherwise=errors.HELD)
        self._owner = handle.encode()
        return Held(token=term, handle=handle)

    async def renew(self) -> Reply:
        if self._owner is None:
            raise Definite(errors.LEASE_EXPIRED, "this client holds no term")
        owner = self._owner
        try:
            return await self._change(_RENEW, self._ttl(), owner, _PARTITION, owner, otherwise=errors.LEASE_EXPIRED)
        except Definite as refused:
            if refused.code == errors.LEASE_EXPIRED:
                self._owner = None
            raise

    async def release(self, name: str, held: Held) -> Reply:
        return await self._change(_RESIGN, _PARTITION, held.handle.encode(), otherwise=errors.NOT_HELD)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        rows = await self._connection.query(_LOOK, _PARTITION, consistency=level(mode))
        if not rows or rows[0]["owner"] is None:
            return Leading(None)
        return Leading(int(rows[0]["owner"].removeprefix(b"t")))

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        if guarded:
            values = (_DONE, _PARTITION, deed.encode(), held.handle.encode())
            return await self._change(_ACT_IF, *values, otherwise=errors.FENCED)
        return await self._change(_ACT, _DONE, _PARTITION, deed.encode(), otherwise=errors.EXISTS)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        rows = await self._connection.query(_TRAIL, _PARTITION, consistency=level(mode))
        done = [(int.from_bytes(row["at"]), row["deed"] or b"") for row in rows if row["at"] is not None]
        return Deeds(tuple(deed.decode() for _, deed in sorted(done)))

    def _ttl(self) -> bytes:
        """The time to live of the row: whole seconds, as Cassandra counts it."""
        return (self._options.lock_ttl // _SECOND_NS).to_bytes(4)


def _number(number: int) -> bytes:
    return number.to_bytes(8)
