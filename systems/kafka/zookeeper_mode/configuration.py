"""Kafka in ZooKeeper mode as configuration: brokers on a ZooKeeper of three, all from Kafka's own jars.

ZooKeepers vote and are z1, z2, z3; brokers do not and are b1, b2, ... (as many as the plan has nodes). `broker.id` is
the place's number. Brokers listen for the harness ("client") and for one another ("broker"); they and the harness dial
ZooKeeper at "zookeeper".
"""

import re
from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place
from fencepost.systems.kafka.names import BROKER as BROKER
from fencepost.systems.kafka.names import BROKER_PORT, CLIENT_PORT
from fencepost.systems.kafka.server import images
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.kafka.zookeeper_mode.options import KafkaZkOptions
from fencepost.systems.zookeeper import configuration as zookeeper
from fencepost.systems.zookeeper.options import ZooKeeperOptions

NAME: Final = "kafka-zk"
KEEPER: Final = "zookeeper"
KEEPERS: Final = 3
#: "client" is a broker's for the harness; "zookeeper" is dialled by brokers and by the harness.
LISTENERS: Final[Mapping[str, int]] = {
    "client": CLIENT_PORT,
    "broker": BROKER_PORT,
    "zookeeper": zookeeper.CLIENT_PORT,
    "peer": zookeeper.PEER_PORT,
    "election": zookeeper.ELECTION_PORT,
}
#: What only the members dial that name it.
KEEPER_CLASS: Final = zookeeper.MAIN_CLASS
READY_TIMEOUT_S: Final = 45.0
_KEEPER_CONFIGURATION: Final = "zoo.cfg"
_KEEPER_HEAP_MIB: Final = 128
_REPLICAS_MAX: Final = 3

_KEEPER_JAR: Final = re.compile(r"zookeeper-(\d+\.\d+\.\d+)\.jar")
_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_PROTOCOLS: Final = "CLIENT:PLAINTEXT,BROKER:PLAINTEXT"


def members(nodes: int, options: KafkaZkOptions) -> tuple[Member, ...]:
    keepers = (
        Member(f"z{number}", (KEEPER,), dialled=("zookeeper",), serves=False) for number in range(1, KEEPERS + 1)
    )
    brokers = (Member(f"b{number}", (BROKER,), votes=False) for number in range(1, nodes + 1))
    return (*keepers, *brokers)


def name_of(number: int) -> str:
    """The node of this place's number; places are numbered in the order of `members`."""
    return f"z{number}" if number <= KEEPERS else f"b{number - KEEPERS}"


def keeper_version(artifacts: Artifacts) -> str:
    """The release of the ZooKeeper among Kafka's jars; "unknown" where they do not say."""
    matches = (_KEEPER_JAR.fullmatch(jar.name) for jar in JARS.of(artifacts))
    return next((match.group(1) for match in matches if match), "unknown")


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: KafkaZkOptions, given: Settings) -> NodeSpec:
    """One node of the cluster `layout` as data; `given` are a person's own settings of brokers and ZooKeepers."""
    if KEEPER in place.roles:
        keepers_own = ZooKeeperOptions(tick=options.tick, session_timeout=options.zk_session)
        return keeper(place, layout, artifacts, keepers_own, given, data_limit_mib=options.data_limit_mib)
    own = _broker_properties(place, layout, options)
    return server.node(
        place,
        artifacts,
        {**own, **given.get(NAME, {})},
        {"client": CLIENT_PORT, "broker": BROKER_PORT},
        heap_mib=options.heap_mib,
        data_limit_mib=options.data_limit_mib,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def keeper(
    place: Place,
    layout: Layout,
    artifacts: Artifacts,
    options: ZooKeeperOptions,
    given: Settings,
    *,
    data_limit_mib: int,
) -> NodeSpec:
    """A ZooKeeper from Kafka's own jars as data; `options` are its ticks and its longest session."""
    servers = {
        p.number: ":".join(map(str, (*p.peer(zookeeper.PEER_PORT), p.peer(zookeeper.ELECTION_PORT)[1])))
        for p in layout.values()
        if KEEPER in p.roles
    }
    # Brokers and the harness come in by the one port that a server has for clients.
    port = place.peer(zookeeper.CLIENT_PORT)[1]
    configuration = zookeeper.zoo_cfg(
        address=place.address,
        client_port=port,
        data=place.data,
        servers=servers,
        options=options,
        settings=given,
    )
    return NodeSpec(
        name=place.name,
        argv=server.command(
            artifacts,
            place.folder / _KEEPER_CONFIGURATION,
            heap_mib=_KEEPER_HEAP_MIB,
            main_class=KEEPER_CLASS,
            more=zookeeper.jvm_flags(given),
        ),
        listeners={
            "zookeeper": zookeeper.CLIENT_PORT,
            "peer": zookeeper.PEER_PORT,
            "election": zookeeper.ELECTION_PORT,
        },
        roles=place.roles,
        files={_KEEPER_CONFIGURATION: configuration, **images.log_files(artifacts)},
        data_files={"myid": f"{place.number}\n"},
        data_limit_bytes=data_limit_mib << 20,
        ready_timeout_s=READY_TIMEOUT_S,
    )


def _broker_properties(place: Place, layout: Layout, options: KafkaZkOptions) -> dict[str, object]:
    keepers = [other for other in layout.values() if KEEPER in other.roles]
    copies = min(len(layout) - len(keepers), _REPLICAS_MAX)
    listeners = {"CLIENT": CLIENT_PORT, "BROKER": place.peer(BROKER_PORT)[1]}
    return {
        "broker.id": place.number,
        "num.io.threads": server.IO_THREADS_AT_ZOOKEEPER,
        **server.at_zookeeper(keepers, options.zk_session),
        "listeners": server.endpoints({name: (place.address, port) for name, port in listeners.items()}),
        "advertised.listeners": server.endpoints(
            {"CLIENT": place.dial(CLIENT_PORT), "BROKER": place.peer(BROKER_PORT)}
        ),
        "listener.security.protocol.map": _PROTOCOLS,
        "inter.broker.listener.name": "BROKER",
        **(server.authorizer(_AUTHORIZER) if options.authorizer else {}),
        **server.log(place, options.replica_lag, copies),
    }
