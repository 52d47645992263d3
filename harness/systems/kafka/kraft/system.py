"""Kafka with a quorum of controllers of its own (KRaft) as a system under test."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.coordination import Interface, ReadMode
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.artifacts.java import archive, existing_archive, find_java
from fencepost.harness.runtime.node import Layout, Member, Node, NodeSpec, Place
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS, Settings, Taken
from fencepost.harness.systems.contract.system import PartitionReign, Question
from fencepost.harness.systems.kafka.client import partition_leaders
from fencepost.harness.systems.kafka.client.question import ControllerQuestion, QuorumQuestion
from fencepost.harness.systems.kafka.client.session import KafkaSession, open_session
from fencepost.harness.systems.kafka.kraft import configuration, health, membership
from fencepost.harness.systems.kafka.kraft.configuration import BROKER, CONTROLLER
from fencepost.harness.systems.kafka.kraft.guarantees import leadership_bound, promises
from fencepost.harness.systems.kafka.kraft.membership import KraftMembership
from fencepost.harness.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.harness.systems.kafka.server import images, versions
from fencepost.harness.systems.kafka.server import reported_version as told_version
from fencepost.harness.systems.kafka.server import settings as server_settings
from fencepost.harness.systems.kafka.server import start as server
from fencepost.harness.systems.kafka.server.archive_training import train
from fencepost.harness.systems.kafka.server.image import recipe
from fencepost.harness.systems.kafka.server.log_lines import Layer, became_leader
from fencepost.harness.systems.kafka.server.start import DEFAULT_VERSION
from fencepost.harness.verdict import Guarantee, LeadershipBound

#: Who leads, by the layer that says so.
RAFT: Final = "raft"
ACTIVE_CONTROLLER: Final = "controller"

#: Before, KRaft is not for production.
_FIRST: Final = (3, 3, 0)


class Kraft:
    """The `System`; one object, without state."""

    name: Final = "kraft"
    default_version: Final = DEFAULT_VERSION
    listeners: Final = configuration.LISTENERS
    #: The raft layer goes first: its answers carry their epoch.
    subjects: Final = (RAFT, ACTIVE_CONTROLLER)
    interfaces: Final = frozenset({Interface.ELECTION, Interface.METADATA, Interface.PRODUCER_IDS, Interface.LOG})
    read_modes: Final[tuple[ReadMode, ...]] = (ReadMode.PLAIN,)
    guarantees: Final[tuple[Guarantee, ...]] = promises(DEFAULT_VERSION)

    def promises(self, version: str) -> tuple[Guarantee, ...]:
        return promises(version)

    def read_guarantee(self, mode: ReadMode) -> str:
        """Every node answers reads of settings from its own copy."""
        if mode not in self.read_modes:
            raise unknown_choice("read mode of kraft", mode.value, [m.value for m in self.read_modes])
        return "metadata-forward"

    def resolve(self, version: str) -> Artifacts:
        """`version` is a release or a folder of jars. Makes the start-up archive when there is none yet."""
        if versions.is_release(version):
            versions.refuse_old_java(find_java(), versions.java_needed(version), version)
        found, jars = server.found_jars(version, refuse=refuse)
        versions.refuse_old_java(find_java(), versions.java_level(jars), found)
        made = archive(_archive_name(found), server.archive_key(jars), lambda flags: train(found, jars, flags))
        return server.artifacts(found, jars, {"archive": made})

    def at_hand(self, version: str) -> bool:
        """Whether the jars and the start-up archive of this release are there already."""
        if not versions.are_fetched(version):
            return False
        jars = versions.jars(version)
        return existing_archive(_archive_name(version), server.archive_key(jars)) is not None

    def known_versions(self) -> tuple[str, ...]:
        return tuple(version for version in versions.known() if versions.numbers(version) >= _FIRST)

    def members(self, nodes: int, options: Mapping[str, object]) -> tuple[Member, ...]:
        return configuration.members(nodes, configuration.settings_of(options))

    @property
    def image_recipe(self) -> ImageRecipe:
        return recipe(self.name, DEFAULT_VERSION, refuse)

    def in_image(self, image: ImageFacts) -> Artifacts:
        return images.in_image(image, refuse=refuse, keeper=False)

    def options(self) -> dict[str, object]:
        return dict(configuration.DEFAULTS)

    def specs(
        self,
        layout: Layout,
        artifacts: Artifacts,
        options: Mapping[str, object],
        settings: Settings = NO_SETTINGS,
    ) -> list[NodeSpec]:
        own, given = configuration.settings_of(options), settings.get(self.name, {})
        return [configuration.spec(place, layout, artifacts, own, given) for place in layout.values()]

    def leadership(self, options: Mapping[str, object], version: str = "") -> LeadershipBound:
        return leadership_bound(version or DEFAULT_VERSION, configuration.settings_of(options)["fetch_ms"])

    async def ready(self, node: Node) -> bool:
        return await health.serves(node.place)

    async def healthy(self, layout: Layout) -> str | None:
        return await health.wrong(layout)

    async def open_client(
        self, place: Place, *, connect_timeout_s: float, options: Mapping[str, object] | None = None
    ) -> KafkaSession:
        return await open_session(place.dial(CLIENT_PORT), place.number, connect_timeout_s=connect_timeout_s)

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        brokers = [place for place in layout.values() if BROKER in place.roles]
        return await partition_leaders.partition_reigns(brokers, CLIENT_PORT, timeout_s)

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        brokers = [place for place in layout.values() if BROKER in place.roles]
        await partition_leaders.elect_preferred(brokers, CLIENT_PORT, timeout_s)

    def fixed_members(self, version: str, options: Mapping[str, object]) -> str | None:
        """`harness.systems.contract.membership.ChangesMembers`."""
        return membership.fixed(version, options)

    def wiped_members(self) -> str | None:
        return None

    def membership(self, layout: Layout, artifacts: Artifacts) -> KraftMembership:
        return KraftMembership(layout, artifacts.version)

    def question(self, place: Place, subject: str) -> Question | None:
        """Controllers about both layers; brokers about the raft layer, which tells whom they are attached to."""
        port = CONTROLLER_PORT if {CONTROLLER, BROKER} <= set(place.roles) else CLIENT_PORT
        if subject == RAFT:
            return QuorumQuestion(place.number, *place.dial(port), configuration.voter_name)
        if subject == ACTIVE_CONTROLLER and CONTROLLER in place.roles:
            return ControllerQuestion(place.number, *place.dial(port), configuration.voter_name)
        return None

    async def prepare(self, client: Any, keys: tuple[str, ...]) -> None:
        if not isinstance(client, KafkaSession):
            raise TypeError(f"expected a client that this system opened, got {type(client).__name__}")
        await client.prepare(keys)

    async def told_version(self, node: Node, *, log_from: int) -> str:
        return told_version.read(node.log, log_from)

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        return artifacts.version

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: Mapping[str, object], settings: Settings
    ) -> str | None:
        """A cluster's metadata.version is that of the release that it began as, which older ones do not know (KIP-778).

        It stays when nodes are newer, so that they can go back.
        """
        if told_version.is_older(to, start):
            return f"{to} does not know the metadata.version of a cluster that began as {start}; choose a newer release"
        return None

    def became_leader(self, line: str) -> int | None:
        return became_leader(line, Layer.RAFT)

    def fatal_line(self, line: str) -> str | None:
        return server.fatal_line(line)

    @property
    def settable(self) -> Mapping[str, str]:
        return {self.name: server_settings.ABOUT}

    def refuse_setting(self, of: str, key: str, options: Mapping[str, object]) -> str | None:
        return configuration.RESERVED.why(key)

    def refuse_settings(self, artifacts: Artifacts, settings: Settings) -> str | None:
        return server_settings.refuse_unknown(self.name, server.jars_of(artifacts), artifacts.version, settings)

    async def taken(self, node: Node, artifacts: Artifacts, settings: Settings) -> list[Taken]:
        place = node.place
        return await server_settings.taken(self.name, node, place.dial(CLIENT_PORT), server.PROPERTIES, settings)


def refuse(version: str) -> None:
    """Raise UsageError for a release without this mode."""
    if versions.numbers(version) < _FIRST:
        raise UsageError(
            f"Kafka {version} has no KRaft quorum fit for use", hint="choose 3.3.0 or later, or --system kafka-zk"
        )


def _archive_name(version: str) -> str:
    # A name of their own: the archives of many releases must not push out the default's.
    return "kraft" if version == DEFAULT_VERSION else "other-kraft"
