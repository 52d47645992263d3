"""Every row of Kafka's error table for every kind of request, and what each request makes of its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from kafka.protocol.admin.cluster import DescribeQuorumResponse
from kafka.protocol.admin.configs import DescribeConfigsResponse, IncrementalAlterConfigsResponse
from kafka.protocol.admin.topics import CreateTopicsResponse, DeleteTopicsResponse
from kafka.protocol.admin.transactions import DescribeTransactionsResponse
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata.find_coordinator import FindCoordinatorResponse
from kafka.protocol.metadata.metadata import MetadataResponse
from kafka.protocol.producer.produce import ProduceResponse
from kafka.protocol.producer.transaction import AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.client import transactions
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.wire.errors import CODES, RequestKind, ServerDoubt, ServerRefusal, answered
from fencepost.systems.kafka.wire.records import Producer
from fencepost.systems.kafka.wire.values import (
    ALL_BROKERS,
    BrokerAddress,
    ConfigSource,
    ConfigValue,
    LogPosition,
    ProducerId,
)
from tests.fakes.kafka_batches import logged, marker
from tests.fakes.kafka_broker import BROKER, CONTROLLER, ZOOKEEPER_BROKER, Asked, everything, node
from tests.systems.contract.patience import PATIENCE_S

#: Which codes prove that nothing happened, for each kind. A second list on purpose: a row that is made definite by
#: mistake loses acknowledged changes without anybody's noticing.
ALWAYS: Final = {29, 31, 35, 42, 53, 54}
DEFINITE: Final = {
    RequestKind.CHANGE: ALWAYS | {3, 17, 36, 37, 38, 39, 40, 44, 73, 89, 91, 92, 93},
    RequestKind.FORWARDED: ALWAYS | {17, 40, 44, 73, 92, 93},
    RequestKind.ZOOKEEPER: ALWAYS | {3, 17, 37, 38, 39, 40, 41, 44, 73, 89, 91, 92, 93},
    RequestKind.ALLOCATE: ALWAYS | {14, 15, 16, 47, 48, 77, 90, 102},
    RequestKind.PRODUCE: ALWAYS | {2, 10, 17, 18, 19, 21, 32, 43, 45, 47, 48, 49, 51, 59, 76, 87, 90, 120},
    RequestKind.TRANSACTION: ALWAYS | {47, 48, 49, 50, 51, 90, 120},
    RequestKind.GROUP: ALWAYS | {22, 24, 25, 27},
    RequestKind.VOTERS: ALWAYS | {125, 126, 127},
    RequestKind.READ: set(CODES),
    RequestKind.VALIDATE: set(CODES),
}


@pytest.mark.parametrize("kind", RequestKind)
def test_exactly_these_codes_are_definite(kind: RequestKind) -> None:
    found = {number for number in CODES if isinstance(answered(kind, number), Definite)}
    assert found == DEFINITE[kind]


@pytest.mark.parametrize("kind", RequestKind)
@pytest.mark.parametrize("number", [-999, 4, 11, 134, 32767])
def test_a_code_that_is_not_in_the_table_proves_nothing(kind: RequestKind, number: int) -> None:
    doubt = answered(kind, number, "text")
    assert isinstance(doubt, Indefinite)
    assert (doubt.code, doubt.number) == ("unknown-code", number)
    assert "text" in str(doubt)


def test_words_differ_and_reasons_are_given() -> None:
    assert len({row.word for row in CODES.values()}) == len(CODES)
    assert all(row.why for row in CODES.values())


@pytest.mark.parametrize(
    ("kind", "number", "definite"),
    [
        (RequestKind.CHANGE, 41, False),  # a controller that resigns fails what it has appended with it
        (RequestKind.VALIDATE, 41, True),
        (RequestKind.PRODUCE, 6, False),
        (RequestKind.PRODUCE, 20, False),
        (RequestKind.PRODUCE, 7, False),
        (RequestKind.PRODUCE, 19, True),
        (RequestKind.ALLOCATE, 14, True),
        (RequestKind.FORWARDED, 37, False),  # and the partitions, or the credential that is gone
        (RequestKind.FORWARDED, 91, False),
        (RequestKind.FORWARDED, 36, False),  # a broker asks twice: the topic may be this request's own
        (RequestKind.ZOOKEEPER, 36, False),
        (RequestKind.CHANGE, 36, True),
        (RequestKind.TRANSACTION, 16, False),  # also when its log took what was asked, and then another one took over
        (RequestKind.TRANSACTION, 51, True),
        (RequestKind.PRODUCE, 51, True),  # asked before the append, in transactions of version 2
    ],
)
def test_the_rows_that_matter_most(kind: RequestKind, number: int, definite: bool) -> None:
    assert isinstance(answered(kind, number), ServerRefusal if definite else ServerDoubt)


# Each request

BY: Final = ProducerId(7, 1)
FETCHED: Final = FetchResponse.FetchableTopicResponse
Call = Callable[[KafkaNode], Awaitable[object]]


def create(number: int) -> DataContainer:
    result = CreateTopicsResponse.CreatableTopicResult(name="t", error_code=number)
    return CreateTopicsResponse(topics=[result])


def delete(number: int) -> DataContainer:
    result = DeleteTopicsResponse.DeletableTopicResult(name="t", error_code=number)
    return DeleteTopicsResponse(responses=[result])


def alter(number: int) -> DataContainer:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_code=number, resource_type=4)
    return IncrementalAlterConfigsResponse(responses=[result])


def describe(number: int) -> DataContainer:
    of_resource = DescribeConfigsResponse.DescribeConfigsResult
    config = of_resource.DescribeConfigsResourceResult(name="k", value="v", config_source=3)
    return DescribeConfigsResponse(results=[of_resource(error_code=number, resource_type=4, configs=[config])])


def producer_id(number: int) -> DataContainer:
    return InitProducerIdResponse(error_code=number, producer_id=7, producer_epoch=1)


def produced(number: int) -> DataContainer:
    of_topic = ProduceResponse.TopicProduceResponse
    partition = of_topic.PartitionProduceResponse(error_code=number, base_offset=41, log_start_offset=3)
    return ProduceResponse(responses=[of_topic(name="t", partition_responses=[partition])])


def fetched(**fields: Any) -> FetchResponse:
    partition = FETCHED.PartitionData(**fields)
    return FetchResponse(responses=[FETCHED(topic="t", partitions=[partition])])


def fetch_refused(number: int) -> DataContainer:
    answer = fetched()
    answer.error_code = number
    return answer


def position(number: int) -> DataContainer:
    of_topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = of_topic.ListOffsetsPartitionResponse(error_code=number, offset=17, leader_epoch=4)
    return ListOffsetsResponse(topics=[of_topic(name="t", partitions=[partition])])


def quorum(number: int) -> DataContainer:
    of_topic = DescribeQuorumResponse.TopicData
    partition = of_topic.PartitionData(error_code=number, leader_id=2, leader_epoch=9, high_watermark=80)
    return DescribeQuorumResponse(topics=[of_topic(topic_name="__cluster_metadata", partitions=[partition])])


def quorum_refused(number: int) -> DataContainer:
    return DescribeQuorumResponse(error_code=number)


def coordinator(number: int) -> DataContainer:
    return FindCoordinatorResponse(error_code=number, node_id=4, host="h", port=9092)


def added(number: int) -> DataContainer:
    of_topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    partition = of_topic.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=number)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[of_topic(name="t", results_by_partition=[partition])]
    )


def ended(number: int) -> DataContainer:
    return EndTxnResponse(error_code=number)


def described(number: int) -> DataContainer:
    state = DescribeTransactionsResponse.TransactionState(
        error_code=number, transactional_id="e", transaction_state="Ongoing", producer_id=7, producer_epoch=1
    )
    return DescribeTransactionsResponse(transaction_states=[state])


REQUESTS: Final[list[tuple[str, Call, Callable[[int], DataContainer], dict[str, RequestKind]]]] = [
    (
        name,
        call,
        answer,
        {"controller": RequestKind.CHANGE, "broker": RequestKind.FORWARDED, "zookeeper": RequestKind.ZOOKEEPER}
        if kind is None
        else dict.fromkeys(("controller", "broker", "zookeeper"), kind),
    )
    for name, call, answer, kind in [
        ("create", lambda c: c.create_topic("t"), create, None),
        ("validate", lambda c: c.create_topic("t", validate_only=True), create, RequestKind.VALIDATE),
        ("delete", lambda c: c.delete_topic("t"), delete, None),
        ("alter", lambda c: c.alter_config(ALL_BROKERS, "k", "v"), alter, None),
        ("try alter", lambda c: c.alter_config(ALL_BROKERS, "k", "v", validate_only=True), alter, RequestKind.VALIDATE),
        ("read config", lambda c: c.read_config(ALL_BROKERS, "k"), describe, RequestKind.READ),
        ("producer id", lambda c: c.allocate_producer_id(), producer_id, RequestKind.ALLOCATE),
        ("produce", lambda c: c.logs.produce("t", 0, [b"x"]), produced, RequestKind.PRODUCE),
        ("fetch", lambda c: c.logs.fetch("t", 0, 5), lambda number: fetched(error_code=number), RequestKind.READ),
        ("fetch refused", lambda c: c.logs.fetch("t", 0, 5), fetch_refused, RequestKind.READ),
        ("position", lambda c: c.logs.position("t", 0), position, RequestKind.READ),
        ("quorum", lambda c: c.describe_quorum(), quorum, RequestKind.READ),
        ("quorum refused", lambda c: c.describe_quorum(), quorum_refused, RequestKind.READ),
        ("coordinator", lambda c: transactions.find_coordinator(c, "e"), coordinator, RequestKind.READ),
        ("begin", lambda c: transactions.init_producer(c, "e", timeout_ms=1), producer_id, RequestKind.TRANSACTION),
        ("open", lambda c: transactions.add_partition(c, "e", BY, "t", 0), added, RequestKind.TRANSACTION),
        ("commit", lambda c: transactions.end_transaction(c, "e", BY, commit=True), ended, RequestKind.TRANSACTION),
        ("describe", lambda c: transactions.describe_transaction(c, "e"), described, RequestKind.READ),
    ]
]
ROLES: Final = {"controller": CONTROLLER, "broker": BROKER, "zookeeper": ZOOKEEPER_BROKER}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("name", "call", "answer", "kinds"), REQUESTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_request_ends_by_the_table(
    role: str, name: str, call: Call, answer: Callable[[int], DataContainer], kinds: dict[str, RequestKind]
) -> None:
    async def scenario() -> dict[int, Any]:
        numbers = iter(sorted(CODES))
        ends: dict[int, Any] = {}
        async with node(lambda asked: answer(next(numbers)), everything(ROLES[role])) as fake:
            client = await open_node("127.0.0.1", fake.port, connect_timeout_s=PATIENCE_S)
            for number in sorted(CODES):
                with pytest.raises((Definite, Indefinite)) as caught:
                    await call(client)
                ends[number] = (type(caught.value), getattr(caught.value, "number", None))
            client.close()
        return ends

    ends = asyncio.run(scenario())
    for number, (kind, said) in ends.items():
        assert said == number, name
        assert issubclass(kind, Definite) == (number in DEFINITE[kinds[role]]), (name, number)


async def asked_of(call: Call, answer: DataContainer) -> tuple[object, Asked]:
    async with node(lambda asked: answer) as fake:
        client = await open_node("127.0.0.1", fake.port, connect_timeout_s=PATIENCE_S)
        result = await call(client)
        client.close()
        return result, fake.asked[0]


def test_what_requests_ask_and_answers_give() -> None:
    async def scenario() -> None:
        value, asked = await asked_of(lambda c: c.read_config(ALL_BROKERS, "k"), describe(0))
        assert value == ConfigValue("v", ConfigSource.ALL_BROKERS)
        assert asked.message.resources[0].configuration_keys == ["k"]
        value, _ = await asked_of(lambda c: c.read_config(ALL_BROKERS, "other"), describe(0))
        assert value is None
        _, asked = await asked_of(lambda c: c.alter_config(ALL_BROKERS, "k", None), alter(0))
        assert asked.message.resources[0].configs == [("k", 1, None)]
        _, asked = await asked_of(lambda c: c.create_topic("t", configs={"a": "b"}, validate_only=True), create(0))
        assert asked.message.validate_only
        assert asked.message.topics[0].configs == [("a", "b")]
        assert (await asked_of(lambda c: c.allocate_producer_id(), producer_id(0)))[0] == ProducerId(7, 1)
        value, asked = await asked_of(
            lambda c: transactions.init_producer(c, "e", timeout_ms=9, resumed=BY), producer_id(0)
        )
        assert (value, list(asked.message)) == (BY, ["e", 9, 7, 1])
        value, asked = await asked_of(lambda c: transactions.find_coordinator(c, "e"), coordinator(0))
        assert (value, asked.message.key_type) == (BrokerAddress(4, "h", 9092), 1)
        value, _ = await asked_of(lambda c: transactions.describe_transaction(c, "e"), described(0))
        assert value == transactions.Described(BY, "Ongoing")
        by = Producer(7, 1, 5, "e")
        _, asked = await asked_of(lambda c: c.logs.produce("t", 0, [b"x"], producer=by), produced(0))
        assert asked.message.transactional_id == "e"
        (batch,) = asked.message.topic_data[0].partition_data
        assert batch.records[21:23] == b"\0\x10"  # the batch's attributes: transactional
        value, asked = await asked_of(
            lambda c: c.logs.position("t", 0, 99, leader_epoch=4, committed=True), position(0)
        )
        assert value == LogPosition(17, 4)
        assert asked.message.isolation_level == 1
        assert list(asked.message.topics[0].partitions[0]) == [0, 4, 99]
        _, asked = await asked_of(lambda c: c.logs.fetch("t", 3, 8, leader_epoch=2), fetched())
        assert list(asked.message.topics[0].partitions[0]) == [3, 2, 8, -1, -1, 1 << 20]
        assert (asked.message.max_wait_ms, asked.message.replica_id) == (0, -1)

    asyncio.run(scenario())


def test_records_that_are_damaged_are_not_returned() -> None:
    async def scenario() -> None:
        with pytest.raises(Definite, match="unreadable-records"):
            await asked_of(lambda c: c.logs.fetch("t", 0, 0), fetched(records=bytes(100)))

    asyncio.run(scenario())


def test_what_was_aborted_is_left_out_up_to_its_marker() -> None:
    """Producer 7 aborts at 2 and commits at 4; producer 8's transaction began earlier and is aborted at 6."""
    seven, eight = Producer(7, 1, 0, "e"), Producer(8, 1, 0, "f")
    log_of = (
        logged(0, b"z", eight),
        logged(1, b"a", seven),
        marker(2, 7, 1, commit=False),
        logged(3, b"b", seven),
        marker(4, 7, 1, commit=True),
        logged(5, b"c"),
        marker(6, 8, 1, commit=False),
        logged(7, b"d", eight),
    )
    aborted = [
        FETCHED.PartitionData.AbortedTransaction(producer_id=producer, first_offset=offset)
        for producer, offset in ((7, 1), (8, 0))
    ]
    answer = fetched(high_watermark=8, aborted_transactions=aborted, records=b"".join(log_of))

    async def scenario() -> None:
        result: Any
        result, asked = await asked_of(lambda c: c.logs.fetch("t", 0, 0, committed=True), answer)
        assert [record.value for record in result.records] == [b"b", b"c", b"d"]
        assert (result.next_offset, asked.message.isolation_level) == (8, 1)
        result, _ = await asked_of(lambda c: c.logs.fetch("t", 0, 0), answer)
        assert [record.value for record in result.records] == [b"z", b"a", b"b", b"c", b"d"]

    asyncio.run(scenario())


