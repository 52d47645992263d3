"""What Cassandra's lightweight transactions say to the rows of KIP-30 (`harness.contract.kip_rows`).

Members and leaders are rows with a time to live, as in the only plug-in for KIP-30 that was published: counted in whole
seconds of the coordinators' clocks. Nothing tells a client of a change, so there are no listeners.
"""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_DOCS: Final = "cassandra.apache.org/doc/5.0"
_TRANSACTIONS: Final = f"{_DOCS}, Guarantees: lightweight transactions"

COLUMN: Final = Column(
    recipes=(
        Recipe(
            part=Part.MEMBERSHIP,
            name="ttl-row",
            version=1,
            about="a row with a time to live for each member, as in riptano/kafka-cassandra-plugin, and a second more",
        ),
        Recipe(
            part=Part.ELECTION,
            name="ttl-row",
            version=1,
            about="a row with a time to live says who leads, as in riptano/kafka-cassandra-plugin; a number of terms"
            " beside it for acts that check it",
        ),
        Recipe(part=Part.STORAGE, name="row", version=1, about="a row; put is INSERT IF NOT EXISTS"),
    ),
    claims={
        RowId.M1: promised(f"{_TRANSACTIONS} (INSERT IF NOT EXISTS USING TTL)"),
        RowId.M2: promised(f"{_DOCS}, Guarantees: a read of one partition at level SERIAL"),
        RowId.M3: promised(f"{_TRANSACTIONS} (DELETE IF pid =)"),
        RowId.M4A: by_recipe(
            "a second more than the granted time, since Cassandra counts whole seconds; the coordinators' clocks agree"
        ),
        RowId.M4B: by_recipe("the time to live, by the coordinators' clocks"),
        RowId.M5: promised(f"{_DOCS}, Guarantees: a row is written as a whole"),
        RowId.M6: by_recipe("reads at level SERIAL; at level ONE two replicas may differ"),
        RowId.M7: by_recipe("the client reads the group again and again; nothing tells it of a change"),
        RowId.M8: cannot("a row ends by itself, and nobody is told"),
        RowId.L1: by_recipe("the time to live: a leader that stalls for longer still believes"),
        RowId.L2: promised(f"{_TRANSACTIONS}, and reads at level SERIAL"),
        RowId.L3: promised(f"{_DOCS}, Guarantees: a read at level SERIAL"),
        RowId.L4: promised(f"{_TRANSACTIONS} (DELETE IF owner =, by the term and not by the candidate's id alone)"),
        RowId.L5: by_recipe("the row ends by its time to live"),
        RowId.L6: promised(f"{_TRANSACTIONS}: an act in the partition of the leader's row, on condition of its owner"),
        RowId.L7: by_recipe("observers at level SERIAL; at level ONE two replicas may differ"),
        RowId.L8: by_recipe("getLeader after a nominate of unknown outcome"),
        RowId.S1: promised(_TRANSACTIONS),
        RowId.S2: promised(f"{_TRANSACTIONS} (INSERT IF NOT EXISTS)"),
        RowId.S3: promised(_TRANSACTIONS),
        RowId.S4: promised(f"{_TRANSACTIONS} (UPDATE IF EXISTS)"),
        RowId.S5: cannot("the interface has no version to compare, whatever Cassandra has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: by_recipe("a quorum has it in memory; on its disks only with commitlog_sync: batch"),
    },
)
