"""What the example says to the rows of KIP-30 (`harness.contract.kip_rows`)."""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_LOG: Final = "Raft: every request, reads too, takes its place in the log"

COLUMN: Final = Column(
    recipes=(
        Recipe(part=Part.MEMBERSHIP, name="lease-key", version=1, about="a key on a lease, created where it is absent"),
        Recipe(part=Part.STORAGE, name="key", version=1, about="a key of the store"),
    ),
    claims={
        RowId.M1: promised(_LOG),
        RowId.M2: promised(_LOG),
        RowId.M3: promised("the end of a lease deletes its own keys"),
        RowId.M4A: promised("an end that the leader asks for is void if the lease was kept meanwhile"),
        RowId.M4B: promised("the leader looks for leases that are over ten times per election time-out"),
        RowId.M5: promised(_LOG),
        RowId.M6: promised("a node applies its log in order"),
        RowId.M7: by_recipe("the client lists again every 50 ms; the example calls nobody"),
        RowId.M8: by_recipe("the member asks (keep-alive)"),
        RowId.S1: promised(_LOG),
        RowId.S2: promised(_LOG),
        RowId.S3: promised(_LOG),
        RowId.S4: by_recipe("two requests: a read, and a write on condition that the key has not changed since"),
        RowId.S5: cannot("the interface has no version to compare"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: promised("an entry is on the disks of a majority before it is acknowledged"),
    },
)
