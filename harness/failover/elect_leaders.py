"""Giving each topic partition back to its preferred leader (KIP-460), so that every ending finds the same placement."""

from typing import Final

from harness.systems.kafka.client import KafkaNode
from harness.systems.kafka.errors import Kind, answered
from harness.systems.kafka.fields import Body, Int8, Int16, Int32, Text
from harness.systems.kafka.messages import Api


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
    """Of every partition. What each came to is seen in the metadata; only a refusal of the whole is raised."""
    answer = await controller.connection.request(ELECT_LEADERS, ElectLeadersRequest(timeout_ms=timeout_ms))
    if answer.error_code:
        raise answered(Kind.ZOOKEEPER, answer.error_code)
