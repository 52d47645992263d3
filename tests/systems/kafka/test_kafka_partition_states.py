"""What a session says of partitions, and how it ends when a leader is to be moved, against a broker in memory."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin.topics import AlterPartitionReassignmentsResponse, ElectLeadersResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.broker_view import BrokerView, PartitionState
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.client.log import KafkaPartitionStates
from fencepost.systems.kafka.wire.messages import ALTER_PARTITION_REASSIGNMENTS
from tests.fakes.kafka_broker import BROKER, CLOSE, ZOOKEEPER_BROKER, Asked, everything, node

NOT_CONTROLLER, NOT_NEEDED, UNAVAILABLE = 41, 84, 80


def talk(answers: Callable[[Asked], Any], *, role: Any = BROKER, move: bool) -> tuple[Any, list[Asked]]:
    """The view, or how a move of p2 ends, as the name of an outcome and its code; and what was asked."""

    async def run() -> tuple[Any, list[Asked]]:
        async with node(answers, everything(role)) as fake:
            client = await open_node("127.0.0.1", fake.port, connect_timeout_s=1)
            session = KafkaPartitionStates(client, 4, connect_timeout_s=1)
            try:
                if not move:
                    return await session.view(), fake.asked
                await session.move(2, [5, 4, 6])
                return None, fake.asked
            except (Definite, Indefinite) as error:
                return (Definite if isinstance(error, Definite) else Indefinite, error.code), fake.asked
            finally:
                await session.close()

    return asyncio.run(run())


def moved(reassigned: int, elected: int | str) -> Callable[[Asked], Any]:
    def answers(asked: Asked) -> Any:
        if asked.api is ALTER_PARTITION_REASSIGNMENTS:
            of_topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
            result = of_topic.ReassignablePartitionResponse(partition_index=2, error_code=reassigned)
            return AlterPartitionReassignmentsResponse(responses=[of_topic(name="log", partitions=[result])])
        if isinstance(elected, str):
            return elected
        election = ElectLeadersResponse.ReplicaElectionResult
        one = election.PartitionResult(partition_id=2, error_code=elected)
        return ElectLeadersResponse(replica_election_results=[election(topic="log", partition_result=[one])])

    return answers


def test_a_view_is_what_the_broker_knows_of_leaders_and_of_who_is_alive() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    answer = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=number) for number in (6, 4)],
        topics=[
            topic(
                name="log",
                partitions=[
                    partition(partition_index=0, leader_id=4, leader_epoch=3, isr_nodes=[6, 4]),
                    partition(error_code=5, partition_index=1, leader_id=-1, leader_epoch=7, isr_nodes=[5]),
                ],
            )
        ],
    )
    view, _ = talk(lambda asked: answer, move=False)
    assert view == BrokerView(4, (4, 6), (PartitionState(0, 4, 3, (4, 6)), PartitionState(1, -1, 7, (5,))))


@pytest.mark.parametrize("elected", [0, NOT_NEEDED])
def test_a_leader_is_moved_by_another_order_and_an_election(elected: int) -> None:
    ended, asked = talk(moved(0, elected), move=True)
    assert ended is None
    order, election = (one.message for one in asked[-2:])
    assert list(order.topics[0].partitions[0]) == [2, [5, 4, 6]]
    assert election.topic_partitions == [("log", [2])]
    assert election.election_type == 0


@pytest.mark.parametrize(
    ("role", "reassigned", "elected", "ended"),
    [
        # Refused before anything was done; a broker of KRaft may have handed it over twice.
        (ZOOKEEPER_BROKER, NOT_CONTROLLER, 0, (Definite, "not-controller")),
        (BROKER, NOT_CONTROLLER, 0, (Indefinite, "not-controller")),
        # The order is changed whatever becomes of the election.
        (ZOOKEEPER_BROKER, 0, NOT_CONTROLLER, (Indefinite, "not-controller")),
        (BROKER, 0, UNAVAILABLE, (Indefinite, "preferred-leader-not-available")),
        (BROKER, 0, CLOSE, (Indefinite, "connection-lost")),
    ],
)
def test_a_move_that_fails_is_definite_only_when_nothing_was_done(
    role: Any, reassigned: int, elected: int | str, ended: tuple[type[Exception], str]
) -> None:
    assert talk(moved(reassigned, elected), role=role, move=True)[0] == ended
