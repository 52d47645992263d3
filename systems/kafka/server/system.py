"""What every Kafka does, wherever its metadata lies."""

from abc import ABC
from collections.abc import Mapping

from fencepost.harness.contract.options import S
from fencepost.harness.contract.system import BaseSystem
from fencepost.harness.runtime.node import Layout, Place
from fencepost.systems.kafka.client import partition_leaders
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.sessions import open_session
from fencepost.systems.kafka.contract.partition_leaders import PartitionReign
from fencepost.systems.kafka.names import BROKER, CLIENT_PORT


class Kafka(BaseSystem[S], ABC):
    """Brokers are asked in one way, and all servers log alike."""

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        return await partition_leaders.partition_reigns(_brokers(layout), CLIENT_PORT, timeout_s)

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        await partition_leaders.elect_preferred(_brokers(layout), CLIENT_PORT, timeout_s)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: S | None = None
    ) -> KafkaSession:
        return await open_session(place.dial(CLIENT_PORT), place.number, interface, connect_timeout_s=connect_timeout_s)


def _brokers(layout: Layout) -> list[Place]:
    return [place for place in layout.values() if BROKER in place.roles]
