"""What every part of the Cassandra client is made of: one connection, and lightweight transactions on it."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, Keys, NotSent, ReadMode, Reply
from fencepost.systems.cassandra import schema
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.wire.connection import CassandraConnection
from fencepost.systems.cassandra.wire.frames import Consistency, Row

LEVELS: Final[Mapping[ReadMode, Consistency]] = {
    ReadMode.STRONG: Consistency.SERIAL,
    ReadMode.LOCAL: Consistency.LOCAL_SERIAL,
    ReadMode.QUORUM: Consistency.QUORUM,
    ReadMode.PLAIN: Consistency.ONE,
}
_TRUE: Final = b"\x01"


class Statements:
    """One connection to one node, which coordinates every statement."""

    def __init__(self, connection: CassandraConnection, options: CassandraOptions) -> None:
        self._connection = connection
        self._options = options

    @property
    def session_id(self) -> int | None:
        """A connection of Cassandra has no number."""
        return None

    async def close(self) -> None:
        self._connection.close()

    async def prepare(self, needs: Keys) -> None:
        """Create the tables."""
        await schema.create(self._connection, self._options.transactions)

    async def _change(self, statement: str, *values: bytes, otherwise: str) -> Reply:
        """Make a lightweight transaction; raises `Definite(otherwise)` when its condition does not hold."""
        if not await self._apply(statement, *values):
            raise Definite(otherwise)
        return Reply()

    async def _apply(self, statement: str, *values: bytes) -> bool:
        """Make a lightweight transaction, and return whether its condition held."""
        rows = await self._connection.query(statement, *values, conditional=True)
        return all(row["[applied]"] == _TRUE for row in rows)

    async def _first(self, statement: str, *values: bytes) -> list[Row]:
        """Read at level QUORUM before a change; that read alone changes nothing, so it fails definitely."""
        try:
            return await self._connection.query(statement, *values, consistency=Consistency.QUORUM)
        except NotSent:
            raise
        except (Definite, Indefinite) as error:
            raise Definite(error.code, "at the read") from None


def level(mode: ReadMode) -> Consistency:
    if mode not in LEVELS:
        raise Definite("no-such-read", f"Cassandra has no read {mode.value!r}")
    return LEVELS[mode]
