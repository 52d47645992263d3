"""A cluster of Kafka as configuration: who its members are, and the files of each node in every mode.

Three systems differ in their members alone: `kraft` has controllers n1, n2, ... and brokers b1, b2, ... (with
`combined` only n1, n2, ..., each both in one); `kafka-zk` has ZooKeepers z1, z2, z3 from Kafka's own jars, and brokers;
`kafka-bridge` has ZooKeepers, controllers c1, c2, c3 and brokers, and begins without its controllers: their directories
must have the cluster's id, which a broker draws first. `broker.id` and `node.id` are the number of the place.

A server's mode is its configuration, and a broker keeps its directory in every mode:
- brokers: ZooKeeper mode; migration mode, which is ZooKeeper mode with the address of the controllers; KRaft mode
- controllers: migration mode, with the address of ZooKeeper; KRaft mode, without it ("finalised")

Listeners: "controller" is where controllers and brokers dial controllers, "broker" where brokers dial brokers, "client"
is the harness's own on every server. A controller has two controller listeners for that; a combined node's "client" is
its broker, and its controller is asked at "controller". Brokers and the harness dial ZooKeeper at "zookeeper".

Source: Kafka 3.9 documentation, Operations, "ZooKeeper to KRaft Migration".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.systems.kafka.names import BROKER as BROKER
from fencepost.systems.kafka.names import BROKER_PORT, CLIENT_PORT, CLUSTER_ID, CONTROLLER_PORT
from fencepost.systems.kafka.server import images, storage
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.versions import JARS, numbers
from fencepost.systems.zookeeper import configuration as zookeeper
from fencepost.systems.zookeeper.options import ZooKeeperOptions

CONTROLLER: Final = "controller"
KEEPER: Final = "zookeeper"
#: ZooKeepers, and the controllers of a migration.
KEEPERS: Final = 3
CONTROLLERS: Final = 3
#: Of the topics that servers make for themselves.
REPLICAS_MAX: Final = 3
MIGRATES: Final = "zookeeper.metadata.migration.enable"

_KEEPER_PORTS: Final = {
    "zookeeper": zookeeper.CLIENT_PORT,
    "peer": zookeeper.PEER_PORT,
    "election": zookeeper.ELECTION_PORT,
}
_KEEPER_CONFIGURATION: Final = "zoo.cfg"
_KEEPER_HEAP_MIB: Final = 128
_READY_TIMEOUT_S: Final = 45.0
_KEEPER_JAR: Final = re.compile(r"zookeeper-(\d+\.\d+\.\d+)\.jar")
_ACLS_IN_ZOOKEEPER: Final = "kafka.security.authorizer.AclAuthorizer"
_ACLS_IN_KRAFT: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Mode(StrEnum):
    """How a broker or controller is configured."""

    ZOOKEEPER = "zookeeper"
    MIGRATION = "migration"
    KRAFT = "kraft"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What the clusters of one system have in common; `ports` are those of its servers, by Kafka's listener."""

    name: str
    ports: Mapping[str, int]
    keepers: bool
    migrates: bool = False
    ready_timeout_s: float = _READY_TIMEOUT_S

    @property
    def listeners(self) -> dict[str, int]:
        own = {name.lower(): port for name, port in self.ports.items()}
        return {**own, **_KEEPER_PORTS} if self.keepers else own

    def node_name(self, number: int) -> str:
        """The node of this place's number; places are numbered in the order of the members."""
        names = [f"z{n}" for n in range(1, KEEPERS + 1)] if self.keepers else []
        if self.migrates:
            names += [f"c{n}" for n in range(1, CONTROLLERS + 1)]
        if number <= len(names):
            return names[number - 1]
        return f"{'b' if self.keepers else 'n'}{number - len(names)}"

    def spec(
        self,
        place: Place,
        layout: Layout,
        artifacts: Artifacts,
        options: Any,
        given: Settings,
        *,
        mode: Mode | None = None,
        cluster_id: str = "",
    ) -> NodeSpec:
        """One node as data; `given` are a person's settings of Kafka and of ZooKeeper.

        Args:
            options: those of the system.
            mode: of a broker or controller; None: the one in which it starts first.
            cluster_id: in a migration a controller's directory gets it; "" when that is not to be made now.
        """
        if KEEPER in place.roles:
            return _keeper(place, layout, artifacts, options, given)
        one = _Server(self, place, layout, artifacts.version, options, mode or self.first_mode(place))
        formatted = CLUSTER_ID if not self.keepers else cluster_id
        data_files = (
            storage.data_files(place.number, artifacts.version, votes=one.is_controller, cluster_id=formatted)
            if formatted
            else {}
        )
        return NodeSpec(
            name=place.name,
            argv=server.command(
                server.in_kraft_mode(artifacts) if self.migrates and one.in_kraft else artifacts,
                place.folder / server.PROPERTIES,
                heap_mib=options.heap_mib,
            ),
            listeners={name.lower(): port for name, port in one.ports().items()},
            roles=place.roles,
            files={
                server.PROPERTIES: server.properties({**one.properties(), **given.get(self.name, {})}),
                **images.log_files(artifacts),
            },
            data_files=data_files,
            data_limit_bytes=options.data_limit_mib << 20,
            ready_timeout_s=self.ready_timeout_s,
        )

    def first_mode(self, place: Place) -> Mode:
        """The mode in which a server starts first."""
        if not self.keepers:
            return Mode.KRAFT
        return Mode.MIGRATION if CONTROLLER in place.roles else Mode.ZOOKEEPER