@pytest.mark.parametrize("topics", [None, ("a", "b")])
def test_metadata_is_told_as_it_is(topics: tuple[str, ...] | None) -> None:
    topic = MetadataResponse.MetadataResponseTopic
    partitions = [
        topic.MetadataResponsePartition(
            partition_index=1, leader_id=2, leader_epoch=7, replica_nodes=[2, 3], isr_nodes=[2], offline_replicas=[3]
        ),
        topic.MetadataResponsePartition(error_code=5, partition_index=0, leader_id=-1, leader_epoch=6),
    ]
    answer = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=2, host="h", port=9092)],
        controller_id=2,
        topics=[topic(name="a", partitions=partitions), topic(error_code=3, name="b")],
    )

    async def scenario() -> None:
        result: Any
        result, asked = await asked_of(lambda c: c.metadata(topics), answer)
        names = None if topics is None else tuple(topic.name for topic in asked.message.topics)
        assert names == topics
        assert (asked.message.topics is None) == (topics is None)
        assert not asked.message.allow_auto_topic_creation
        assert (result.controller, result.brokers[0].node) == (2, 2)
        first, second = result.topics[0].partitions
        assert (first.partition, first.leader, first.leader_epoch, first.error) == (0, -1, 6, 5)
        assert (second.isr, second.replicas, second.offline) == ((2,), (2, 3), (3,))
        assert result.topics[1].error == 3

    asyncio.run(scenario())
