"""Transactions on one Kafka node, by request: who coordinates them, and what the coordinator is asked.

Each is one request of `client`'s kind: one answer, one outcome. A coordinator is the leader of the partition of the
transaction log that a transactional id belongs to; any broker says who that is, as far as it knows.
"""

from typing import Final

import msgspec

from fencepost.harness.systems.kafka.client.client import KafkaNode
from fencepost.harness.systems.kafka.wire import transaction_messages as wire
from fencepost.harness.systems.kafka.wire.errors import INCOMPLETE_ANSWER, Kind, answered, refused
from fencepost.harness.systems.kafka.wire.messages import INIT_PRODUCER_ID, InitProducerIdRequest
from fencepost.harness.systems.kafka.wire.values import BrokerAddress, ProducerId

_TRANSACTIONAL_ID: Final = 1
#: No producer yet: whoever asks begins, and whoever was before is fenced.
NOBODY: Final = ProducerId(-1, -1)


class Described(msgspec.Struct, frozen=True):
    """What a coordinator knows of a transactional id: the producer that is not fenced, and its transaction's state."""

    producer: ProducerId
    state: str


async def find_coordinator(node: KafkaNode, transactional_id: str) -> BrokerAddress:
    """Whom this broker takes for the coordinator. The first call ever makes the transaction log."""
    asked = wire.FindCoordinatorRequest(transactional_id, _TRANSACTIONAL_ID)
    answer = await node.connection.request(wire.FIND_COORDINATOR, asked)
    _check(Kind.READ, answer.error_code, answer.error_message)
    return BrokerAddress(answer.node_id, answer.host, answer.port)


async def init_producer(
    node: KafkaNode, transactional_id: str, *, timeout_ms: int, resumed: ProducerId = NOBODY
) -> ProducerId:
    """Begin under the next epoch, so that every earlier one is fenced.

    `resumed` is a producer that wants another epoch for itself: refused (90) when it was fenced (KIP-360). While a
    transaction is open under the id the answer is 51, and the transaction is aborted; while one is being ended too.
    """
    asked = InitProducerIdRequest(transactional_id, timeout_ms, resumed.id, resumed.epoch)
    answer = await node.connection.request(INIT_PRODUCER_ID, asked)
    _check(Kind.TRANSACTION, answer.error_code)
    return ProducerId(answer.producer_id, answer.producer_epoch)


async def add_partition(
    node: KafkaNode, transactional_id: str, producer: ProducerId, topic: str, partition: int
) -> None:
    """Open a transaction if none is open, and let the partition take part in it. Idempotent."""
    asked = wire.AddPartitionsToTxnRequest(
        transactional_id, producer.id, producer.epoch, (wire.AddedTopic(topic, (partition,)),)
    )
    answer = await node.connection.request(wire.ADD_PARTITIONS_TO_TXN, asked)
    results = [result for added in answer.results_by_topic_v3_and_below for result in added.results_by_partition]
    if len(results) != 1:
        raise refused(INCOMPLETE_ANSWER, f"{len(results)} partitions where one was asked for")
    _check(Kind.TRANSACTION, results[0].partition_error_code)


async def end_transaction(node: KafkaNode, transactional_id: str, producer: ProducerId, *, commit: bool) -> None:
    """Commit or abort what is open. Answered once that is decided; the partitions learn of it a little later."""
    asked = wire.EndTxnRequest(transactional_id, producer.id, producer.epoch, commit)
    answer = await node.connection.request(wire.END_TXN, asked)
    _check(Kind.TRANSACTION, answer.error_code)


async def describe_transaction(node: KafkaNode, transactional_id: str) -> Described:
    """As this node knows it, which must believe to be the coordinator (16). Releases before 3.0 do not offer it."""
    asked = wire.DescribeTransactionsRequest((transactional_id,))
    answer = await node.connection.request(wire.DESCRIBE_TRANSACTIONS, asked)
    if len(answer.transaction_states) != 1:
        raise refused(INCOMPLETE_ANSWER, f"{len(answer.transaction_states)} states where one was asked for")
    state = answer.transaction_states[0]
    _check(Kind.READ, state.error_code)
    return Described(ProducerId(state.producer_id, state.producer_epoch), state.transaction_state)


def _check(kind: Kind, number: int, message: str | None = None) -> None:
    if number != 0:
        raise answered(kind, number, message)