KRAFT: Final = Deployment(
    name="kraft", ports={"CLIENT": CLIENT_PORT, "CONTROLLER": CONTROLLER_PORT, "BROKER": BROKER_PORT}, keepers=False
)
ZOOKEEPER_MODE: Final = Deployment(name="kafka-zk", ports={"CLIENT": CLIENT_PORT, "BROKER": BROKER_PORT}, keepers=True)
BRIDGE: Final = Deployment(
    name="kafka-bridge",
    ports={"CLIENT": CLIENT_PORT, "BROKER": BROKER_PORT, "CONTROLLER": CONTROLLER_PORT},
    keepers=True,
    migrates=True,
    ready_timeout_s=60.0,
)


def keepers() -> tuple[Member, ...]:
    numbers = range(1, KEEPERS + 1)
    return tuple(Member(f"z{number}", (KEEPER,), dialled=("zookeeper",), serves=False) for number in numbers)


def brokers(count: int) -> tuple[Member, ...]:
    return tuple(Member(f"b{number}", (BROKER,), votes=False) for number in range(1, count + 1))


def controllers_that_join() -> tuple[Member, ...]:
    numbers = range(1, CONTROLLERS + 1)
    return tuple(Member(f"c{number}", (CONTROLLER,), joins_later=True, serves=False) for number in numbers)


def controllers(nodes: int, *, combined: bool) -> tuple[Member, ...]:
    roles = (CONTROLLER, BROKER) if combined else (CONTROLLER,)
    # A controller's "client" is its own; that of a combined node is its broker's.
    dialled = ("client", "controller") if combined else ("client",)
    return tuple(Member(f"n{number}", roles, dialled=dialled, serves=combined) for number in range(1, nodes + 1))


def of_role(layout: Layout, role: str) -> list[Place]:
    return [place for place in layout.values() if role in place.roles]


def keeper_version(artifacts: Artifacts) -> str:
    """The release of the ZooKeeper among Kafka's jars; "unknown" where they do not say."""
    matches = (_KEEPER_JAR.fullmatch(jar.name) for jar in JARS.of(artifacts))
    return next((match.group(1) for match in matches if match), "unknown")


