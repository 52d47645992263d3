"""The requests by which a replica of the metadata log fetches it from its leader; see `messages`.

The raft layer knows the log by its topic's id, so its Fetch begins at version 13. It answers with what is not committed
too, also to whoever names no replica.

Source: FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse in `common/message/` of kafka-clients
3.6.0, 3.9.2 and 4.3.1; KIP-595, KIP-630.
"""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import (
    NO_UUID,
    Body,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    Tag,
    Text,
    Uuid,
)
from fencepost.systems.kafka.wire.log_messages import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartition,
    LeaderIdAndEpoch,
)
from fencepost.systems.kafka.wire.messages import Api

METADATA_TOPIC: Final = "__cluster_metadata"
#: The id that every cluster gives its metadata log.
METADATA_TOPIC_ID: Final = bytes(15) + b"\1"


class SnapshotId(Body, frozen=True):
    """A snapshot stands for all records below `end_offset`; `epoch` is that of the last of them. -1: there is none."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


# Fetch of the metadata log


class LogTopic(Body, frozen=True):
    topic_id: Uuid = NO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenLog(Body, frozen=True):
    topic_id: Uuid = NO_UUID
    partitions: tuple[Int32, ...] = ()


class FetchLogRequest(Body, frozen=True):
    cluster_id: Annotated[Text | None, Tag(0)] = None
    replica_id: Int32 = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = 0
    session_epoch: Int32 = -1
    topics: tuple[LogTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenLog, ...] = ()
    rack_id: Text = ""


class LogPartitionResponse(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = -1
    diverging_epoch: Annotated[DivergingEpoch, Tag(0)] = DivergingEpoch()
    current_leader: Annotated[LeaderIdAndEpoch, Tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Tag(2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: Int32 = -1
    records: Bytes | None = b""


class LogTopicResponse(Body, frozen=True):
    topic_id: Uuid = NO_UUID
    partitions: tuple[LogPartitionResponse, ...] = ()


class FetchLogResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    session_id: Int32 = 0
    responses: tuple[LogTopicResponse, ...] = ()


# FetchSnapshot


class SnapshotPartition(Body, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    position: Int64 = 0


class SnapshotTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[SnapshotPartition, ...] = ()


class FetchSnapshotRequest(Body, frozen=True):
    cluster_id: Annotated[Text | None, Tag(0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: tuple[SnapshotTopic, ...] = ()


class SnapshotPartitionResponse(Body, frozen=True):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    current_leader: Annotated[LeaderIdAndEpoch, Tag(0)] = LeaderIdAndEpoch(0, 0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Bytes = b""


class SnapshotTopicResponse(Body, frozen=True):
    name: Text = ""
    partitions: tuple[SnapshotPartitionResponse, ...] = ()


class FetchSnapshotResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: tuple[SnapshotTopicResponse, ...] = ()


FETCH_LOG: Final = Api("Fetch", 1, (13, 13), 12, FetchLogRequest, FetchLogResponse)
FETCH_SNAPSHOT: Final = Api("FetchSnapshot", 59, (0, 0), 0, FetchSnapshotRequest, FetchSnapshotResponse)
