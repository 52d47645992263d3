"""Electing the preferred leader of topic partitions (KIP-460): the first of their replicas."""

from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.wire.errors import NOT_CONTROLLER, RequestKind, answered
from fencepost.systems.kafka.wire.messages import ELECT_LEADERS

#: The preferred leader leads already.
_NOT_NEEDED: Final = 84


async def elect_preferred_leaders(
    controller: KafkaNode, *, partitions: Mapping[str, Sequence[int]] | None = None, timeout_ms: int
) -> None:
    """Ask for an election of the preferred leader of these partitions, by topic; None: of every partition.

    Raises when the whole request is refused, and of partitions that are named also when one of them is. In ZooKeeper
    mode a broker that is not the controller refuses each partition separately
    (KafkaController.processReplicaLeaderElection).
    """
    of_topic = ELECT_LEADERS.request.TopicPartitions
    topics = None
    if partitions is not None:
        topics = [of_topic(topic=name, partitions=list(own)) for name, own in partitions.items()]
    request = ELECT_LEADERS.request(topic_partitions=topics, timeout_ms=timeout_ms)
    answer = await controller.connection.request(ELECT_LEADERS, request)
    codes = {result.error_code for topic in answer.replica_election_results for result in topic.partition_result}
    refused = answer.error_code or (NOT_CONTROLLER if codes == {NOT_CONTROLLER} else 0)
    if not refused and partitions is not None:
        refused = max(codes - {_NOT_NEEDED}, default=0)
    if refused:
        raise answered(RequestKind.ZOOKEEPER, refused)