@dataclass(frozen=True, slots=True)
class _Server:
    """A broker or controller; each method is a piece of its properties."""

    of: Deployment
    place: Place
    layout: Layout
    version: str
    options: Any
    mode: Mode

    def properties(self) -> dict[str, object]:
        """All pieces, in the order of the file."""
        pieces: tuple[dict[str, object], ...]
        if not self.of.keepers:
            pieces = (
                *(self.node_id(), self.voters(), self.backoff(), self.listens(), self.controller_names()),
                *(self.protocols(), self.idle(), self.sessions(), self.log(), self.acls(), self.between_brokers()),
                self.advertised(),
            )
        elif not self.of.migrates:
            pieces = (
                *(self.broker_id(), self.zookeeper(), self.listens(), self.advertised(), self.protocols()),
                *(self.between_brokers(), self.acls(), self.log()),
            )
        elif self.is_controller:
            pieces = (
                *(self.node_id(), self.listens(), self.protocols(), self.data(), self.voters()),
                *(self.controller_names(), self.backoff(), self.idle(), self.sessions(), self.acls()),
                *(self.zookeeper(), self.between_brokers(), self.migrates()),
            )
        else:
            pieces = (
                *(self.listens(), self.advertised(), self.protocols(), self.between_brokers(), self.log()),
                *(self.broker_id(), self.zookeeper(), self.protocol(), self.voters(), self.controller_names()),
                *(self.backoff(), self.migrates(), self.node_id(), self.sessions(), self.acls()),
            )
        return {key: value for piece in pieces for key, value in piece.items()}

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.place.roles

    @property
    def is_broker(self) -> bool:
        return BROKER in self.place.roles

    @property
    def in_kraft(self) -> bool:
        return self.is_controller or self.mode is Mode.KRAFT

    def ports(self) -> dict[str, int]:
        """The server's listeners by Kafka's names."""
        names = {"CLIENT", *(role.upper() for role in self.place.roles)}
        return {name: port for name, port in self.of.ports.items() if name in names}

    def node_id(self) -> dict[str, object]:
        if not self.in_kraft:
            return {}
        return {"process.roles": ",".join(self.place.roles), "node.id": self.place.number}

    def broker_id(self) -> dict[str, object]:
        if self.in_kraft:
            return {}
        return {"broker.id": self.place.number, "num.io.threads": server.IO_THREADS_AT_ZOOKEEPER}

    def voters(self) -> dict[str, object]:
        knows = self.mode is not Mode.ZOOKEEPER
        return server.controllers(of_role(self.layout, CONTROLLER), self.options) if knows else {}

    def controller_names(self) -> dict[str, object]:
        if self.mode is Mode.ZOOKEEPER:
            return {}
        return {"controller.listener.names": "CONTROLLER" if self.is_broker else "CONTROLLER,CLIENT"}

    def backoff(self) -> dict[str, object]:
        if self.mode is Mode.ZOOKEEPER:
            return {}
        longest_ms = self.options.election.ms
        return {"controller.quorum.election.backoff.max.ms": longest_ms if self.of.migrates else longest_ms // 2}

    def zookeeper(self) -> dict[str, object]:
        if self.mode is Mode.KRAFT:
            return {}
        session = self.options.controller_zk_session if self.is_controller else self.options.zk_session
        return server.at_zookeeper(of_role(self.layout, KEEPER), session)

    def protocol(self) -> dict[str, object]:
        """What a broker that may migrate says of itself."""
        if self.in_kraft:
            return {}
        return {"inter.broker.protocol.version": ".".join(map(str, numbers(self.version)[:2]))}

    def migrates(self) -> dict[str, object]:
        return {MIGRATES: "true"} if self.mode is Mode.MIGRATION else {}

    def listens(self) -> dict[str, object]:
        ports = self.ports()
        names = reversed(ports) if self.is_controller and self.of.migrates else ports
        return {"listeners": server.endpoints({name: (self.place.address, ports[name]) for name in names})}

    def advertised(self) -> dict[str, object]:
        """All endpoints of a broker; peers dial a controller where it listens."""
        if not self.is_broker:
            return {}
        endpoints = {"CLIENT": self.place.dial(CLIENT_PORT), "BROKER": self.place.peer(BROKER_PORT)}
        return {"advertised.listeners": server.endpoints(endpoints)}

    def protocols(self) -> dict[str, object]:
        return {"listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in self.of.ports)}

    def between_brokers(self) -> dict[str, object]:
        return {"inter.broker.listener.name": "BROKER"} if self.is_broker or self.mode is Mode.MIGRATION else {}

    def idle(self) -> dict[str, object]:
        return {"metadata.max.idle.interval.ms": self.options.idle_interval.ms}

    def sessions(self) -> dict[str, object]:
        if not self.in_kraft:
            return {}
        return {
            "broker.session.timeout.ms": self.options.broker_session.ms,
            "broker.heartbeat.interval.ms": self.options.broker_heartbeat.ms,
        }

    def data(self) -> dict[str, object]:
        return {"log.dirs": self.place.data}

    def log(self) -> dict[str, object]:
        copies = min(len(of_role(self.layout, BROKER)), REPLICAS_MAX)
        return server.log(self.place, self.options.replica_lag, copies)

    def acls(self) -> dict[str, object]:
        name = _ACLS_IN_KRAFT if self.in_kraft else _ACLS_IN_ZOOKEEPER
        return server.authorizer(name) if self.options.authorizer else {}


def _keeper(place: Place, layout: Layout, artifacts: Artifacts, options: Any, given: Settings) -> NodeSpec:
    """A ZooKeeper from Kafka's own jars as data."""
    session = max(options.zk_session, getattr(options, "controller_zk_session", options.zk_session))
    servers = {
        p.number: ":".join(map(str, (*p.peer(zookeeper.PEER_PORT), p.peer(zookeeper.ELECTION_PORT)[1])))
        for p in of_role(layout, KEEPER)
    }
    configuration = zookeeper.zoo_cfg(
        address=place.address,
        # Brokers and the harness come in by the one port that a server has for clients.
        client_port=place.peer(zookeeper.CLIENT_PORT)[1],
        data=place.data,
        servers=servers,
        options=ZooKeeperOptions(tick=options.tick, session_timeout=session),
        settings=given,
    )
    return NodeSpec(
        name=place.name,
        argv=server.command(
            artifacts,
            place.folder / _KEEPER_CONFIGURATION,
            heap_mib=_KEEPER_HEAP_MIB,
            main_class=zookeeper.MAIN_CLASS,
            more=zookeeper.jvm_flags(given),
        ),
        listeners=_KEEPER_PORTS,
        roles=place.roles,
        files={_KEEPER_CONFIGURATION: configuration, **images.log_files(artifacts)},
        data_files={"myid": f"{place.number}\n"},
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=_READY_TIMEOUT_S,
    )
