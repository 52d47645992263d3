"""A Kafka that migrates from ZooKeeper to KRaft as configuration: three ZooKeepers, brokers, three controllers.

ZooKeepers are z1, z2, z3, controllers c1, c2, c3, brokers b1, b2, ...; `broker.id` and `node.id` are the number of the
place. The cluster begins without controllers: their directories must have the cluster's id, which a broker draws first.

A server's mode is its configuration:
- brokers: ZooKeeper mode; migration mode, which is ZooKeeper mode with the address of the controllers; KRaft mode
- controllers: migration mode, with the address of ZooKeeper; KRaft mode, without it ("finalised")

A broker keeps its directory in every mode.

Source: Kafka 3.9 documentation, Operations, "ZooKeeper to KRaft Migration".
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.systems.kafka.bridge.options import BridgeOptions
from fencepost.systems.kafka.bridge.releases import NAME, in_kraft_mode
from fencepost.systems.kafka.names import BROKER_PORT, CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.server import images, storage, versions
from fencepost.systems.kafka.server import settings as server_settings
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.zookeeper_mode import configuration as zookeeper_mode
from fencepost.systems.zookeeper import configuration as zookeeper
from fencepost.systems.zookeeper import settings as keeper_settings
from fencepost.systems.zookeeper.options import ZooKeeperOptions

KEEPER: Final = zookeeper_mode.KEEPER
BROKER: Final = zookeeper_mode.BROKER
CONTROLLER: Final = "controller"
KEEPERS: Final = 3
CONTROLLERS: Final = 3
LISTENERS: Final[Mapping[str, int]] = {**zookeeper_mode.LISTENERS, "controller": CONTROLLER_PORT}
READY_TIMEOUT_S: Final = 60.0

RESERVED: Final = server_settings.reserved(
    {
        "zookeeper.session.timeout.ms": "zk_session",
        "controller.quorum.election.timeout.ms": "election",
        "controller.quorum.fetch.timeout.ms": "fetch",
        "controller.quorum.append.linger.ms": "append_linger",
        "metadata.max.idle.interval.ms": "idle_interval",
        "broker.session.timeout.ms": "broker_session",
        "broker.heartbeat.interval.ms": "broker_heartbeat",
        "replica.lag.time.max.ms": "replica_lag",
    }
)
KEEPERS_RESERVED: Final = keeper_settings.reserved(
    {"tickTime": "tick", "minSessionTimeout": "zk_session", "maxSessionTimeout": "controller_zk_session"}
)
MIGRATES: Final = "zookeeper.metadata.migration.enable"
_ACLS_IN_ZOOKEEPER: Final = "kafka.security.authorizer.AclAuthorizer"
_ACLS_IN_KRAFT: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PROTOCOLS: Final = "CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"


class Mode(StrEnum):
    """How a broker or controller is configured."""

    ZOOKEEPER = "zookeeper"
    MIGRATION = "migration"
    KRAFT = "kraft"


def members(options: BridgeOptions) -> tuple[Member, ...]:
    keepers = (
        Member(f"z{number}", (KEEPER,), dialled=("zookeeper",), serves=False) for number in range(1, KEEPERS + 1)
    )
    brokers = (Member(f"b{number}", (BROKER,), votes=False) for number in range(1, options.brokers + 1))
    controllers = (
        Member(f"c{number}", (CONTROLLER,), joins_later=True, serves=False) for number in range(1, CONTROLLERS + 1)
    )
    return (*keepers, *controllers, *brokers)


def name_of(number: int) -> str:
    """The node of this place's number; places are numbered in the order of `members`."""
    if number <= KEEPERS:
        return f"z{number}"
    after = number - KEEPERS
    return f"c{after}" if after <= CONTROLLERS else f"b{after - CONTROLLERS}"


def first_mode(place: Place) -> Mode:
    """The mode in which a server starts first."""
    return Mode.MIGRATION if CONTROLLER in place.roles else Mode.ZOOKEEPER


