"""Kafka in ZooKeeper mode: real servers in the lab."""

from typing import Any

import pytest

from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_OLD = "2.8.2"


#: The controller stays the same, also on a busy machine.
OPTIONS = {"zk_session": "8s"}


@pytest.fixture(
    scope="module",
    params=[pytest.param("3.9.2", marks=needs("kafka-zk", "3.9.2")), pytest.param(_OLD, marks=pytest.mark.long)],
)
def asked(request: pytest.FixtureRequest) -> dict[str, Any]:
    args = {"version": request.param, "options": OPTIONS}
    nodes = KAFKA_ZK.members(3, KAFKA_ZK.profile.parse_options(OPTIONS))
    found: dict[str, Any] = run_scenario(
        "tests.systems.kafka.zookeeper_mode.kafka_zk_scenarios:refuses", args, nodes=nodes, timeout_s=240
    )
    return {"version": request.param, **found}


def test_it_starts_and_every_protocol_is_served(asked: dict[str, Any]) -> None:
    controller = asked["controller"][0]
    assert asked["view"][0] == controller
    assert asked["in the log"][controller] != []
    assert asked["fatal"] == []
    said = asked["operations"][controller]
    assert said["alter"][0] == said["create"][0] == said["allocate"][0] == "ok"
    assert "value=b'1'" in said["taken"][1]
    assert "value=None" in said["not taken"][1]
    assert "value=b'17'" in said["describe"][1]
    # ZooKeeper's client repeats a create after a lost connection, and may find its own znode then.
    assert said["create again"] == ["indefinite", "topic-already-exists"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("again", ["indefinite", "topic-already-exists"]),
        ("taken", ["definite", "topic-already-exists"]),
        ("too many replicas", ["definite", "invalid-replication-factor"]),
        ("bad name", ["definite", "invalid-topic"]),
        ("no partitions", ["definite", "invalid-partitions"]),
        ("bad config", ["definite", "invalid-config"]),
        ("set nowhere", ["definite", "unknown-topic-or-partition"]),
        ("set nonsense", ["definite", "invalid-config"]),
        ("read nowhere", ["definite", "unknown-topic-or-partition"]),
        ("delete nothing", ["definite", "unknown-topic-or-partition"]),
    ],
)
def test_changes_end_as_the_table_says(asked: dict[str, Any], step: str, expected: list[str]) -> None:
    if step == "set nonsense" and asked["version"] == _OLD:
        expected = ["definite", "invalid-request"]  # 2.8.2's word for it
    assert asked["changes"][step] == expected


def test_who_is_not_the_controller_refuses_before_anything_happens(asked: dict[str, Any]) -> None:
    assert set(asked["elsewhere"]) == {"create", "validate", "delete"}
    assert all(end == ["definite", "not-controller"] for end in asked["elsewhere"].values())
