"""What every Kafka has whose brokers stand beside ZooKeepers, whether or not KRaft controllers stand there too."""

from abc import ABC

from fencepost.harness.contract.profile import S
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node
from fencepost.systems.kafka.server import reported_version
from fencepost.systems.kafka.server.configuration import BROKER, KEEPER, keeper_version
from fencepost.systems.kafka.server.system import Kafka
from fencepost.systems.kafka.zookeeper_mode.guarantees import unpromised
from fencepost.systems.kafka.zookeeper_mode.old_session import await_end
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.reported_version import ask as ask_zookeeper_version


class KafkaBesideKeepers(Kafka[S], ABC):
    """Brokers are asked and set as in every Kafka, ZooKeepers as in a ZooKeeper of its own."""

    unpromised = staticmethod(unpromised)

    async def before_start(self, node: Node, layout: Layout) -> None:
        """Let a broker wait for the end of its last session."""
        if BROKER in node.place.roles and node.incarnation >= 0:
            keepers = [place for place in layout.values() if KEEPER in place.roles]
            await await_end(node.place.number, keepers)


async def reported_version_of(node: Node, log_from: int) -> str:
    if KEEPER in node.place.roles:
        return await ask_zookeeper_version(*node.place.dial(KEEPER_PORT))
    return await reported_version.read(node, log_from)


def version_of(node: Node, artifacts: Artifacts) -> str:
    """The release that a node reports; a ZooKeeper reports that of the ZooKeeper among Kafka's jars."""
    return keeper_version(artifacts) if KEEPER in node.place.roles else artifacts.version
