"""The keyspace and the tables that a run uses, and whether a cluster agrees on them.

Every node has a replica of every row, so a quorum of the replicas is a majority of the nodes. Speculative retries are
off: a coordinator asks each replica once.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.systems.cassandra.options import ListsBy
from fencepost.systems.cassandra.wire.connection import CassandraConnection
from fencepost.systems.cassandra.wire.frames import Consistency

KEYSPACE: Final = "fencepost"
#: `edition` is new at every write, so that a write can be compared with what was read.
_STORAGE: Final = (
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.pairs (k text PRIMARY KEY, v blob, edition timeuuid)"
    " WITH speculative_retry = 'NEVER'",
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.sets (name text, element int, PRIMARY KEY (name, element))"
    " WITH speculative_retry = 'NEVER'",
)
#: Every read and write of such a table is a transaction of Accord, the plain ones too.
_BY_ACCORD: Final = " AND transactional_mode = 'full'"
#: For transactions over several rows; only Accord has them.
_LISTS: Final = (
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.lists (k text PRIMARY KEY, v list<int>) WITH speculative_retry = 'NEVER'"
)
_RECIPES: Final = (
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.leaders (resource text, deed text, done blob, owner text static,"
    " term bigint static, PRIMARY KEY (resource, deed)) WITH speculative_retry = 'NEVER'",
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.members (team text, id text, data blob, pid text, PRIMARY KEY (team, id))"
    " WITH speculative_retry = 'NEVER'",
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.leases (handle text PRIMARY KEY, team text, id text, data blob)"
    " WITH speculative_retry = 'NEVER'",
)
_INSIST_S: Final = 20.0
_PAUSE_S: Final = 0.05


async def create(connection: CassandraConnection, transactions: ListsBy) -> None:
    """Create keyspace and tables, and wait until all nodes have them. Idempotent; raises Definite or Indefinite."""
    has_accord = transactions is ListsBy.ACCORD
    mode = _BY_ACCORD if has_accord else ""
    ordered = (*_STORAGE, _LISTS) if has_accord else _STORAGE
    nodes = 1 + await peers(connection)
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {nodes}}}"
    keyspace = f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {replication}"
    for statement in (keyspace, *(table + mode for table in ordered), *_RECIPES):
        await insist(functools.partial(connection.query, statement))

    async def agreed() -> None:
        why = await wrong(connection, nodes)
        if why is not None:
            raise Indefinite("not-agreed", why)

    await insist(agreed)


async def insist(step: Callable[[], Awaitable[object]]) -> None:
    """Repeat a step that may be made twice until it is done, for 20 s at most; raises its last Definite or Indefinite.

    Servers that have just started answer their first requests too late.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _INSIST_S
    while True:
        try:
            await step()
            return
        except NotSent:
            raise
        except (Definite, Indefinite):
            if loop.time() > end_s:
                raise
        await asyncio.sleep(_PAUSE_S)


async def peers(connection: CassandraConnection) -> int:
    """How many other nodes this one knows."""
    return len(await connection.query("SELECT peer FROM system.peers", consistency=Consistency.ONE))


async def versions(connection: CassandraConnection) -> set[bytes | None]:
    """The versions of the schema that this node and, as it knows them, its peers have."""
    rows = [
        *await connection.query("SELECT schema_version FROM system.local", consistency=Consistency.ONE),
        *await connection.query("SELECT schema_version FROM system.peers", consistency=Consistency.ONE),
    ]
    return {row["schema_version"] for row in rows}


async def wrong(connection: CassandraConnection, nodes: int) -> str | None:
    """What is wrong with the cluster as this node sees it, in words; None when nothing is.

    Once the tables are there, a read at level ALL needs every node.
    """
    known = await peers(connection)
    if known != nodes - 1:
        return f"it knows {known} of {nodes - 1} others"
    if len(await versions(connection)) != 1:
        return "the schemas differ"
    tables = await connection.query(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
        KEYSPACE.encode(),
        consistency=Consistency.ONE,
    )
    if len(tables) < len(_STORAGE) + len(_RECIPES):
        return None
    for level in (Consistency.ALL, Consistency.SERIAL):
        try:
            await connection.query(f"SELECT v FROM {KEYSPACE}.pairs WHERE k = ?", b"health", consistency=level)
        except (Definite, Indefinite) as error:
            return f"a read at level {level.name} ended {error}"
    return None
