"""Snapshots against a replay of the log: every kind of record, both sides of the rule, and when nothing is compared."""

from typing import Any

import pytest

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.kafka.checkers.metadata.image import MetadataImage, differences

T = "topic-id"

#: The type of a record and its fields.
Record = tuple[str, dict[str, Any]]


def entries(*records: Record, epoch: int = 1, start: int = 0) -> tuple[LogEntry, ...]:
    return tuple(
        LogEntry(offset=offset, epoch=epoch, type=kind, fields=fields)
        for offset, (kind, fields) in enumerate(records, start)
    )


def image(*records: Record) -> MetadataImage:
    return MetadataImage(entries(*records))


MADE: Record = ("partition", {"topic_id": T, "partition_id": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1})
BEGUN = {"leader_epoch": 0, "partition_epoch": 0}
PARTITION: Record = (MADE[0], {**MADE[1], **BEGUN})


def changed(**fields: Any) -> Record:
    return "partition-change", {"topic_id": T, "partition_id": 0, **fields}


def partition(**fields: Any) -> Record:
    return PARTITION[0], {**PARTITION[1], **fields}


@pytest.mark.parametrize(
    ("log", "snapshot"),
    [
        pytest.param(
            [("no-op", {}), ("leader-change", {"leader_id": 1}), ("control-6", {"raw": "00"})], [], id="nothing"
        ),
        pytest.param(
            [
                ("register-broker", {"broker_id": 1, "broker_epoch": 5, "features": [{"name": "b"}, {"name": "a"}]}),
                ("broker-registration-change", {"broker_id": 1, "broker_epoch": 5, "fenced": -1}),
                ("broker-registration-change", {"broker_id": 1, "broker_epoch": 5, "in_controlled_shutdown": 1}),
            ],
            [
                (
                    "register-broker",
                    {
                        "broker_id": 1,
                        "broker_epoch": 5,
                        "fenced": False,
                        "in_controlled_shutdown": True,
                        "features": [{"name": "a"}, {"name": "b"}],
                    },
                )
            ],
            id="broker",
        ),
        pytest.param(
            [
                ("delegation-token", {"token_id": "a", "owner": "User:x1", "expiration_timestamp": 24}),
                ("delegation-token", {"token_id": "a", "owner": "User:x1", "expiration_timestamp": 12}),
                ("delegation-token", {"token_id": "b", "owner": "User:x2"}),
                ("remove-delegation-token", {"token_id": "b"}),
            ],
            [("delegation-token", {"token_id": "a", "owner": "User:x1", "expiration_timestamp": 12})],
            id="tokens: renewed, and ended",
        ),
        pytest.param(
            [
                ("register-broker", {"broker_id": 1}),
                ("unfence-broker", {"id": 1}),
                ("fence-broker", {"id": 1}),
                ("register-broker", {"broker_id": 2}),
                ("unregister-broker", {"broker_id": 2}),
            ],
            [("register-broker", {"broker_id": 1})],
            id="fenced again, and gone",
        ),
        pytest.param(
            [PARTITION, changed(isr=[1, 2]), changed(leader=2)],
            [partition(isr=[1, 2], leader=2, leader_epoch=1, partition_epoch=2)],
            id="partition",
        ),
        pytest.param(
            [PARTITION, changed(leader=-1, eligible_leader_replicas=[1], leader_recovery_state=1), ("clear-elr", {})],
            [partition(leader=-1, leader_epoch=1, partition_epoch=1, leader_recovery_state=1)],
            id="eligible ones forgotten",
        ),
        pytest.param(
            [
                ("topic", {"name": "t", "topic_id": T}),
                PARTITION,
                ("config", {"resource_type": 2, "resource_name": "t", "name": "a", "value": "1"}),
                ("config", {"resource_type": 2, "resource_name": "u", "name": "a", "value": "1"}),
                ("remove-topic", {"topic_id": T}),
            ],
            [("config", {"resource_type": 2, "resource_name": "u", "name": "a", "value": "1"})],
            id="a topic goes with its partitions and settings",
        ),
        pytest.param(
            [
                ("config", {"resource_type": 4, "resource_name": "", "name": "a", "value": "1"}),
                ("config", {"resource_type": 4, "resource_name": "", "name": "a", "value": "2"}),
                ("config", {"resource_type": 4, "resource_name": "", "name": "b", "value": "2"}),
                ("config", {"resource_type": 4, "resource_name": "", "name": "b", "value": None}),
            ],
            [("config", {"resource_type": 4, "resource_name": "", "name": "a", "value": "2"})],
            id="setting",
        ),
        pytest.param(
            [
                ("client-quota", {"entity": [{"entity_type": "user", "entity_name": "u"}], "key": "k", "value": 5.0}),
                ("client-quota", {"entity": [{"entity_type": "user"}], "key": "k", "value": 6.0}),
                ("client-quota", {"entity": [{"entity_type": "user"}], "key": "k", "remove": True}),
            ],
            [("client-quota", {"entity": [{"entity_type": "user", "entity_name": "u"}], "key": "k", "value": 5.0})],
            id="quota",
        ),
        pytest.param(
            [("client-quota", {"entity": [{"entity_type": "user"}, {"entity_type": "client-id"}], "key": "k"})],
            [("client-quota", {"entity": [{"entity_type": "client-id"}, {"entity_type": "user"}], "key": "k"})],
            id="quota of two parts, in any order",
        ),
        pytest.param(
            [
                ("access-control-entry", {"id": "x", "resource_name": "a"}),
                ("access-control-entry", {"id": "y", "resource_name": "b"}),
                ("remove-access-control-entry", {"id": "x"}),
                ("user-scram-credential", {"name": "u", "iterations": 4096}),
                ("user-scram-credential", {"name": "v", "mechanism": 1}),
                ("remove-user-scram-credential", {"name": "v", "mechanism": 1}),
                ("feature-level", {"name": "f", "feature_level": 1}),
                ("feature-level", {"name": "g", "feature_level": 1}),
                ("feature-level", {"name": "g"}),
                ("producer-ids", {"broker_id": 1, "broker_epoch": 3, "next_producer_id": 1000}),
                ("register-controller", {"controller_id": 1, "incarnation_id": "i"}),
            ],
            [
                ("access-control-entry", {"id": "y", "resource_name": "b"}),
                ("user-scram-credential", {"name": "u", "iterations": 4096}),
                ("feature-level", {"name": "f", "feature_level": 1}),
                ("producer-ids", {"broker_epoch": -1, "next_producer_id": 1000}),
                ("register-controller", {"controller_id": 1, "incarnation_id": "i"}),
            ],
            id="small ones",
        ),
        pytest.param(
            [
                ("begin-transaction", {}),
                ("topic", {"name": "t", "topic_id": T}),
                ("end-transaction", {}),
                ("begin-transaction", {}),
                ("topic", {"name": "u", "topic_id": "other"}),
                ("abort-transaction", {}),
            ],
            [("topic", {"name": "t", "topic_id": T})],
            id="transactions",
        ),
    ],
)
def test_a_replay_makes_what_a_snapshot_holds(log: list[Record], snapshot: list[Record]) -> None:
    assert differences(image(*log), image(*snapshot)) == []
    assert not image(*log).unread


@pytest.mark.parametrize(
    ("snapshot", "key"),
    [
        (partition(leader=2), ("partition", T, "0")),
        (partition(partition_epoch=1), ("partition", T, "0")),
        (partition(isr=[1, 2]), ("partition", T, "0")),
        (("partition", {**PARTITION[1], "partition_id": 1}), ("partition", T, "0")),
    ],
)
def test_an_object_that_differs_is_named(snapshot: Record, key: tuple[str, ...]) -> None:
    assert key in differences(image(PARTITION), image(snapshot))


# -- the verdict --------------------------------------------------------------------------------------------------


def log(node: str, *records: Record, snapshot: tuple[Record, ...], epoch: int = 1, start: int = 0) -> NodeLog:
    """A log whose snapshot stands for its first record."""
    return NodeLog(
        node=node,
        start_offset=start,
        entries=entries(*records[start:], start=start),
        snapshot_end=1,
        snapshot=entries(*snapshot, epoch=epoch),
    )
