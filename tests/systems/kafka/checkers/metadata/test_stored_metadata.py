"""Each kind of metadata as KRaft's record has it and as ZooKeeper's znode has it: the same, and not the same."""

import base64
from typing import Any

import pytest

from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.checkers.metadata.image import MetadataImage
from fencepost.systems.kafka.checkers.metadata.stored_metadata import (
    UNREAD,
    Znodes,
    apply,
    is_known,
    same,
    there,
    znode_in_words,
    znodes_of,
)

_SALT, _STORED, _SERVER = b"salt", b"stored", b"server"


def _of_kraft(*records: tuple[str, dict[str, Any]]) -> Znodes:
    return znodes_of(MetadataImage(LogEntry(offset=at, epoch=1, type=t, fields=f) for at, (t, f) in enumerate(records)))


def _of_zookeeper(*transactions: tuple[str, dict[str, Any]]) -> Znodes:
    znodes = Znodes()
    for zxid, (kind, fields) in enumerate(transactions):
        apply(znodes, LogEntry(offset=zxid, epoch=0, type=kind, fields=fields))
    return znodes


def _put(path: str, word: str = "set", **content: Any) -> tuple[str, dict[str, Any]]:
    return word, {"path": path, "content": content}


def _quota(value: float, **entity: str | None) -> tuple[str, dict[str, Any]]:
    kinds = {"user": "user", "client": "client-id", "ip": "ip"}
    # A name that is null is left out of the entry.
    parts = [{"entity_type": kinds[k], **({"entity_name": n} if n is not None else {})} for k, n in entity.items()]
    return "client-quota", {"entity": parts, "key": "producer_byte_rate", "value": value}


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_CREDENTIAL = {
    "name": "a",
    "mechanism": 1,
    "salt": _SALT.hex(),
    "stored_key": _STORED.hex(),
    "server_key": _SERVER.hex(),
    "iterations": 4096,
}
_CREDENTIAL_TEXT = f"salt={_b64(_SALT)},stored_key={_b64(_STORED)},server_key={_b64(_SERVER)},iterations=4096"
_ACL = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
_TOKEN = {"token_id": "t1", "owner": "User:a", "issue_timestamp": 5, "expiration_timestamp": 9}
_TOPIC = ("topic", {"name": "t", "topic_id": "id"})
_PARTITION = {"topic_id": "id", "partition_id": 0, "leader": 7, "leader_epoch": 0, "isr": [7, 8], "replicas": [7, 8]}
_STATE = {"topic": "t", "partition": 0, "leader": 7, "leader_epoch": 0, "isr": [8, 7], "version": 0}


def _topic(**more: Any) -> tuple[str, dict[str, Any]]:
    content = {"topic_id": "id", "replicas": {"0": [7, 8]}, "adding_replicas": {}, "removing_replicas": {}, **more}
    return "topic", {"name": "t", "content": content}


@pytest.mark.parametrize(
    ("record", "transaction"),
    [
        (_quota(7, user="u"), _put("/config/users/u", config={"producer_byte_rate": "7.0"})),
        (_quota(7, user=None), _put("/config/users/<default>", config={"producer_byte_rate": "7"})),
        (_quota(7, user="<default>"), _put("/config/users/%3Cdefault%3E", config={"producer_byte_rate": "7.0"})),
        (_quota(7, user="a b*~+/é"), _put("/config/users/a%20b%2A%7E%2B%2F%C3%A9", config={"producer_byte_rate": "7"})),
        (_quota(0.5, client="c"), _put("/config/clients/c", config={"producer_byte_rate": "0.5"})),
        (_quota(7, ip="::1"), _put("/config/ips/%3A%3A1", config={"producer_byte_rate": "7.0"})),
        (
            _quota(7, client=None, user="u"),
            _put("/config/users/u/clients/<default>", config={"producer_byte_rate": "7.0"}),
        ),
        (("user-scram-credential", _CREDENTIAL), _put("/config/users/a", config={"SCRAM-SHA-256": _CREDENTIAL_TEXT})),
        (
            ("config", {"resource_type": 4, "resource_name": "", "name": "a", "value": "1"}),
            _put("/config/brokers/<default>", config={"a": "1"}),
        ),
        (
            ("config", {"resource_type": 2, "resource_name": "t", "name": "a", "value": "1"}),
            ("config", {"resource_name": "t", "name": "a", "value": "1"}),
        ),
        (
            ("access-control-entry", {"id": "x", **_ACL, "pattern_type": 3, "permission_type": 3}),
            _put("/kafka-acl/Topic/t", acls=["Allow User:a Read from *"]),
        ),
        (
            ("access-control-entry", {"id": "x", **_ACL, "pattern_type": 4, "permission_type": 2}),
            _put("/kafka-acl-extended/prefixed/Topic/t", acls=["Deny User:a Read from *"]),
        ),
        (("delegation-token", _TOKEN), ("delegation-token", _TOKEN)),
        (("producer-ids", {"next_producer_id": 2000}), _put("/latest_producer_id_block", next_producer_id=2000)),
    ],
)
def test_a_record_makes_the_znode_that_kafka_writes(
    record: tuple[str, dict[str, Any]], transaction: tuple[str, dict[str, Any]]
) -> None:
    wanted, held = _of_kraft(record), _of_zookeeper(transaction)
    assert wanted == held
    assert len(wanted) == 1