def spec(
    place: Place,
    layout: Layout,
    artifacts: Artifacts,
    options: BridgeOptions,
    given: Settings,
    *,
    mode: Mode,
    cluster_id: str = "",
) -> NodeSpec:
    """One node as data; `given` are a person's settings of Kafka and of ZooKeeper.

    Args:
        mode: of a broker or controller.
        cluster_id: a controller's directory gets it; "" when the directory is not to be made now.
    """
    if KEEPER in place.roles:
        own = ZooKeeperOptions(
            tick=options.tick, session_timeout=max(options.zk_session, options.controller_zk_session)
        )
        return zookeeper_mode.keeper(place, layout, artifacts, own, given, data_limit_mib=options.data_limit_mib)
    is_controller = CONTROLLER in place.roles
    properties = _controller if is_controller else _broker
    in_kraft = is_controller or mode is Mode.KRAFT
    return NodeSpec(
        name=place.name,
        argv=server.command(
            in_kraft_mode(artifacts) if in_kraft else artifacts,
            place.folder / server.PROPERTIES,
            heap_mib=options.heap_mib,
        ),
        listeners={"client": CLIENT_PORT, "controller": CONTROLLER_PORT}
        if is_controller
        else {"client": CLIENT_PORT, "broker": BROKER_PORT},
        roles=place.roles,
        files={
            server.PROPERTIES: server.properties(
                {**properties(place, layout, artifacts.version, options, mode), **given.get(NAME, {})}
            ),
            **images.log_files(artifacts),
        },
        data_files=storage.data_files(place.number, artifacts.version, votes=True, cluster_id=cluster_id)
        if is_controller and cluster_id
        else {},
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def _broker(place: Place, layout: Layout, version: str, options: BridgeOptions, mode: Mode) -> dict[str, object]:
    copies = sum(BROKER in other.roles for other in layout.values())
    own: dict[str, object] = {
        "listeners": f"CLIENT://{place.address}:{CLIENT_PORT},BROKER://{place.address}:{BROKER_PORT}",
        "advertised.listeners": f"CLIENT://{_at(place.dial(CLIENT_PORT))},BROKER://{_at(place.peer(BROKER_PORT))}",
        "listener.security.protocol.map": _PROTOCOLS,
        "inter.broker.listener.name": "BROKER",
        "log.dirs": place.data,
        "replica.lag.time.max.ms": options.replica_lag.ms,
        **server.group_coordinators(copies),
        **server.transaction_log(copies),
    }
    if mode is not Mode.KRAFT:
        own |= {
            "broker.id": place.number,
            # A broker that lost ZooKeeper keeps threads waiting inside of requests; with few of them it answers nobody.
            "num.io.threads": 32,
            **_zookeeper(layout, options.zk_session.ms),
            "inter.broker.protocol.version": ".".join(map(str, versions.numbers(version)[:2])),
        }
    if mode is not Mode.ZOOKEEPER:
        own |= _quorum(layout, options)
    if mode is Mode.MIGRATION:
        own[MIGRATES] = "true"
    if mode is Mode.KRAFT:
        own |= {
            "process.roles": "broker",
            "node.id": place.number,
            "broker.session.timeout.ms": options.broker_session.ms,
            "broker.heartbeat.interval.ms": options.broker_heartbeat.ms,
        }
    if options.authorizer:
        own |= server.authorizer(_ACLS_IN_KRAFT if mode is Mode.KRAFT else _ACLS_IN_ZOOKEEPER)
    return own


def _controller(place: Place, layout: Layout, version: str, options: BridgeOptions, mode: Mode) -> dict[str, object]:
    own: dict[str, object] = {
        "process.roles": "controller",
        "node.id": place.number,
        "listeners": f"CONTROLLER://{place.address}:{CONTROLLER_PORT},CLIENT://{place.address}:{CLIENT_PORT}",
        "listener.security.protocol.map": _PROTOCOLS,
        "log.dirs": place.data,
        **_quorum(layout, options),
        "controller.listener.names": "CONTROLLER,CLIENT",
        "metadata.max.idle.interval.ms": options.idle_interval.ms,
        "broker.session.timeout.ms": options.broker_session.ms,
        "broker.heartbeat.interval.ms": options.broker_heartbeat.ms,
        **(server.authorizer(_ACLS_IN_KRAFT) if options.authorizer else {}),
    }
    if mode is Mode.MIGRATION:
        own |= {
            **_zookeeper(layout, options.controller_zk_session.ms),
            "inter.broker.listener.name": "BROKER",
            MIGRATES: "true",
        }
    return own


def _quorum(layout: Layout, options: BridgeOptions) -> dict[str, object]:
    voters = [place for place in layout.values() if CONTROLLER in place.roles]
    return {
        "controller.quorum.voters": ",".join(f"{v.number}@{_at(v.peer(CONTROLLER_PORT))}" for v in voters),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.election.timeout.ms": options.election.ms,
        "controller.quorum.election.backoff.max.ms": options.election.ms,
        "controller.quorum.fetch.timeout.ms": options.fetch.ms,
        "controller.quorum.request.timeout.ms": options.fetch.ms,
        "controller.quorum.append.linger.ms": options.append_linger.ms,
    }


def _zookeeper(layout: Layout, session_ms: int) -> dict[str, object]:
    keepers = [place for place in layout.values() if KEEPER in place.roles]
    return {
        "zookeeper.connect": ",".join(_at(keeper.peer(zookeeper.CLIENT_PORT)) for keeper in keepers),
        "zookeeper.session.timeout.ms": session_ms,
        "zookeeper.connection.timeout.ms": 30_000,
    }


def _at(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"
