"""How a Kafka server starts: the class `kafka.Kafka`, its jars and flags, and the settings that all modes share.

The class runs directly, without the scripts of a distribution. Settings that differ from a production server, and why:
few threads, and index files of 4 KiB (every partition maps two, of 10 MB by default, and data lies in memory); no
cleaner and no group delay (nothing here compacts or consumes in groups); topics only on request. Logs go to stderr
through slf4j-simple.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.options import Duration, Options, keys_set_by
from fencepost.harness.contract.logs import Rows
from fencepost.harness.java.java_releases import IMAGE, java_command
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.names import CONTROLLER_PORT
from fencepost.systems.kafka.server import images
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT

MAIN_CLASS: Final = "kafka.Kafka"
PROPERTIES: Final = "server.properties"
#: Among the paths of the artifacts: the start-up archives of Kafka's servers and of ZooKeepers from the same jars.
ARCHIVE: Final = "archive"
KEEPER_ARCHIVE: Final = "keeper-archive"
#: In a migration that of servers in KRaft mode, beside that of brokers in ZooKeeper mode.
KRAFT_ARCHIVE: Final = "kraft-archive"

_JVM_FLAGS: Final = ("-Xms64m", "-Xss512k", *QUICK_FLAGS, "-Djava.net.preferIPv4Stack=true")
_SIMPLE_LOGGER: Final = "-Dorg.slf4j.simpleLogger."
#: The log at INFO, without lines that repeat the configuration or report every request to ZooKeeper.
_LOG_FLAGS: Final = (
    f"{_SIMPLE_LOGGER}defaultLogLevel=info",
    f"{_SIMPLE_LOGGER}showDateTime=true",
    f"{_SIMPLE_LOGGER}dateTimeFormat=HH:mm:ss.SSS",
    f"{_SIMPLE_LOGGER}showThreadName=false",
    f"{_SIMPLE_LOGGER}showShortLogName=true",
    *(f"{_SIMPLE_LOGGER}log.{name}=warn" for name in images.QUIET),
)
_QUORUM: Final = "controller.quorum."
#: They wait for ZooKeeper inside of requests: with a few of them a broker that lost it, or has just woken from a pause,
#: answers nobody meanwhile, not even whom it takes for the controller.
IO_THREADS_AT_ZOOKEEPER: Final = 32
#: For every mode and role.
_SHARED: Final[Mapping[str, object]] = {
    "num.network.threads": 1,
    "num.io.threads": 2,
    "num.replica.fetchers": 1,
    "background.threads": 1,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.enable": "false",
    "log.index.size.max.bytes": 4096,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    # Only faults may change the leader of a partition.
    "auto.leader.rebalance.enable": "false",
}
#: A server continues without the class and without what it does; it would only seem slow.
FAILED: Final[Rows[str]] = {
    r"(NoClassDefFoundError|UnsupportedClassVersionError)(: [\w/.$]+)?": lambda match: (
        f"a class is missing: {match[0]}"
    ),
    # The first line of the trace of a server that ends because it does not accept its configuration.
    r"^(?:Exception in thread .*)?org\.apache\.kafka\.common\.config\.ConfigException: (.+)": (
        lambda match: f"its configuration is refused: {match[1]}"
    ),
}


def properties(settings: Mapping[str, object]) -> str:
    """The configuration file of a server: the shared settings overlaid by its own."""
    return "".join(f"{name}={value}\n" for name, value in {**_SHARED, **settings}.items())


def transaction_log(copies: int) -> dict[str, object]:
    """The settings of the transaction log for this number of replicas.

    Three partitions are enough to spread a workload's transactional ids over the brokers. An acknowledged change is on
    all replicas but one. The server looks for abandoned transactions every second instead of every ten.
    """
    return {
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "transaction.state.log.num.partitions": 3,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    }


def group_coordinators(copies: int) -> dict[str, object]:
    """The settings of coordinators of groups for this number of replicas.

    Some partitions of their log are enough to spread a workload's groups over the brokers. Members may have short
    sessions, and the first generation of a group begins at once instead of after three seconds.
    """
    return {
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 6,
        "group.min.session.timeout.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
    }


def controllers(voters: Iterable[Place], options: Options) -> dict[str, object]:
    """Who the controllers are, and the settings of their quorum that options make."""
    quorum = {
        key: getattr(options, name) for key, name in keys_set_by(type(options)).items() if key.startswith(_QUORUM)
    }
    return {
        "controller.quorum.voters": ",".join(f"{v.number}@{at(v.peer(CONTROLLER_PORT))}" for v in voters),
        **{key: duration.ms for key, duration in quorum.items()},
        "controller.quorum.request.timeout.ms": quorum["controller.quorum.fetch.timeout.ms"].ms,
    }


def at_zookeeper(keepers: Iterable[Place], session: Duration) -> dict[str, object]:
    """The settings of a broker or controller with its metadata in ZooKeeper."""
    return {
        "zookeeper.connect": ",".join(at(keeper.peer(KEEPER_PORT)) for keeper in keepers),
        "zookeeper.session.timeout.ms": session.ms,
        "zookeeper.connection.timeout.ms": 30_000,
    }


def log(place: Place, replica_lag: Duration, copies: int) -> dict[str, object]:
    """Where a broker keeps its partitions, and the settings of those of its own."""
    return {
        "log.dirs": place.data,
        "replica.lag.time.max.ms": replica_lag.ms,
        **group_coordinators(copies),
        **transaction_log(copies),
    }


def endpoints(addresses: Mapping[str, tuple[str, int]]) -> str:
    """Listeners by Kafka's names as its settings write them."""
    return ",".join(f"{name}://{at(address)}" for name, address in addresses.items())


def at(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def authorizer(name: str) -> dict[str, object]:
    """The settings of a server that keeps ACLs: everybody who is not authenticated may do everything all the same."""
    return {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}


def command(
    artifacts: Artifacts,
    configuration: Path,
    *,
    heap_mib: int,
    main_class: str = MAIN_CLASS,
    more: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The command line of a server from these artifacts, in an image or not; `more` are further JVM flags."""
    java = java_command(artifacts, ARCHIVE if main_class == MAIN_CLASS else KEEPER_ARCHIVE)
    logs = images.log_flags(configuration.parent) if IMAGE in artifacts.paths else []
    flags = [*_JVM_FLAGS, f"-Xmx{heap_mib}m", *_LOG_FLAGS, *logs, *more]
    return (*java, *flags, "-cp", artifacts.paths["classpath"], main_class, str(configuration))


def in_kraft_mode(artifacts: Artifacts) -> Artifacts:
    """The same artifacts with the start-up archive of servers in KRaft mode, where there is one."""
    paths = {name: path for name, path in artifacts.paths.items() if name != ARCHIVE}
    made = artifacts.paths.get(KRAFT_ARCHIVE)
    return replace(artifacts, paths=paths if made is None else {**paths, ARCHIVE: made})


def program(main_class: str = MAIN_CLASS) -> tuple[str, ...]:
    """What the start-up archive of this program depends on."""
    return (*_JVM_FLAGS, main_class)
