"""Electing the preferred leader of each topic partition (KIP-460): the first of its replicas."""

from typing import Final

from fencepost.harness.systems.kafka.client.client import KafkaNode
from fencepost.harness.systems.kafka.wire.errors import NOT_CONTROLLER, Kind, answered
from fencepost.harness.systems.kafka.wire.fields import Body, Int8, Int16, Int32, Text
from fencepost.harness.systems.kafka.wire.messages import Api


class ElectTopic(Body, frozen=True):
    topic: Text = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(Body, frozen=True):
    election_type: Int8 = 0
    topic_partitions: tuple[ElectTopic, ...] | None = None
    timeout_ms: Int32 = 0


class ElectPartitionResult(Body, frozen=True):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None


class ElectTopicResult(Body, frozen=True):
    topic: Text = ""
    partition_result: tuple[ElectPartitionResult, ...] = ()


class ElectLeadersResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    replica_election_results: tuple[ElectTopicResult, ...] = ()


ELECT_LEADERS: Final = Api("ElectLeaders", 43, (1, 2), 2, ElectLeadersRequest, ElectLeadersResponse)


async def elect_preferred_leaders(controller: KafkaNode, *, timeout_ms: int) -> None:
    """Ask for an election of every partition's preferred leader; the metadata shows the results.

    Raises only when the whole request is refused. In ZooKeeper mode a broker that is not the controller refuses each
    partition separately (KafkaController.processReplicaLeaderElection).
    """
    answer = await controller.connection.request(ELECT_LEADERS, ElectLeadersRequest(timeout_ms=timeout_ms))
    codes = {result.error_code for topic in answer.replica_election_results for result in topic.partition_result}
    refused = answer.error_code or (NOT_CONTROLLER if codes == {NOT_CONTROLLER} else 0)
    if refused:
        raise answered(Kind.ZOOKEEPER, refused)
