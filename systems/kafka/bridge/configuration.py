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
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server import storage, versions
from fencepost.systems.kafka.zookeeper_mode import configuration as zookeeper_mode
from fencepost.systems.zookeeper.options import ZooKeeperOptions

KEEPER: Final = zookeeper_mode.KEEPER
BROKER: Final = zookeeper_mode.BROKER
CONTROLLER: Final = "controller"
KEEPERS: Final = 3
CONTROLLERS: Final = 3
LISTENERS: Final[Mapping[str, int]] = {**zookeeper_mode.LISTENERS, "controller": CONTROLLER_PORT}
READY_TIMEOUT_S: Final = 60.0

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
    return server.node(
        place,
        in_kraft_mode(artifacts) if in_kraft else artifacts,
        {**properties(place, layout, artifacts.version, options, mode), **given.get(NAME, {})},
        {"client": CLIENT_PORT, "controller": CONTROLLER_PORT}
        if is_controller
        else {"client": CLIENT_PORT, "broker": BROKER_PORT},
        heap_mib=options.heap_mib,
        data_limit_mib=options.data_limit_mib,
        ready_timeout_s=READY_TIMEOUT_S,
        data_files=storage.data_files(place.number, artifacts.version, votes=True, cluster_id=cluster_id)
        if is_controller and cluster_id
        else {},
    )


def _broker(place: Place, layout: Layout, version: str, options: BridgeOptions, mode: Mode) -> dict[str, object]:
    copies = sum(BROKER in other.roles for other in layout.values())
    own: dict[str, object] = {
        "listeners": server.endpoints({"CLIENT": (place.address, CLIENT_PORT), "BROKER": (place.address, BROKER_PORT)}),
        "advertised.listeners": server.endpoints(
            {"CLIENT": place.dial(CLIENT_PORT), "BROKER": place.peer(BROKER_PORT)}
        ),
        "listener.security.protocol.map": _PROTOCOLS,
        "inter.broker.listener.name": "BROKER",
        **server.log(place, options.replica_lag, copies),
    }
    if mode is not Mode.KRAFT:
        own |= {
            "broker.id": place.number,
            "num.io.threads": server.IO_THREADS_AT_ZOOKEEPER,
            **server.at_zookeeper(_keepers(layout), options.zk_session),
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
        "listeners": server.endpoints(
            {"CONTROLLER": (place.address, CONTROLLER_PORT), "CLIENT": (place.address, CLIENT_PORT)}
        ),
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
            **server.at_zookeeper(_keepers(layout), options.controller_zk_session),
            "inter.broker.listener.name": "BROKER",
            MIGRATES: "true",
        }
    return own


def _quorum(layout: Layout, options: BridgeOptions) -> dict[str, object]:
    return {
        **server.controllers((place for place in layout.values() if CONTROLLER in place.roles), options),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.election.backoff.max.ms": options.election.ms,
    }


def _keepers(layout: Layout) -> list[Place]:
    return [place for place in layout.values() if KEEPER in place.roles]
