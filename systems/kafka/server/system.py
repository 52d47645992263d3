"""What every Kafka does, wherever its metadata lies."""

from abc import ABC
from collections.abc import Mapping

from fencepost.harness.contract.profile import S
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.contract.system import BaseSystem
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.systems.kafka.client import partition_leaders, replicas
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.sessions import open_session
from fencepost.systems.kafka.contract.partition_leaders import PartitionReign
from fencepost.systems.kafka.names import BROKER, CLIENT_PORT
from fencepost.systems.kafka.server import health
from fencepost.systems.kafka.server.configuration import Deployment, of_role


class Kafka(BaseSystem[S], ABC):
    """Brokers are asked in one way, and all servers log alike."""

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        return await partition_leaders.partition_reigns(of_role(layout, BROKER), CLIENT_PORT, timeout_s)

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        await partition_leaders.elect_preferred(of_role(layout, BROKER), CLIENT_PORT, timeout_s)

    replica_states = staticmethod(replicas.replica_states)
    deployment: Deployment

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: S, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [self.deployment.spec(place, layout, artifacts, options, settings) for place in layout.values()]

    async def ready(self, node: Node) -> bool:
        return await health.serves(node.place)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: S | None = None
    ) -> KafkaSession:
        return await open_session(place.dial(CLIENT_PORT), place.number, interface, connect_timeout_s=connect_timeout_s)
