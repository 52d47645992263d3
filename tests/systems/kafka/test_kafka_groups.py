"""Members of consumer groups on real brokers: generations, shares, and who may not commit any more."""

from typing import Any

import pytest

from fencepost.harness.plugins import registry
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("system", "version"),
    [
        pytest.param("kraft", "4.3.1", marks=needs("kraft", "4.3.1")),
        # The coordinator was written anew for 4.0.
        pytest.param("kraft", "3.6.0", marks=pytest.mark.long),
        pytest.param("kafka-zk", "3.9.2", marks=pytest.mark.long),
    ],
)
def test_members_of_earlier_generations_are_refused(system: str, version: str) -> None:
    options: dict[str, object] = {} if system == "kafka-zk" else {"brokers": 2}
    chosen = registry.system(system)
    said: dict[str, Any] = run_scenario(
        "tests.systems.kafka.kafka_group_scenarios:groups",
        {"version": version, "options": options},
        nodes=chosen.members(2 if chosen is KAFKA_ZK else 1, chosen.profile.parse_options(options)),
        timeout_s=280,
    )
    assert said == {
        "not a member": "not-a-member",
        "nothing yet": None,
        "beat": "",
        "commit": 0,
        "no generation before": "not-a-member",
        "has to join again": "rebalance-in-progress",
        "still in the old one": "",
        "generations": [1, 1],
        "shares": [0, 1],
        "late": "illegal-generation",
        "elsewhere": 13,
        "left out": "unknown-member-id",
        "forgotten": "not-a-member",
        "alone": [0, True],
        "at the end": [13, 13],
    }
