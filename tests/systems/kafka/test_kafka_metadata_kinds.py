"""Metadata beside topics' settings: what a session asks and makes of the answers, against a node in memory."""

import asyncio
from typing import Any, Final

import pytest
from kafka.protocol.admin.acl import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from kafka.protocol.admin.client_quotas import AlterClientQuotasResponse, DescribeClientQuotasResponse
from kafka.protocol.admin.configs import DescribeConfigsResponse
from kafka.protocol.admin.topics import CreatePartitionsResponse, DeleteTopicsResponse
from kafka.protocol.admin.users import AlterUserScramCredentialsResponse, DescribeUserScramCredentialsResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata.metadata import MetadataResponse

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.client.metadata import KafkaMetadata
from fencepost.systems.kafka.protocols import MetadataKind
from fencepost.systems.kafka.workloads.metadata import MetadataOptions, MetadataWorkload
from fencepost.systems.kafka.workloads.metadata_kinds import split
from tests.fakes.kafka_broker import BROKER, CONTROLLER, ZOOKEEPER_BROKER, Asked, everything, node

_AWKWARD: Final = "a b%c+\u00fc/:"
_ACLS: Final = DescribeAclsResponse.DescribeAclsResource
_CONFIGS: Final = DescribeConfigsResponse.DescribeConfigsResult
_QUOTA: Final = DescribeClientQuotasResponse.EntryData
_SCRAM: Final = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_TOPIC: Final = MetadataResponse.MetadataResponseTopic


def talk(answer: DataContainer, key: str, value: int | str | None, *, role: Any = BROKER) -> tuple[Any, Asked]:
    """What `describe` (of the value "?") or `alter` gives, or how it ends, and the first request."""

    async def run() -> tuple[Any, Asked]:
        async with node(lambda asked: answer, everything(role)) as fake:
            client = await open_node("127.0.0.1", fake.port, connect_timeout_s=1)
            session = KafkaMetadata(client, 4, connect_timeout_s=1)
            try:
                if value == "?":
                    return (await session.describe(*split(key))).value, fake.asked[0]
                given = None if value is None else str(value).encode()
                return (await session.alter(*split(key), given)).value, fake.asked[0]
            except (Definite, Indefinite) as error:
                return (type(error).__mro__[1], error.code), fake.asked[0]
            finally:
                await session.close()

    return asyncio.run(run())


def acl(number: int) -> DataContainer:
    return CreateAclsResponse(results=[CreateAclsResponse.AclCreationResult(error_code=number)])


def quota(number: int) -> DataContainer:
    return AlterClientQuotasResponse(entries=[AlterClientQuotasResponse.EntryData(error_code=number)])


def scram(number: int) -> DataContainer:
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user="alice", error_code=number)
    return AlterUserScramCredentialsResponse(results=[result])


def partitions(number: int) -> DataContainer:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult(name="grows", error_code=number)
    return CreatePartitionsResponse(results=[result])


def deletion(number: int) -> DataContainer:
    result = DeleteTopicsResponse.DeletableTopicResult(name="x3", error_code=number)
    return DeleteTopicsResponse(responses=[result])


def removed_acl(number: int) -> DataContainer:
    deleted = DeleteAclsResponse.DeleteAclsFilterResult
    acl = deleted.DeleteAclsMatchingAcl(error_code=number)
    return DeleteAclsResponse(filter_results=[deleted(matching_acls=[acl])])


@pytest.mark.parametrize(
    ("role", "key", "value", "answer", "ends"),
    [
        (BROKER, f"quota/{_AWKWARD}", 7, quota(0), b"7"),
        (BROKER, "quota/", None, quota(0), None),
        (BROKER, "quota/alice", 7, quota(41), (Indefinite, "not-controller")),
        (CONTROLLER, "quota/alice", 7, quota(42), (Definite, "invalid-request")),
        (CONTROLLER, "scram/alice", None, scram(91), (Definite, "resource-not-found")),
        # A broker hands a request over twice: the first one may have removed it, or added the partitions.
        (BROKER, "scram/alice", None, scram(91), (Indefinite, "resource-not-found")),
        (BROKER, "scram/alice", 5, scram(93), (Definite, "unacceptable-credential")),
        (CONTROLLER, "partitions/grows", 5, partitions(37), (Definite, "invalid-partitions")),
        (BROKER, "partitions/grows", 5, partitions(37), (Indefinite, "invalid-partitions")),
        (ZOOKEEPER_BROKER, "partitions/grows", 5, partitions(41), (Definite, "not-controller")),
        (CONTROLLER, "topic/x3", None, deletion(3), (Definite, "unknown-topic-or-partition")),
        (BROKER, "topic/x3", None, deletion(3), (Indefinite, "unknown-topic-or-partition")),
        (BROKER, "acl/x3", 1, acl(0), b"1"),
        (BROKER, "acl/x3", 1, acl(54), (Definite, "security-disabled")),
        (BROKER, "acl/x3", None, removed_acl(0), None),
        (BROKER, "acl/x3", None, removed_acl(-1), (Indefinite, "unknown-server-error")),
    ],
)
def test_how_a_change_ends(role: Any, key: str, value: int | None, answer: DataContainer, ends: Any) -> None:
    result, _ = talk(answer, key, value, role=role)
    if isinstance(ends, tuple):
        assert issubclass(result[0], ends[0]) and result[1] == ends[1]
    else:
        assert result == ends


