"""Kafka's messages about transactions: their coordinator, their partitions, their end; see `messages`.

From EndTxn 5 on (transactions of version 2, KIP-890) a coordinator gives the producer a new epoch at the end of every
transaction, and partitions and groups are added to it by Produce 12 and TxnOffsetCommit 5. In the earlier versions,
which every release from 2.8 on knows, an epoch lasts until another producer with the same transactional id begins, and
partitions are added first. A client chooses by the versions in which it asks (`client.transactions`).
"""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import Body, Bool, Int8, Int16, Int32, Int64, Since, Text
from fencepost.systems.kafka.wire.messages import Api

# FindCoordinator


class FindCoordinatorRequest(Body, frozen=True):
    key: Text = ""
    key_type: Int8 = 0


class FindCoordinatorResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = ""
    node_id: Int32 = 0
    host: Text = ""
    port: Int32 = 0


# AddPartitionsToTxn


class AddedTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[Int32, ...] = ()


class AddPartitionsToTxnRequest(Body, frozen=True):
    v3_and_below_transactional_id: Text = ""
    v3_and_below_producer_id: Int64 = 0
    v3_and_below_producer_epoch: Int16 = 0
    v3_and_below_topics: tuple[AddedTopic, ...] = ()


class AddedPartitionResult(Body, frozen=True):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddedTopicResult(Body, frozen=True):
    name: Text = ""
    results_by_partition: tuple[AddedPartitionResult, ...] = ()


class AddPartitionsToTxnResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: tuple[AddedTopicResult, ...] = ()


# EndTxn


class EndTxnRequest(Body, frozen=True):
    transactional_id: Text = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Since(5)] = -1
    producer_epoch: Annotated[Int16, Since(5)] = -1


# Offsets of consumer groups


class AddOffsetsToTxnRequest(Body, frozen=True):
    transactional_id: Text = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: Text = ""


class AddOffsetsToTxnResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class TxnOffset(Body, frozen=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    committed_metadata: Text | None = ""


class TxnOffsetTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[TxnOffset, ...] = ()


class TxnOffsetCommitRequest(Body, frozen=True):
    transactional_id: Text = ""
    group_id: Text = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = -1
    member_id: Text = ""
    group_instance_id: Text | None = None
    topics: tuple[TxnOffsetTopic, ...] = ()


class TxnOffsetResult(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetTopicResult(Body, frozen=True):
    name: Text = ""
    partitions: tuple[TxnOffsetResult, ...] = ()


class TxnOffsetCommitResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetTopicResult, ...] = ()


# DescribeTransactions


class DescribeTransactionsRequest(Body, frozen=True):
    transactional_ids: tuple[Text, ...] = ()


class DescribedTopic(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[Int32, ...] = ()


class TransactionState(Body, frozen=True):
    error_code: Int16 = 0
    transactional_id: Text = ""
    transaction_state: Text = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[DescribedTopic, ...] = ()


class DescribeTransactionsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


FIND_COORDINATOR: Final = Api("FindCoordinator", 10, (3, 3), 3, FindCoordinatorRequest, FindCoordinatorResponse)
ADD_PARTITIONS_TO_TXN: Final = Api(
    "AddPartitionsToTxn", 24, (3, 3), 3, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
)
END_TXN: Final = Api("EndTxn", 26, (3, 5), 3, EndTxnRequest, EndTxnResponse)
ADD_OFFSETS_TO_TXN: Final = Api("AddOffsetsToTxn", 25, (3, 3), 3, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
TXN_OFFSET_COMMIT: Final = Api("TxnOffsetCommit", 28, (3, 5), 3, TxnOffsetCommitRequest, TxnOffsetCommitResponse)
DESCRIBE_TRANSACTIONS: Final = Api(
    "DescribeTransactions", 65, (0, 0), 0, DescribeTransactionsRequest, DescribeTransactionsResponse
)
