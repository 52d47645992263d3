"""How a node of KRaft got its metadata, by its own log: the rest of the log, a snapshot, or less than it had.

A replica that fetches from an offset that the leader no longer has, or with an empty log while the leader has a
snapshot, is sent the snapshot. Which of these happens depends on `metadata.log.max.record.bytes.between.snapshots`,
`metadata.log.segment.*` and `metadata.max.retention.*`, which are settings: with their defaults no short run makes a
single snapshot.

Source: KafkaRaftClient, MetadataLoader and SnapshotGenerator of Kafka 3.6 to 4.3 (KIP-630).
"""

import re
from typing import Final

from fencepost.harness.history import CatchUp

_LINES: Final = {
    CatchUp.DIFFERENCE: re.compile(r"(\(LOG_DELTA\)|handleCommit): [Tt]he loader finished catching up"),
    CatchUp.SNAPSHOT: re.compile(r"Fully truncated the log at .* after downloading snapshot"),
    CatchUp.TRUNCATION: re.compile(r"Truncated to offset \d+ from Fetch response"),
    # A cluster whose voters can change begins with a snapshot of offset 0.
    CatchUp.LOADED: re.compile(r"handleLoadSnapshot\((?!0{20}-)\d+-\d+\): incrementing"),
    CatchUp.SAVED: re.compile(r"Creating new KRaft snapshot file"),
}
CATCH_UPS: Final = tuple(_LINES)


def caught_up(line: str) -> CatchUp | None:
    """How the node got metadata, where this line of its log says so; else None."""
    return next((how for how, pattern in _LINES.items() if pattern.search(line)), None)
