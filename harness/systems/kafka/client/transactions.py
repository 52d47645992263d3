"""Requests about transactions: finding their coordinator, and the requests to it.

Each is one request with one answer and one outcome, as in `client`. The coordinator of a transactional id leads the
partition of the transaction log to which the id belongs. Any broker names it, as far as it knows.
"""

from typing import Final

import msgspec

from fencepost.harness.systems.kafka.client.client import KafkaNode
from fencepost.harness.systems.kafka.wire import transaction_messages as wire
from fencepost.harness.systems.kafka.wire.errors import Kind, only_item, raise_error
from fencepost.harness.systems.kafka.wire.messages import INIT_PRODUCER_ID, InitProducerIdRequest
from fencepost.harness.systems.kafka.wire.values import BrokerAddress, ProducerId

#: What a coordinator is asked for.
GROUP: Final = 0
TRANSACTIONAL_ID: Final = 1
#: No producer: the request begins a new one and fences the one before.
NOBODY: Final = ProducerId(-1, -1)


class Described(msgspec.Struct, frozen=True):
    """A coordinator's knowledge of a transactional id: the producer that is not fenced, and its transaction's state."""

    producer: ProducerId
    state: str


async def find_coordinator(node: KafkaNode, name: str, kind: int = TRANSACTIONAL_ID) -> BrokerAddress:
    """Ask this broker for the coordinator of a transactional id or a group.

    The first such request in a cluster creates the log in which coordinators keep what they know.
    """
    request = wire.FindCoordinatorRequest(name, kind)
    answer = await node.connection.request(wire.FIND_COORDINATOR, request)
    raise_error(Kind.READ, answer.error_code, answer.error_message)
    return BrokerAddress(answer.node_id, answer.host, answer.port)


async def init_producer(
    node: KafkaNode, transactional_id: str, *, timeout_ms: int, resumed: ProducerId = NOBODY
) -> ProducerId:
    """Begin a producer with the next epoch, which fences every earlier one.

    While a transaction is open under the id the answer is 51 and the transaction is aborted; also 51 while one is
    ending.

    Args:
        resumed: a producer that wants another epoch for itself; refused (90) when it was fenced (KIP-360).
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms, resumed.id, resumed.epoch)
    answer = await node.connection.request(INIT_PRODUCER_ID, request)
    raise_error(Kind.TRANSACTION, answer.error_code)
    return ProducerId(answer.producer_id, answer.producer_epoch)


async def add_partition(
    node: KafkaNode, transactional_id: str, producer: ProducerId, topic: str, partition: int
) -> None:
    """Open a transaction if none is open, and add the partition to it. Idempotent."""
    request = wire.AddPartitionsToTxnRequest(
        transactional_id, producer.id, producer.epoch, (wire.AddedTopic(topic, (partition,)),)
    )
    answer = await node.connection.request(wire.ADD_PARTITIONS_TO_TXN, request)
    results = [result for added in answer.results_by_topic_v3_and_below for result in added.results_by_partition]
    raise_error(Kind.TRANSACTION, only_item(results).partition_error_code)


async def end_transaction(node: KafkaNode, transactional_id: str, producer: ProducerId, *, commit: bool) -> None:
    """Commit or abort the open transaction. The answer comes when that is decided, before the partitions know it."""
    request = wire.EndTxnRequest(transactional_id, producer.id, producer.epoch, commit)
    answer = await node.connection.request(wire.END_TXN, request)
    raise_error(Kind.TRANSACTION, answer.error_code)


async def describe_transaction(node: KafkaNode, transactional_id: str) -> Described:
    """Describe the id's transaction; a node that is not the coordinator refuses (16). Offered from 3.0 on."""
    request = wire.DescribeTransactionsRequest((transactional_id,))
    answer = await node.connection.request(wire.DESCRIBE_TRANSACTIONS, request)
    state = only_item(answer.transaction_states)
    raise_error(Kind.READ, state.error_code)
    return Described(ProducerId(state.producer_id, state.producer_epoch), state.transaction_state)