def test_what_is_sent_names_the_whole_entity() -> None:
    _, sent = talk(quota(0), f"quota/{_AWKWARD}", 7)
    (entry,) = sent.message.entries
    assert entry.entity == [("user", _AWKWARD)]
    assert entry.ops == [("producer_byte_rate", 7.0, False)]
    _, sent = talk(quota(0), "quota/", None)
    (entry,) = sent.message.entries
    assert entry.entity == [("user", None)]
    assert entry.ops[0].remove
    _, sent = talk(scram(0), "scram/alice", 600)
    assert sent.message.upsertions[0].iterations == 4696


@pytest.mark.parametrize("value", [-1, 12_289])
def test_a_number_that_no_credential_holds_is_not_sent(value: int) -> None:
    async def run() -> None:
        async with node(lambda asked: scram(0), everything()) as fake:
            session = KafkaMetadata(
                await open_node("127.0.0.1", fake.port, connect_timeout_s=1), 4, connect_timeout_s=1
            )
            with pytest.raises(Definite, match="iterations"):
                await session.alter(MetadataKind.SCRAM, "alice", str(value).encode())
            assert fake.asked == []
            await session.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("key", "answer", "value"),
    [
        (
            "quota/alice",
            DescribeClientQuotasResponse(
                entries=[_QUOTA(values=[_QUOTA.ValueData(key="producer_byte_rate", value=9.0)])]
            ),
            b"9",
        ),
        ("quota/alice", DescribeClientQuotasResponse(entries=None), None),
        (
            "scram/alice",
            DescribeUserScramCredentialsResponse(
                results=[_SCRAM(user="alice", credential_infos=[_SCRAM.CredentialInfo(mechanism=1, iterations=4100)])]
            ),
            b"4",
        ),
        ("scram/alice", DescribeUserScramCredentialsResponse(results=[_SCRAM(user="alice", error_code=91)]), None),
        (
            "partitions/grows",
            MetadataResponse(
                topics=[_TOPIC(name="grows", partitions=[_TOPIC.MetadataResponsePartition() for _ in range(3)])]
            ),
            b"3",
        ),
        ("topic/x3", MetadataResponse(topics=[_TOPIC(error_code=3, name="x3")]), None),
        ("topic/x3", MetadataResponse(topics=[_TOPIC(name="x3")]), b"1"),
        ("acl/x3", DescribeAclsResponse(), None),
        ("acl/x3", DescribeAclsResponse(resources=[_ACLS(acls=[_ACLS.AclDescription()])]), b"1"),
        (
            "broker/",
            DescribeConfigsResponse(
                results=[
                    _CONFIGS(
                        configs=[
                            _CONFIGS.DescribeConfigsResourceResult(
                                name="log.retention.bytes", value="17", config_source=3
                            )
                        ]
                    )
                ]
            ),
            b"17",
        ),
    ],
)
def test_what_a_node_shows(key: str, answer: DataContainer, value: bytes | None) -> None:
    result, _ = talk(answer, key, "?")
    assert result == value


def test_a_controller_is_not_asked_for_credentials() -> None:
    async def run() -> None:
        async with node(lambda asked: scram(0), everything(CONTROLLER)) as fake:
            session = KafkaMetadata(
                await open_node("127.0.0.1", fake.port, connect_timeout_s=1), 4, connect_timeout_s=1
            )
            with pytest.raises(Definite) as refusal:
                await session.describe(MetadataKind.SCRAM, "alice")
            assert refusal.value.code == "unsupported-api"
            assert fake.asked == []
            await session.close()

    asyncio.run(run())


def test_only_topics_that_must_exist_are_made_before_a_run() -> None:
    assert MetadataWorkload().needs(MetadataOptions(keys=1, kinds="all")).names == ("grows", "k0", "k-last")
    assert MetadataWorkload().needs(MetadataOptions(keys=1)).names == ("k0", "k-last")
