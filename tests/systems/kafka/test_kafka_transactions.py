"""Transactions on real brokers: what readers see, who is fenced, and how far an input was read."""

from typing import Any, Final

import pytest

from fencepost.harness.plugins import registry
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

_SAID: Final = {
    "not begun": "no-producer",
    "begin": "",
    "partitions of 1": [0, 1],
    "partitions of 2": [0, 1],
    "partitions of 3": [0, 1],
    "committed": [1, 3],
    "in the log": [1, 2, 3],
    "later": True,
    "superseded inside": "fenced",
    "left": "no-producer",
    "after that": [1, 3, 6],
    "still later": True,
    "superseded between": "fenced",
    "read": [0, 2],
    "consumed": 2,
    "read again": 2,
    "later generation": True,
    "member left out": "fenced",
    "read by the next": 2,
    "stable at the end": True,
}
_REFUSED: Final = {"not begun": "no-producer", "begin": "unsupported-transaction-version"}


@pytest.mark.parametrize(
    ("system", "version", "of"),
    [
        pytest.param("kraft", "4.3.1", (1, 2, None), marks=needs("kraft", "4.3.1")),
        pytest.param("kraft", "3.6.0", (None,), marks=pytest.mark.long),
        pytest.param("kafka-zk", "3.9.2", (None, 2), marks=pytest.mark.long),
    ],
)
def test_transactions_are_whole_fenced_and_read_once(system: str, version: str, of: tuple[int | None, ...]) -> None:
    options: dict[str, object] = {} if system == "kafka-zk" else {"brokers": 2}
    chosen = registry.system(system)
    said: dict[str, Any] = run_scenario(
        "tests.systems.kafka.kafka_transaction_scenarios:transactions",
        {"version": version, "options": options, "of": of},
        nodes=chosen.members(2 if chosen is KAFKA_ZK else 1, chosen.profile.parse_options(options)),
        timeout_s=280,
    )
    highest = 2 if version == "4.3.1" else 1
    for asked in of:
        assert said[str(asked)] == (_REFUSED if asked == 2 > highest else {**_SAID, "version": asked or highest})
