"""What one node of Cassandra holds by its own answer, once a read of everything has repaired what differed.

Replicas may differ until they are repaired. A read at level ALL repairs the rows that it reads, and answers only then:
so every row is read like that first, and then by the node alone. NODE_LOCAL, a level for debugging, asks no other
replica (from 4.0).
"""

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.runtime.node import Place
from fencepost.systems.cassandra.asking import asking
from fencepost.systems.cassandra.schema import KEYSPACE
from fencepost.systems.cassandra.wire.frames import Consistency

_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?"


async def read(place: Place) -> list[ReplicaState]:
    """Read every table; raises Definite or Indefinite. The caller bounds the wait."""
    entries: dict[str, str] = {}
    async with asking(place) as connection:
        tables = await connection.query(_TABLES, KEYSPACE.encode(), consistency=Consistency.ONE)
        for table in sorted((row["table_name"] or b"").decode() for row in tables):
            statement = f"SELECT JSON * FROM {KEYSPACE}.{table}"
            await connection.query(statement, consistency=Consistency.ALL)
            rows = await connection.query(statement, consistency=Consistency.NODE_LOCAL)
            entries |= {f"{table} {(row['[json]'] or b'').decode()}": "a row" for row in rows}
    return [ReplicaState(entries=entries, subject="tables")]