def test_a_topic_and_its_partitions_in_both_stores() -> None:
    wanted = _of_kraft(_TOPIC, ("partition", _PARTITION))
    assert wanted == _of_zookeeper(_topic(), ("partition-state", _STATE))
    assert wanted != _of_zookeeper(_topic(topic_id="other"), ("partition-state", _STATE))
    assert wanted != _of_zookeeper(_topic(replicas={"0": [8, 7]}), ("partition-state", _STATE)), "another first choice"
    assert wanted != _of_zookeeper(_topic(adding_replicas={"0": [9]}), ("partition-state", _STATE))
    assert wanted != _of_zookeeper(_topic(removing_replicas={"0": [8]}), ("partition-state", _STATE))


def test_a_reassignment_in_both_stores() -> None:
    moved = {"replicas": [9, 7, 8], "adding_replicas": [9], "removing_replicas": [8]}
    change = ("partition-change", {"topic_id": "id", "partition_id": 0, **moved})
    held = {"replicas": {"0": [9, 7, 8]}, "adding_replicas": {"0": [9]}, "removing_replicas": {"0": [8]}}
    partition = ("partition", {**_PARTITION, "partition_epoch": 0})
    assert _of_kraft(_TOPIC, partition, change) == _of_zookeeper(_topic(**held), ("partition-state", _STATE))


def test_quotas_and_credentials_of_a_user_are_one_znode() -> None:
    both = _of_kraft(_quota(7, user="a"), ("user-scram-credential", _CREDENTIAL))
    config = {"SCRAM-SHA-256": _CREDENTIAL_TEXT, "producer_byte_rate": "7.0"}
    assert both == _of_zookeeper(_put("/config/users/a", config=config))


def test_what_is_removed_or_empty_is_not_there() -> None:
    config = "/config/users/a"
    assert there(_of_zookeeper(_put(config, config={})), config) is None
    acl = "/kafka-acl/Topic/t"
    assert there(_of_zookeeper(_put(acl, acls=["x"]), ("delete", {"path": acl})), acl) is None
    topic = "/brokers/topics/t"
    assert there(_of_zookeeper(("topic", {"name": "t", "content": None})), topic) == UNREAD


def test_a_content_that_was_not_kept_says_no_more_than_that_the_znode_is_there() -> None:
    """Of what may be empty even that says nothing; a broker makes the znode of producer ids before it has any."""
    topic, ids = "/brokers/topics/t", "/latest_producer_id_block"
    held = _of_zookeeper(("topic", {"name": "t"}), ("create", {"path": ids}), ("set", {"path": "/config/users/a"}))
    assert same(held[topic], {"topic id": "id"}) and not same(held[topic], None)
    assert [path for path in held if is_known(path, held[path])] == [topic]


def test_znodes_of_other_things_are_left_alone() -> None:
    others = ("/config/changes/config_change_1", "/brokers/ids/7", "/config/users", "/kafka-acl/Topic", "/admin/x")
    assert _of_zookeeper(*(_put(path, "create", config={}) for path in others)) == {}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/brokers/topics/t", "topic t"),
        ("/brokers/topics/t/partitions/3/state", "partition t-3"),
        ("/config/topics/t", "settings of t"),
        ("/config/users/a", "quotas and credentials of /config/users/a"),
    ],
)
def test_a_znode_in_words(path: str, words: str) -> None:
    assert znode_in_words(path) == words
