"""Kafka in ZooKeeper mode: real servers in the lab."""

from typing import Any

import pytest

from harness.systems.kafka_zk import KAFKA_ZK
from tests.lab_scenario import run_scenario

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2"])
def test_it_starts_and_every_protocol_is_served(version: str) -> None:
    found: dict[str, Any] = run_scenario(
        "tests.systems.kraft_scenarios:starts", {"version": version}, nodes=KAFKA_ZK.members(3, {}), timeout_s=240
    )
    controller = found["controller"][0]
    assert found["view"][0] == controller
    assert found["in the log"][controller] != []
    assert found["fatal"] == []
    said = found["operations"][controller]
    assert said["alter"][0] == said["create"][0] == said["allocate"][0] == "ok"
    assert "value=b'1'" in said["taken"][1]
    assert "value=None" in said["not taken"][1]
    assert "value=b'17'" in said["describe"][1]
    # ZooKeeper's client repeats a create after a lost connection, and may find its own znode then.
    assert said["create again"] == ["indefinite", "topic-already-exists"]
