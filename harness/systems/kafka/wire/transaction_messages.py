"""Kafka's messages about transactions: their coordinator, their partitions, their end; see `messages`.

Each API has one version here, which every release from 2.8 on knows. From EndTxn 5 on a coordinator gives the producer
a new epoch at the end of every transaction (KIP-890). In the versions used here an epoch lasts until another producer
with the same transactional id begins, so it can serve as the number of a term.
"""

from typing import Final

from fencepost.harness.systems.kafka.wire.fields import Body, Bool, Int8, Int16, Int32, Int64, Text
from fencepost.harness.systems.kafka.wire.messages import Api

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
END_TXN: Final = Api("EndTxn", 26, (3, 3), 3, EndTxnRequest, EndTxnResponse)
DESCRIBE_TRANSACTIONS: Final = Api(
    "DescribeTransactions", 65, (0, 0), 0, DescribeTransactionsRequest, DescribeTransactionsResponse
)
