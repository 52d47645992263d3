"""What Cassandra's lightweight transactions say to the rows of KIP-30 (`harness.systems.contract.kip_rows`).

Storage is measured here. Members and leaders would rest on a column's time to live, counted in whole seconds of
each replica's own clock; the claims say so, and no recipe is played.
"""

from typing import Final

from fencepost.harness.systems.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_DOCS: Final = "cassandra.apache.org/doc/5.0"
_TRANSACTIONS: Final = f"{_DOCS}, Guarantees: lightweight transactions"
_TTL: Final = f"{_DOCS}, CQL, Expiring data with time-to-live"
_POLLED: Final = "nothing tells a client of a change; it can only read again"

COLUMN: Final = Column(
    recipes=(Recipe(part=Part.STORAGE, name="row", version=1, about="a row; put is INSERT IF NOT EXISTS"),),
    claims={
        RowId.M1: promised(f"{_TRANSACTIONS} (INSERT IF NOT EXISTS USING TTL)"),
        RowId.M2: promised(f"{_TRANSACTIONS}, within one partition"),
        RowId.M3: by_recipe("the delete names the incarnation (IF pid = ...)"),
        RowId.M4A: cannot(f"{_TTL}: whole seconds, by the clocks of the replicas"),
        RowId.M4B: by_recipe("the time to live and the skew of the replicas' clocks"),
        RowId.M5: promised(f"{_TRANSACTIONS}: the row is one partition"),
        RowId.M6: promised(f"{_TRANSACTIONS}: reads at level SERIAL"),
        RowId.M7: cannot(_POLLED),
        RowId.M8: cannot(_POLLED),
        RowId.L1: by_recipe("a time to live: the holder has to stop by its own clock first"),
        RowId.L2: promised(f"{_TRANSACTIONS}: reads at level SERIAL"),
        RowId.L3: promised(f"{_TRANSACTIONS}: reads at level SERIAL"),
        RowId.L4: by_recipe("the delete names the owner; one that was elected again has the same name"),
        RowId.L5: by_recipe("the time to live ends"),
        RowId.L6: by_recipe("acts are lightweight transactions of the same partition (IF owner = ...)"),
        RowId.L7: cannot(_POLLED),
        RowId.L8: by_recipe("getLeader after a nominate of unknown outcome"),
        RowId.S1: promised(_TRANSACTIONS),
        RowId.S2: promised(f"{_TRANSACTIONS} (INSERT IF NOT EXISTS)"),
        RowId.S3: promised(_TRANSACTIONS),
        RowId.S4: promised(f"{_TRANSACTIONS} (UPDATE IF EXISTS)"),
        RowId.S5: cannot("the interface has no version to compare, whatever Cassandra has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: by_recipe("a quorum has it in memory; on its disks only with commitlog_sync: batch"),
        RowId.N1: cannot(_POLLED),
        RowId.N2: cannot(_POLLED),
        RowId.N3: cannot(_POLLED),
        RowId.N4: by_recipe("the client reads again and again"),
        RowId.N5: cannot(_POLLED),
        RowId.N6: cannot(_POLLED),
        RowId.N7: cannot(_POLLED),
    },
)
