"""What every Kafka has whose brokers stand beside ZooKeepers, whether or not KRaft controllers stand there too."""

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.options import S
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings
from fencepost.harness.contract.system import BaseSystem
from fencepost.harness.coordination import Session
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.systems.kafka.client import partition_leaders
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.contract.partition_leaders import PartitionReign
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.server import reported_version
from fencepost.systems.kafka.server import settings as server_settings
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.zookeeper_mode.configuration import BROKER, KEEPER, keeper_version
from fencepost.systems.kafka.zookeeper_mode.guarantees import unpromised
from fencepost.systems.kafka.zookeeper_mode.old_session import await_end
from fencepost.systems.zookeeper import settings as keeper_settings
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.reported_version import ask as ask_zookeeper_version


class KafkaBesideKeepers(BaseSystem[S], ABC):
    """Brokers are asked and set as in every Kafka, ZooKeepers as in a ZooKeeper of its own."""

    #: Keys that have an option, of the servers of Kafka and of ZooKeepers.
    reserved: ClassVar[Reserved]
    keepers_reserved: ClassVar[Reserved]

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        return await partition_leaders.partition_reigns(_brokers(layout), CLIENT_PORT, timeout_s)

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        await partition_leaders.elect_preferred(_brokers(layout), CLIENT_PORT, timeout_s)

    async def before_start(self, node: Node, layout: Layout) -> None:
        """`harness.contract.servers.WaitsToStart`: a broker waits for the end of its last session."""
        if BROKER in node.place.roles and node.incarnation >= 0:
            keepers = [place for place in layout.values() if KEEPER in place.roles]
            await await_end(node.place.number, keepers)

    async def prepare(self, client: Session, keys: tuple[str, ...]) -> None:
        if not isinstance(client, KafkaSession):
            raise TypeError(f"expected a client that this system opened, got {type(client).__name__}")
        await client.prepare(keys)

    async def reported_version(self, node: Node, *, log_from: int) -> str:
        if KEEPER in node.place.roles:
            return await ask_zookeeper_version(*node.place.dial(KEEPER_PORT))
        return reported_version.read(node.log, log_from)

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        """The release that a node reports; a ZooKeeper reports that of the ZooKeeper among Kafka's jars."""
        return keeper_version(artifacts) if KEEPER in node.place.roles else artifacts.version

    def fatal_line(self, line: str) -> str | None:
        return server.fatal_line(line)

    def unpromised(self, settings: Settings, options: S) -> Mapping[str, str]:
        return unpromised(settings)

    @property
    def settable(self) -> Mapping[str, str]:
        return {self.profile.name: server_settings.ABOUT, keeper_settings.ZOOKEEPER: keeper_settings.ABOUT}

    @property
    def sample_settings(self) -> Settings:
        return {self.profile.name: {"num.partitions": "2"}}

    def refuse_setting(self, of: str, key: str, options: S) -> Refusal | None:
        if of == keeper_settings.ZOOKEEPER:
            return keeper_settings.refuse(key, self.keepers_reserved)
        return self.reserved.refuse(key)

    def refuse_settings(self, artifacts: Artifacts, settings: Settings) -> Refusal | None:
        jars, version = server.jars_of(artifacts), artifacts.version
        unknown = server_settings.refuse_unknown(self.profile.name, jars, version, settings)
        return unknown or keeper_settings.refuse_unknown(jars, f"of Kafka {version}", settings)

    async def applied_settings(self, node: Node, artifacts: Artifacts, settings: Settings) -> list[AppliedSetting]:
        place = node.place
        if KEEPER in place.roles:
            return await keeper_settings.applied_settings(node, *place.dial(KEEPER_PORT), settings)
        where = place.dial(CLIENT_PORT)
        return await server_settings.applied_settings(self.profile.name, node, where, server.PROPERTIES, settings)


def _brokers(layout: Layout) -> list[Place]:
    return [place for place in layout.values() if BROKER in place.roles]
