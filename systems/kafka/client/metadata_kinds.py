"""Metadata by kind and name: how each kind is changed and read.

| kind       | is                                         | its value                                     |
| setting    | of the topic of this name, which is empty  | retention.bytes, from 1 on                    |
| broker     | the default of all brokers (name "")       | log.retention.bytes                           |
| quota      | a user's quota; "" is the default user     | producer_byte_rate                            |
| scram      | a user's SCRAM-SHA-256 credential          | its iterations, less the 4096 that Kafka asks |
| partitions | a topic that only grows                    | its number of partitions                      |
| topic      | a topic that is made once and deleted once | 1 while it is there                           |
| acl        | an ACL for the topic of this name          | 1 while it is there                           |

A value of None removes. Everything is read from the node's own copy. Controllers do not offer every read: then nothing
is sent (`unsupported-api`). ACLs need an authorizer.

Source: ControllerApis, KafkaApis, AclControlManager, ClientQuotaControlManager, ScramControlManager and
ReplicationControlManager of Kafka 3.6 to 4.3; ZkAdminManager of 3.9.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from fencepost.harness.coordination import Definite
from fencepost.systems.kafka.client.client import KafkaNode, ListenerRole
from fencepost.systems.kafka.protocols import MetadataKind
from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.errors import (
    RESOURCE_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_API,
    RequestKind,
    only_item,
    raise_error,
    refused,
)
from fencepost.systems.kafka.wire.values import ALL_BROKERS, ConfigSource, Resource, ResourceType

VALUE_OUT_OF_RANGE: Final = "value-out-of-range"
_TOPIC_SETTING: Final = "retention.bytes"
_BROKER_SETTING: Final = "log.retention.bytes"
_QUOTA: Final = "producer_byte_rate"
_EXACT: Final = 0
_DEFAULT: Final = 1
_SHA_256: Final = 1
_ITERATIONS: Final = range(4096, 16384 + 1)
_TIMEOUT_MS: Final = 10_000
#: Of ACLs: a topic, literally; everything that a filter matches; reading; allowed.
_TOPIC: Final = 2
_LITERAL: Final = 3
_READ: Final = 3
_ALLOW: Final = 3
_PRINCIPAL: Final = "User:fencepost"
_ANY_HOST: Final = "*"


async def _change_config(node: KafkaNode, resource: Resource, setting: str, value: int | None) -> None:
    await node.alter_config(resource, setting, None if value is None else str(value))


async def _read_config(node: KafkaNode, resource: Resource, setting: str, source: ConfigSource) -> int | None:
    config = await node.read_config(resource, setting)
    return None if config is None or config.source is not source or config.value is None else int(config.value)


async def _change_setting(node: KafkaNode, name: str, value: int | None) -> None:
    await _change_config(node, Resource(ResourceType.TOPIC, name), _TOPIC_SETTING, value)


async def _read_setting(node: KafkaNode, name: str) -> int | None:
    return await _read_config(node, Resource(ResourceType.TOPIC, name), _TOPIC_SETTING, ConfigSource.TOPIC)


async def _change_broker(node: KafkaNode, name: str, value: int | None) -> None:
    await _change_config(node, ALL_BROKERS, _BROKER_SETTING, value)


async def _read_broker(node: KafkaNode, name: str) -> int | None:
    return await _read_config(node, ALL_BROKERS, _BROKER_SETTING, ConfigSource.ALL_BROKERS)


async def _change_quota(node: KafkaNode, name: str, value: int | None) -> None:
    entry = messages.ALTER_CLIENT_QUOTAS.request.EntryData
    entity = entry.EntityData(entity_type="user", entity_name=name or None)
    op = entry.OpData(key=_QUOTA, value=float(value or 0), remove=value is None)
    request = messages.ALTER_CLIENT_QUOTAS.request(entries=[entry(entity=[entity], ops=[op])])
    result = only_item((await node.connection.request(messages.ALTER_CLIENT_QUOTAS, request)).entries)
    raise_error(node.change, result.error_code, result.error_message)


async def _read_quota(node: KafkaNode, name: str) -> int | None:
    wanted = messages.DESCRIBE_CLIENT_QUOTAS.request.ComponentData(
        entity_type="user", match_type=_EXACT if name else _DEFAULT, match=name or None
    )
    request = messages.DESCRIBE_CLIENT_QUOTAS.request(components=[wanted], strict=True)
    answer = await node.connection.request(messages.DESCRIBE_CLIENT_QUOTAS, request)
    raise_error(RequestKind.READ, answer.error_code, answer.error_message)
    values = [value for entry in answer.entries or () for value in entry.values]
    return next((round(value.value) for value in values if value.key == _QUOTA), None)


async def _change_scram(node: KafkaNode, name: str, value: int | None) -> None:
    if value is None:
        deletion = messages.ALTER_USER_SCRAM_CREDENTIALS.request.ScramCredentialDeletion(name=name, mechanism=_SHA_256)
        request = messages.ALTER_USER_SCRAM_CREDENTIALS.request(deletions=[deletion])
    else:
        iterations = _ITERATIONS.start + value
        if iterations not in _ITERATIONS:
            raise Definite(VALUE_OUT_OF_RANGE, f"{iterations} iterations are more than Kafka takes")
        # Nobody ever logs in with it.
        noise = hashlib.sha256(f"{name} {value}".encode()).digest()
        upsertion = messages.ALTER_USER_SCRAM_CREDENTIALS.request.ScramCredentialUpsertion(
            name=name, mechanism=_SHA_256, iterations=iterations, salt=noise[:16], salted_password=noise
        )
        request = messages.ALTER_USER_SCRAM_CREDENTIALS.request(upsertions=[upsertion])
    answer = await node.connection.request(messages.ALTER_USER_SCRAM_CREDENTIALS, request)
    result = only_item(answer.results)
    raise_error(node.change, result.error_code, result.error_message)


async def _read_scram(node: KafkaNode, name: str) -> int | None:
    if node.role is ListenerRole.CONTROLLER:
        raise refused(UNSUPPORTED_API, "controllers offer it, and fail each (4.3.1: error -1)")
    wanted = messages.DESCRIBE_USER_SCRAM_CREDENTIALS.request.UserName(name=name)
    request = messages.DESCRIBE_USER_SCRAM_CREDENTIALS.request(users=[wanted])
    answer = await node.connection.request(messages.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    raise_error(RequestKind.READ, answer.error_code, answer.error_message)
    user = only_item(answer.results)
    if user.error_code == RESOURCE_NOT_FOUND:
        return None
    raise_error(RequestKind.READ, user.error_code, user.error_message)
    iterations = (info.iterations for info in user.credential_infos if info.mechanism == _SHA_256)
    return next((number - _ITERATIONS.start for number in iterations), None)


async def _change_partitions(node: KafkaNode, name: str, value: int | None) -> None:
    if value is None:
        raise Definite(VALUE_OUT_OF_RANGE, "partitions cannot be taken away")
    wanted = messages.CREATE_PARTITIONS.request.CreatePartitionsTopic(name=name, count=value, assignments=None)
    request = messages.CREATE_PARTITIONS.request(topics=[wanted], timeout_ms=_TIMEOUT_MS)
    result = only_item((await node.connection.request(messages.CREATE_PARTITIONS, request)).results)
    raise_error(node.change, result.error_code, result.error_message)


async def _read_partitions(node: KafkaNode, name: str) -> int | None:
    topic = only_item((await node.metadata([name])).topics)
    if topic.error == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise_error(RequestKind.READ, topic.error)
    return len(topic.partitions)


async def _change_topic(node: KafkaNode, name: str, value: int | None) -> None:
    if value is None:
        await node.delete_topic(name)
    else:
        await node.create_topic(name)


async def _read_topic(node: KafkaNode, name: str) -> int | None:
    return None if await _read_partitions(node, name) is None else 1


def _acl_filter(name: str) -> dict[str, Any]:
    return {
        "resource_type_filter": _TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": _LITERAL,
        "principal_filter": _PRINCIPAL,
        "host_filter": _ANY_HOST,
        "operation": _READ,
        "permission_type": _ALLOW,
    }


async def _change_acl(node: KafkaNode, name: str, value: int | None) -> None:
    if value is None:
        wanted = messages.DELETE_ACLS.request.DeleteAclsFilter(**_acl_filter(name))
        deletion = await node.connection.request(messages.DELETE_ACLS, messages.DELETE_ACLS.request(filters=[wanted]))
        deleted = only_item(deletion.filter_results)
        raise_error(node.change, deleted.error_code, deleted.error_message)
        for acl in deleted.matching_acls:
            raise_error(node.change, acl.error_code, acl.error_message)
        return
    binding = messages.CREATE_ACLS.request.AclCreation(
        resource_type=_TOPIC,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=_PRINCIPAL,
        host=_ANY_HOST,
        operation=_READ,
        permission_type=_ALLOW,
    )
    creation = await node.connection.request(messages.CREATE_ACLS, messages.CREATE_ACLS.request(creations=[binding]))
    made = only_item(creation.results)
    raise_error(node.change, made.error_code, made.error_message)


async def _read_acl(node: KafkaNode, name: str) -> int | None:
    request = messages.DESCRIBE_ACLS.request(**_acl_filter(name))
    answer = await node.connection.request(messages.DESCRIBE_ACLS, request)
    raise_error(RequestKind.READ, answer.error_code, answer.error_message)
    return 1 if any(resource.acls for resource in answer.resources) else None


class _Calls(NamedTuple):
    """How metadata of one kind is changed (None removes) and read, by its name."""

    change: Callable[[KafkaNode, str, int | None], Awaitable[None]]
    read: Callable[[KafkaNode, str], Awaitable[int | None]]


_KINDS: Final[Mapping[MetadataKind, _Calls]] = {
    MetadataKind.SETTING: _Calls(_change_setting, _read_setting),
    MetadataKind.BROKER: _Calls(_change_broker, _read_broker),
    MetadataKind.QUOTA: _Calls(_change_quota, _read_quota),
    MetadataKind.SCRAM: _Calls(_change_scram, _read_scram),
    MetadataKind.PARTITIONS: _Calls(_change_partitions, _read_partitions),
    MetadataKind.TOPIC: _Calls(_change_topic, _read_topic),
    MetadataKind.ACL: _Calls(_change_acl, _read_acl),
}


async def change(node: KafkaNode, kind: MetadataKind, name: str, value: bytes | None) -> None:
    """Set or remove (None) it; raises by the table of `wire/errors.py`."""
    await _KINDS[kind].change(node, name, None if value is None else int(value))


async def read(node: KafkaNode, kind: MetadataKind, name: str) -> bytes | None:
    """Read it from the node's own copy; None where it is not there."""
    value = await _KINDS[kind].read(node, name)
    return None if value is None else b"%d" % value
