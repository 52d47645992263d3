"""What NATS JetStream says to the rows of KIP-30 (`harness.systems.contract.kip_rows`).

The table of the proposal's day has no NATS. Storage is measured here; the others would need per-key times to live.
"""

from typing import Final

from fencepost.harness.systems.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_DOCS: Final = "docs.nats.io/nats-concepts/jetstream"

COLUMN: Final = Column(
    recipes=(
        Recipe(part=Part.STORAGE, name="confirmed-key", version=1, about="a subject; reads are confirmed by a write"),
    ),
    claims={
        RowId.S1: by_recipe("a read is confirmed by a write that expects its sequence; plain gets may be stale"),
        RowId.S2: promised(f"{_DOCS}: Nats-Expected-Last-Subject-Sequence"),
        RowId.S3: promised(f"{_DOCS}: an acknowledged message is stored"),
        RowId.S5: cannot("the interface has no version to compare, whatever NATS has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: by_recipe("a quorum has it; on the disks only with sync_interval: always"),
    },
)
