"""A KRaft cluster as configuration: who its members are, and the files of each node.

Controllers vote and are n1, n2, ...; brokers do not and are b1, b2, ... With `combined` there are only n1, n2, ...,
each controller and broker in one. `node.id` is the place's number.

Listeners: "controller" is where controllers and brokers dial controllers, "broker" where brokers dial brokers,
"client" is the harness's own on every node. A controller has two controller listeners for that; a combined node's
"client" is its broker, and its controller is asked at "controller".
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.systems.kafka.kraft.options import BROKERS_MAX, KraftOptions
from fencepost.systems.kafka.names import BROKER as BROKER
from fencepost.systems.kafka.names import BROKER_PORT, CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server import storage
from fencepost.systems.kafka.server.versions import numbers

NAME: Final = "kraft"
CONTROLLER: Final = "controller"
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "controller": CONTROLLER_PORT, "broker": BROKER_PORT}
READY_TIMEOUT_S: Final = 45.0

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


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: KraftOptions, given: Settings) -> NodeSpec:
    """One node of the cluster `layout` as data; `given` are the settings of `--set`."""
    listeners = listeners_of(place)
    own = _properties(place, layout, listeners, artifacts.version, options)
    return server.node(
        place,
        artifacts,
        {**own, **given.get(NAME, {})},
        {name.lower(): port for name, port in listeners.items()},
        heap_mib=options.heap_mib,
        data_limit_mib=options.data_limit_mib,
        ready_timeout_s=READY_TIMEOUT_S,
        data_files=storage.data_files(place.number, artifacts.version, votes=CONTROLLER in place.roles),
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
        **server.controllers(voters, options),
        "controller.quorum.election.backoff.max.ms": options.election.ms // 2,
        "listeners": server.endpoints(
            {name: (place.address, _listens_at(place, port)) for name, port in listeners.items()}
        ),
        "controller.listener.names": "CONTROLLER" if is_broker else "CONTROLLER,CLIENT",
        "listener.security.protocol.map": _PROTOCOLS,
        "metadata.max.idle.interval.ms": options.idle_interval.ms,
        "broker.session.timeout.ms": options.broker_session.ms,
        "broker.heartbeat.interval.ms": options.broker_heartbeat.ms,
        **server.log(place, options.replica_lag, copies),
        **(server.authorizer(_AUTHORIZER) if options.authorizer else {}),
    }
    if is_broker:
        own["inter.broker.listener.name"] = "BROKER"
    advertised = _advertised(place, version)
    if advertised:
        own["advertised.listeners"] = server.endpoints(advertised)
    return own


def _listens_at(place: Place, port: int) -> int:
    """The port that the server binds; the harness's own listener has the same port on every node."""
    return port if port == CLIENT_PORT else place.peer(port)[1]


def _advertised(place: Place, version: str) -> dict[str, tuple[str, int]]:
    """The endpoints that a node advertises: all of a broker; a controller's where peers dial another host than its own.

    Since KIP-853 a leader names its own endpoint to its voters; older releases refuse this setting for a controller.
    """
    endpoints = {}
    if BROKER in place.roles:
        endpoints = {"CLIENT": place.dial(CLIENT_PORT), "BROKER": place.peer(BROKER_PORT)}
    if CONTROLLER in place.roles and place.host and numbers(version) >= _LEADERS_NAME_THEMSELVES:
        endpoints["CONTROLLER"] = place.peer(CONTROLLER_PORT)
    return endpoints
