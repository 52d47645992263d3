"""Requests about transactions: finding their coordinator, and the requests to it.

Each is one request with one answer and one outcome, as in `client`. The coordinator of a transactional id leads the
partition of the transaction log to which the id belongs. Any broker names it, as far as it knows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.errors import INCOMPLETE_ANSWER, RequestKind, only_item, raise_error, refused
from fencepost.systems.kafka.wire.values import BrokerAddress, GroupMember, ProducerId

#: What a coordinator is asked for.
GROUP: Final = 0
TRANSACTIONAL_ID: Final = 1
#: The versions of transactions: with the second one every transaction has an epoch of its own (KIP-890).
FIRST: Final = 1
SECOND: Final = 2
#: The feature of a cluster that says which of them it offers.
FEATURE: Final = "transaction.version"
_END: Final = {FIRST: messages.END_TXN.within(3, 3), SECOND: messages.END_TXN.within(5, 5)}
_COMMIT_OFFSETS: Final = {
    FIRST: messages.TXN_OFFSET_COMMIT.within(3, 3),
    SECOND: messages.TXN_OFFSET_COMMIT.within(5, 5),
}
#: OPERATION_NOT_ATTEMPTED: because another partition of the same request was refused.
_NOT_ATTEMPTED: Final = 55
#: No producer: the request begins a new one and fences the one before.
NOBODY: Final = ProducerId(-1, -1)
#: No member of a group, whose generation would be looked at.
NO_MEMBER: Final = GroupMember("", -1)


class TopicOffset(NamedTuple):
    """A position in a partition."""

    topic: str
    partition: int
    offset: int


class Described(msgspec.Struct, frozen=True):
    """A coordinator's knowledge of a transactional id: the producer that is not fenced, and its transaction's state."""

    producer: ProducerId
    state: str


async def find_coordinator(node: KafkaNode, name: str, kind: int = TRANSACTIONAL_ID) -> BrokerAddress:
    """Ask this broker for the coordinator of a transactional id or a group.

    The first such request in a cluster creates the log in which coordinators keep what they know.
    """
    request = messages.FIND_COORDINATOR.request(key=name, key_type=kind)
    answer = await node.connection.request(messages.FIND_COORDINATOR, request)
    raise_error(RequestKind.READ, answer.error_code, answer.error_message)
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
    request = messages.INIT_PRODUCER_ID.request(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=resumed.id,
        producer_epoch=resumed.epoch,
    )
    answer = await node.connection.request(messages.INIT_PRODUCER_ID, request)
    raise_error(RequestKind.TRANSACTION, answer.error_code)
    return ProducerId(answer.producer_id, answer.producer_epoch)


async def add_partition(
    node: KafkaNode, transactional_id: str, producer: ProducerId, topic: str, partition: int
) -> None:
    """Open a transaction if none is open, and add the partition to it. Idempotent."""
    await add_partitions(node, transactional_id, producer, topic, (partition,))


async def add_partitions(
    node: KafkaNode, transactional_id: str, producer: ProducerId, topic: str, partitions: Sequence[int]
) -> None:
    """Open a transaction if none is open, and add these partitions to it: all of them, or none."""
    added = messages.ADD_PARTITIONS_TO_TXN.request.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
    request = messages.ADD_PARTITIONS_TO_TXN.request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[added],
    )
    answer = await node.connection.request(messages.ADD_PARTITIONS_TO_TXN, request)
    results = [result for of_topic in answer.results_by_topic_v3_and_below for result in of_topic.results_by_partition]
    if {result.partition_index for result in results} != set(partitions):
        raise refused(INCOMPLETE_ANSWER, f"{len(results)} results for {len(partitions)} partitions")
    codes = [result.partition_error_code for result in results]
    raise_error(RequestKind.TRANSACTION, next((code for code in codes if code not in (0, _NOT_ATTEMPTED)), max(codes)))


async def add_offsets(node: KafkaNode, transactional_id: str, producer: ProducerId, group: str) -> None:
    """Open a transaction if none is open, and add the group's offsets to it. Idempotent."""
    request = messages.ADD_OFFSETS_TO_TXN.request(
        transactional_id=transactional_id, producer_id=producer.id, producer_epoch=producer.epoch, group_id=group
    )
    raise_error(
        RequestKind.TRANSACTION, (await node.connection.request(messages.ADD_OFFSETS_TO_TXN, request)).error_code
    )


async def commit_offset(
    node: KafkaNode,
    transactional_id: str,
    producer: ProducerId,
    group: str,
    at: TopicOffset,
    *,
    version: int,
    member: GroupMember = NO_MEMBER,
) -> None:
    """Write a group's offset as part of the transaction; the node is the group's coordinator.

    In transactions of version 2 the group is added to the transaction first, if it is not in it. A `member` of an
    earlier generation is refused (KIP-447); with `NO_MEMBER` only the producer's epoch is looked at.
    """
    of_topic = messages.TXN_OFFSET_COMMIT.request.TxnOffsetCommitRequestTopic
    offset = of_topic.TxnOffsetCommitRequestPartition(
        partition_index=at.partition, committed_offset=at.offset, committed_leader_epoch=-1, committed_metadata=None
    )
    request = messages.TXN_OFFSET_COMMIT.request(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=None,
        topics=[of_topic(name=at.topic, partitions=[offset])],
    )
    answer = await node.connection.request(_COMMIT_OFFSETS[version], request)
    raise_error(RequestKind.TRANSACTION, only_item(only_item(answer.topics).partitions).error_code)


async def end_transaction(
    node: KafkaNode, transactional_id: str, producer: ProducerId, *, commit: bool, version: int = FIRST
) -> ProducerId:
    """Commit or abort the open transaction. The answer comes when that is decided, before the partitions know it.

    Returns:
        The producer of the next transaction: the same one, or with version 2 the one with the next epoch.
    """
    request = messages.END_TXN.request(
        transactional_id=transactional_id, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
    )
    answer = await node.connection.request(_END[version], request)
    raise_error(RequestKind.TRANSACTION, answer.error_code)
    return ProducerId(answer.producer_id, answer.producer_epoch) if version == SECOND else producer


async def describe_transaction(node: KafkaNode, transactional_id: str) -> Described:
    """Describe the id's transaction; a node that is not the coordinator refuses (16). Offered from 3.0 on."""
    request = messages.DESCRIBE_TRANSACTIONS.request(transactional_ids=[transactional_id])
    answer = await node.connection.request(messages.DESCRIBE_TRANSACTIONS, request)
    state = only_item(answer.transaction_states)
    raise_error(RequestKind.READ, state.error_code)
    return Described(ProducerId(state.producer_id, state.producer_epoch), state.transaction_state)
