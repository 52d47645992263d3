"""Kafka's messages about topic partitions: produce, fetch, offsets, epochs; see `messages`."""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import Body, Bytes, Int8, Int16, Int32, Int64, Since, Tag, Text
from fencepost.systems.kafka.wire.messages import Api

# Produce


class ProducePartition(Body, frozen=True):
    index: Int32 = 0
    records: Bytes | None = b""


class ProduceTopic(Body, frozen=True):
    name: Text = ""
    partition_data: tuple[ProducePartition, ...] = ()


class ProduceRequest(Body, frozen=True):
    transactional_id: Text | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[ProduceTopic, ...] = ()


class RecordError(Body, frozen=True):
    batch_index: Int32 = 0
    batch_index_error_message: Text | None = None


class LeaderIdAndEpoch(Body, frozen=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class ProducePartitionResponse(Body, frozen=True):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    record_errors: Annotated[tuple[RecordError, ...], Since(8)] = ()
    error_message: Annotated[Text | None, Since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Since(10), Tag(0)] = LeaderIdAndEpoch()


class ProduceTopicResponse(Body, frozen=True):
    name: Text = ""
    partition_responses: tuple[ProducePartitionResponse, ...] = ()


class ProduceResponse(Body, frozen=True):
    responses: tuple[ProduceTopicResponse, ...] = ()
    throttle_time_ms: Int32 = 0


# Fetch


class FetchPartition(Body, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    partition_max_bytes: Int32 = 0


class FetchTopic(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Body, frozen=True):
    topic: Annotated[Text, Since(7)] = ""
    partitions: Annotated[tuple[Int32, ...], Since(7)] = ()


class FetchRequest(Body, frozen=True):
    cluster_id: Annotated[Text | None, Since(12), Tag(0)] = None
    replica_id: Int32 = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Since(7)] = 0
    session_epoch: Annotated[Int32, Since(7)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Since(7)] = ()
    rack_id: Annotated[Text, Since(11)] = ""


class DivergingEpoch(Body, frozen=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class AbortedTransaction(Body, frozen=True):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class FetchPartitionResponse(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5)] = -1
    diverging_epoch: Annotated[DivergingEpoch, Since(12), Tag(0)] = DivergingEpoch()
    current_leader: Annotated[LeaderIdAndEpoch, Since(12), Tag(1)] = LeaderIdAndEpoch()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: Bytes | None = b""


class FetchTopicResponse(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[FetchPartitionResponse, ...] = ()


class FetchResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(7)] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: tuple[FetchTopicResponse, ...] = ()


# Offsets and epochs


class ListOffsetsPartition(Body, frozen=True):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Body, frozen=True):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()


class ListOffsetsPartitionResponse(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Since(4)] = -1


class ListOffsetsTopicResponse(Body, frozen=True):
    name: Text = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Body, frozen=True):
    throttle_time_ms: Annotated[Int32, Since(2)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class EpochPartition(Body, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class EpochTopic(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[EpochPartition, ...] = ()


class OffsetForLeaderEpochRequest(Body, frozen=True):
    replica_id: Annotated[Int32, Since(3)] = -2
    topics: tuple[EpochTopic, ...] = ()


class EpochEndOffset(Body, frozen=True):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class EpochTopicResult(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[EpochTopicResult, ...] = ()


PRODUCE: Final = Api("Produce", 0, (3, 12), 9, ProduceRequest, ProduceResponse)
FETCH: Final = Api("Fetch", 1, (4, 12), 12, FetchRequest, FetchResponse)
LIST_OFFSETS: Final = Api("ListOffsets", 2, (1, 7), 6, ListOffsetsRequest, ListOffsetsResponse)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    "OffsetForLeaderEpoch", 23, (2, 4), 4, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
)
