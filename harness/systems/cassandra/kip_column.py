"""What Cassandra's lightweight transactions say to the rows of KIP-30 (`harness.systems.contract.kip_rows`).

Storage alone: members and leaders would rest on a row's time to live, counted in whole seconds of each replica's own
clock, and nothing tells a client of a change.
"""

from typing import Final

from fencepost.harness.systems.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_DOCS: Final = "cassandra.apache.org/doc/5.0"
_TRANSACTIONS: Final = f"{_DOCS}, Guarantees: lightweight transactions"

COLUMN: Final = Column(
    recipes=(Recipe(part=Part.STORAGE, name="row", version=1, about="a row; put is INSERT IF NOT EXISTS"),),
    claims={
        RowId.S1: promised(_TRANSACTIONS),
        RowId.S2: promised(f"{_TRANSACTIONS} (INSERT IF NOT EXISTS)"),
        RowId.S3: promised(_TRANSACTIONS),
        RowId.S4: promised(f"{_TRANSACTIONS} (UPDATE IF EXISTS)"),
        RowId.S5: cannot("the interface has no version to compare, whatever Cassandra has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: by_recipe("a quorum has it in memory; on its disks only with commitlog_sync: batch"),
    },
)
