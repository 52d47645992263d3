"""A KRaft cluster as configuration: who its members are, its options, and the files of each node.

Controllers vote and are n1, n2, ...; brokers do not and are b1, b2, ... With `combined` there are only n1, n2, ...,
each controller and broker in one. `node.id` is the place's number.

Listeners: "controller" is where controllers and brokers dial controllers, "broker" where brokers dial brokers,
"client" is the harness's own on every node. A controller has two controller listeners for that; a combined node's
"client" is its broker, and its controller is asked at "controller".

Time-outs are a quarter or half of the defaults, so that an election takes a second; below 500 and 1000 ms a loaded
machine of two cores elects for ever (measured). `append_linger_ms` is 0, not 25: changes are then several times faster.
"""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.harness.systems.kafka.names import BROKER_PORT, CLIENT_PORT, CONTROLLER_PORT
from fencepost.harness.systems.kafka.server import images, storage
from fencepost.harness.systems.kafka.server import settings as server_settings
from fencepost.harness.systems.kafka.server import start as server
from fencepost.harness.systems.kafka.server.options import checked
from fencepost.harness.systems.kafka.server.versions import numbers

NAME: Final = "kraft"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "controller": CONTROLLER_PORT, "broker": BROKER_PORT}
READY_TIMEOUT_S: Final = 45.0
BROKERS_MAX: Final = 3

DEFAULTS: Final[Mapping[str, Any]] = {
    "brokers": 1,
    "combined": False,
    "election_ms": 500,
    "fetch_ms": 1000,
    "append_linger_ms": 0,
    "idle_interval_ms": 500,
    "broker_session_ms": 9000,
    "broker_heartbeat_ms": 2000,
    "replica_lag_ms": 30_000,
    "heap_mib": 256,
    "data_limit_mib": 256,
}
_LEAST: Final = {
    "brokers": 1,
    "election_ms": 500,
    "fetch_ms": 1000,
    "broker_session_ms": 500,
    "broker_heartbeat_ms": 100,
    "replica_lag_ms": 1000,
    "heap_mib": 128,
    "data_limit_mib": 64,
}
#: Keys that have an option: bounds follow from some, and others keep a small machine going.
RESERVED: Final = server_settings.reserved(
    {
        "controller.quorum.election.timeout.ms": "election_ms",
        "controller.quorum.fetch.timeout.ms": "fetch_ms",
        "controller.quorum.append.linger.ms": "append_linger_ms",
        "metadata.max.idle.interval.ms": "idle_interval_ms",
        "broker.session.timeout.ms": "broker_session_ms",
        "broker.heartbeat.interval.ms": "broker_heartbeat_ms",
        "replica.lag.time.max.ms": "replica_lag_ms",
    }
)
_LEADERS_NAME_THEMSELVES: Final = (3, 9, 0)
_PROTOCOLS: Final = "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT"


def settings_of(options: Mapping[str, object]) -> dict[str, Any]:
    """Defaults overlaid with `options`; raises UsageError for a name, type or value that is none."""
    settings = checked(NAME, options, DEFAULTS, _LEAST, most={"brokers": BROKERS_MAX})
    if settings["broker_heartbeat_ms"] >= settings["broker_session_ms"]:
        raise UsageError(
            f"kraft: broker_heartbeat_ms={settings['broker_heartbeat_ms']} is not below"
            f" broker_session_ms={settings['broker_session_ms']}",
            hint="a broker is fenced when it has not been heard of for broker_session_ms",
        )
    return settings


def members(nodes: int, settings: Mapping[str, Any]) -> tuple[Member, ...]:
    roles = (CONTROLLER, BROKER) if settings["combined"] else (CONTROLLER,)
    # A controller's "client" is its own; that of a combined node is its broker's.
    dialled = ("client", "controller") if settings["combined"] else ("client",)
    controllers = tuple(Member(voter_name(number), roles, dialled=dialled) for number in range(1, nodes + 1))
    if settings["combined"]:
        return controllers
    brokers = (Member(f"b{number}", (BROKER,), votes=False) for number in range(1, settings["brokers"] + 1))
    return (*controllers, *brokers)


def voter_name(number: int) -> str:
    """The node of a voter's id: voters are the first places, and places are numbered in the order of `members`."""
    return f"n{number}"


def spec(
    place: Place, layout: Layout, artifacts: Artifacts, settings: Mapping[str, Any], given: Mapping[str, str]
) -> NodeSpec:
    """One node of the cluster `layout` as data; `given` are a person's own keys of its configuration."""
    listeners = listeners_of(place)
    own = _properties(place, layout, listeners, artifacts.version, settings)
    return NodeSpec(
        name=place.name,
        argv=server.command(artifacts, place.folder / server.PROPERTIES, heap_mib=settings["heap_mib"]),
        listeners={name.lower(): port for name, port in listeners.items()},
        roles=place.roles,
        files={
            server.PROPERTIES: server.properties({**own, **given}),
            **images.log_files(artifacts),
        },
        data_files=storage.data_files(place.number, artifacts.version, votes=CONTROLLER in place.roles),
        data_limit_bytes=settings["data_limit_mib"] << 20,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def listeners_of(place: Place) -> dict[str, int]:
    """Kafka's names for them, with their ports."""
    own = {"CLIENT": CLIENT_PORT}
    if CONTROLLER in place.roles:
        own["CONTROLLER"] = CONTROLLER_PORT
    if BROKER in place.roles:
        own["BROKER"] = BROKER_PORT
    return own


def _properties(
    place: Place, layout: Layout, listeners: Mapping[str, int], version: str, settings: Mapping[str, Any]
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
        "controller.quorum.election.timeout.ms": settings["election_ms"],
        "controller.quorum.election.backoff.max.ms": settings["election_ms"] // 2,
        "controller.quorum.fetch.timeout.ms": settings["fetch_ms"],
        "controller.quorum.request.timeout.ms": settings["fetch_ms"],
        "controller.quorum.append.linger.ms": settings["append_linger_ms"],
        "metadata.max.idle.interval.ms": settings["idle_interval_ms"],
        "broker.session.timeout.ms": settings["broker_session_ms"],
        "broker.heartbeat.interval.ms": settings["broker_heartbeat_ms"],
        "replica.lag.time.max.ms": settings["replica_lag_ms"],
        "offsets.topic.replication.factor": copies,
        **server.transaction_log(copies),
    }
    if is_broker:
        own["inter.broker.listener.name"] = "BROKER"
    advertised = _advertised(place, version)
    if advertised:
        own["advertised.listeners"] = ",".join(f"{name}://{where}" for name, where in advertised.items())
    return own


def _listens_at(place: Place, port: int) -> int:
    """Where other nodes reach it; the harness's own listener is the same on every node."""
    return port if port == CLIENT_PORT else place.peer(port)[1]


def _advertised(place: Place, version: str) -> dict[str, str]:
    """What a node tells others of itself: brokers all they have; controllers where peers dial another host than theirs.

    Since KIP-853 a leader names its own endpoint to its voters; older releases refuse the setting of a controller.
    """
    told = {}
    if BROKER in place.roles:
        told = {"CLIENT": _at(place.dial(CLIENT_PORT)), "BROKER": _at(place.peer(BROKER_PORT))}
    if CONTROLLER in place.roles and place.host and numbers(version) >= _LEADERS_NAME_THEMSELVES:
        told["CONTROLLER"] = _at(place.peer(CONTROLLER_PORT))
    return told


def _at(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"
