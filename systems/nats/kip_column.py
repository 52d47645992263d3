"""What NATS JetStream says to the rows of KIP-30 (`harness.contract.kip_rows`).

The table of the proposal's day has no NATS. Members and leaders would need keys with times to live.
"""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_DOCS: Final = "docs.nats.io/nats-concepts/jetstream"
_ORDERED: Final = "ADR-17, ordered consumers"

COLUMN: Final = Column(
    recipes=(
        Recipe(
            part=Part.LISTENERS, name="ordered-consumer", version=1, about="a consumer from the sequence after the read"
        ),
        Recipe(part=Part.STORAGE, name="confirmed-key", version=1, about="a subject; reads are confirmed by a write"),
    ),
    claims={
        RowId.S1: by_recipe("a read is confirmed by a write that expects its sequence; plain gets may be stale"),
        RowId.S2: promised(f"{_DOCS}: Nats-Expected-Last-Subject-Sequence"),
        RowId.S3: promised(f"{_DOCS}: an acknowledged message is stored"),
        RowId.S4: by_recipe("two requests: a read, and a write on condition that the key has not changed since"),
        RowId.S5: cannot("the interface has no version to compare, whatever NATS has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.N1: by_recipe("the client makes a new consumer when the server that held it is gone"),
        RowId.N2: promised(f"{_DOCS}/consumers: each message with its sequence"),
        RowId.N3: promised(f"{_ORDERED}: in the order of the stream"),
        RowId.N4: by_recipe("the client makes a new consumer when the server that held it is gone"),
        RowId.N5: promised(f"{_DOCS}/consumers, DeliverPolicy: from the sequence after the read"),
        RowId.N6: by_recipe("the client ends its subscription"),
        RowId.S7: by_recipe("a quorum has it; on the disks only with sync_interval: always"),
    },
)
