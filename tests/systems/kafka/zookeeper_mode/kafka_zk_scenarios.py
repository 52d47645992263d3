"""What Kafka in ZooKeeper mode answers in the lab; judged by `test_kafka_zk_cluster`."""

from typing import Any

from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.names import CLIENT_PORT
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.kafka.kafka_scenarios import changes, outcome
from tests.systems.kafka.kraft.kraft_scenarios import starts


async def refuses(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """As `starts`, then the error table's rows for such brokers, at the controller and elsewhere."""
    found = await starts(lab, args)
    active = found["controller"][0]
    others = [name for name, place in lab.layout.items() if "broker" in place.roles and name != active]
    controller, other = await _at(lab, active), await _at(lab, others[0])
    found["changes"] = await changes(controller, "c")
    found["elsewhere"] = {
        "create": await outcome(other.create_topic("u")),
        "validate": await outcome(other.create_topic("u", validate_only=True)),
        "delete": await outcome(other.delete_topic("of-b1")),
    }
    controller.close()
    other.close()
    return found


async def _at(lab: Lab, name: str) -> KafkaNode:
    return await open_node(*lab.layout[name].dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)
