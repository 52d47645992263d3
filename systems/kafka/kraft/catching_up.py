"""How a node of KRaft got its metadata, by its own log: the rest of the log, a snapshot, or less than it had.

A replica that fetches from an offset that the leader no longer has, or with an empty log while the leader has a
snapshot, is sent the snapshot. Which of these happens depends on `metadata.log.max.record.bytes.between.snapshots`,
`metadata.log.segment.*` and `metadata.max.retention.*`, which are settings: with their defaults no short run makes a
single snapshot.

Source: KafkaRaftClient, MetadataLoader and SnapshotGenerator of Kafka 3.6 to 4.3 (KIP-630).
"""

from typing import Final

from fencepost.harness.history import CatchUp

CAUGHT_UP: Final = {
    r"(\(LOG_DELTA\)|handleCommit): [Tt]he loader finished catching up": CatchUp.DIFFERENCE,
    r"Fully truncated the log at .* after downloading snapshot": CatchUp.SNAPSHOT,
    r"Truncated to offset \d+ from Fetch response": CatchUp.TRUNCATION,
    # A cluster whose voters can change begins with a snapshot of offset 0.
    r"handleLoadSnapshot\((?!0{20}-)\d+-\d+\): incrementing": CatchUp.LOADED,
    r"Creating new KRaft snapshot file": CatchUp.SAVED,
}
