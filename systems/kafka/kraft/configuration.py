"""A KRaft cluster as configuration: who its members are, and the files of each node.

Controllers vote and are n1, n2, ...; brokers do not and are b1, b2, ... With `combined` there are only n1, n2, ...,
each controller and broker in one. `node.id` is the place's number.

Listeners: "controller" is where controllers and brokers dial controllers, "broker" where brokers dial brokers,
"client" is the harness's own on every node. A controller has two controller listeners for that; a combined node's
"client" is its broker, and its controller is asked at "controller".
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.systems.kafka.kraft.options import BROKERS_MAX, KraftOptions
from fencepost.systems.kafka.names import BROKER_PORT, CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.server import images, storage
from fencepost.systems.kafka.server import settings as server_settings
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.versions import numbers

NAME: Final = "kraft"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "controller": CONTROLLER_PORT, "broker": BROKER_PORT}
READY_TIMEOUT_S: Final = 45.0

#: Keys that have an option: some decide bounds, others keep the load of a small machine low.
RESERVED: Final = server_settings.reserved(
    {
        "controller.quorum.election.timeout.ms": "election",
        "controller.quorum.fetch.timeout.ms": "fetch",
        "controller.quorum.append.linger.ms": "append_linger",
        "metadata.max.idle.interval.ms": "idle_interval",
        "broker.session.timeout.ms": "broker_session",
        "broker.heartbeat.interval.ms": "broker_heartbeat",
        "replica.lag.time.max.ms": "replica_lag",
    }
)
_LEADERS_NAME_THEMSELVES: Final = (3, 9, 0)
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PROTOCOLS: Final = "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT"


def members(nodes: int, options: KraftOptions) -> tuple[Member, ...]:
    roles = (CONTROLLER, BROKER) if options.combined else (CONTROLLER,)
    # A controller's "client" is its own; that of a combined node is its broker's.
    dialled = ("client", "controller") if options.combined else ("client",)
    controllers = tuple(
        Member(voter_name(number), roles, dialled=dialled, serves=options.combined) for number in range(1, nodes + 1)
    )
    if options.combined:
        return controllers
    numbers = range(1, options.brokers + 1)
    brokers = (Member(f"b{number}", (BROKER,), votes=False) for number in numbers)
    return (*controllers, *brokers)


def voter_name(number: int) -> str:
    """The node with this voter's id: voters come first, and nodes are numbered in the order of `members`."""
    return f"n{number}"


def spec(
    place: Place, layout: Layout, artifacts: Artifacts, options: KraftOptions, given: Mapping[str, str]
) -> NodeSpec:
    """One node of the cluster `layout` as data; `given` are the keys of `--set`."""
    listeners = listeners_of(place)
    own = _properties(place, layout, listeners, artifacts.version, options)
    return NodeSpec(
        name=place.name,
        argv=server.command(artifacts, place.folder / server.PROPERTIES, heap_mib=options.heap_mib),
        listeners={name.lower(): port for name, port in listeners.items()},
        roles=place.roles,
        files={
            server.PROPERTIES: server.properties({**own, **given}),
            **images.log_files(artifacts),
        },
        data_files=storage.data_files(place.number, artifacts.version, votes=CONTROLLER in place.roles),
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def listeners_of(place: Place) -> dict[str, int]:
    """The node's listeners by Kafka's names, with their ports."""
    own = {"CLIENT": CLIENT_PORT}
    if CONTROLLER in place.roles:
        own["CONTROLLER"] = CONTROLLER_PORT
    if BROKER in place.roles:
        own["BROKER"] = BROKER_PORT
    return own


def _properties(
    place: Place, layout: Layout, listeners: Mapping[str, int], version: str, options: KraftOptions
) -> dict[str, object]:
    voters = [other for other in layout.values() if CONTROLLER in other.roles]
    brokers = [other for other in layout.values() if BROKER in other.roles]
    copies = min(len(brokers), BROKERS_MAX)
    is_broker = BROKER in place.roles
    own: dict[str, object] = {
        "process.roles": ",".join(place.roles),
        "node.id": place.number,
        "controller.quorum.voters": ",".join(f"{v.number}@{_at(v.peer(CONTROLLER_PORT))}" for v in voters),
        "listeners": ",".join(
            f"{name}://{place.address}:{_listens_at(place, port)}" for name, port in listeners.items()
        ),
        "controller.listener.names": "CONTROLLER" if is_broker else "CONTROLLER,CLIENT",
        "listener.security.protocol.map": _PROTOCOLS,
        "log.dirs": place.data,
        "controller.quorum.election.timeout.ms": options.election.ms,
        "controller.quorum.election.backoff.max.ms": options.election.ms // 2,
        "controller.quorum.fetch.timeout.ms": options.fetch.ms,
        "controller.quorum.request.timeout.ms": options.fetch.ms,
        "controller.quorum.append.linger.ms": options.append_linger.ms,
        "metadata.max.idle.interval.ms": options.idle_interval.ms,
        "broker.session.timeout.ms": options.broker_session.ms,
        "broker.heartbeat.interval.ms": options.broker_heartbeat.ms,
        "replica.lag.time.max.ms": options.replica_lag.ms,
        **(server.authorizer(_AUTHORIZER) if options.authorizer else {}),
        **server.group_coordinators(copies),
        **server.transaction_log(copies),
    }
    if is_broker:
        own["inter.broker.listener.name"] = "BROKER"
    advertised = _advertised(place, version)
    if advertised:
        own["advertised.listeners"] = ",".join(f"{name}://{where}" for name, where in advertised.items())
    return own


def _listens_at(place: Place, port: int) -> int:
    """The port that the server binds; the harness's own listener has the same port on every node."""
    return port if port == CLIENT_PORT else place.peer(port)[1]


def _advertised(place: Place, version: str) -> dict[str, str]:
    """The endpoints that a node advertises: all of a broker; a controller's where peers dial another host than its own.

    Since KIP-853 a leader names its own endpoint to its voters; older releases refuse this setting for a controller.
    """
    endpoints = {}
    if BROKER in place.roles:
        endpoints = {"CLIENT": _at(place.dial(CLIENT_PORT)), "BROKER": _at(place.peer(BROKER_PORT))}
    if CONTROLLER in place.roles and place.host and numbers(version) >= _LEADERS_NAME_THEMSELVES:
        endpoints["CONTROLLER"] = _at(place.peer(CONTROLLER_PORT))
    return endpoints


def _at(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"
