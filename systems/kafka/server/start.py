"""How a Kafka server starts: the class `kafka.Kafka`, its jars and flags, and the settings that all modes share.

The class runs directly, without the scripts of a distribution. Settings that differ from a production server, and why:
few threads, and index files of 4 KiB (every partition maps two, of 10 MB by default, and data lies in memory); no
cleaner and no group delay (nothing here compacts or consumes in groups); topics only on request. Logs go to stderr
through slf4j-simple.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.artifacts import Artifacts, sha256_of
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS, Java, find_java, jar_parts
from fencepost.systems.kafka.server import images, versions
from fencepost.systems.kafka.wire.codec import require_library

MAIN_CLASS: Final = "kafka.Kafka"
PROPERTIES: Final = "server.properties"
DEFAULT_VERSION: Final = "4.3.1"

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
_FATAL: Final = re.compile(r"(NoClassDefFoundError|UnsupportedClassVersionError)(: [\w/.$]+)?")
#: The first line of the trace of a server that ends because it does not accept its configuration.
_REFUSED: Final = re.compile(r"(?:Exception in thread .*)?org\.apache\.kafka\.common\.config\.ConfigException: (.+)")


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


def authorizer(name: str) -> dict[str, object]:
    """The settings of a server that keeps ACLs: everybody who is not authenticated may do everything all the same."""
    return {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}


def _jvm_flags(heap_mib: int) -> list[str]:
    return [*_JVM_FLAGS, f"-Xmx{heap_mib}m", *_LOG_FLAGS]


def argv(
    java: Java,
    jars: list[Path],
    start_archive: Path | None,
    configuration: Path,
    *,
    heap_mib: int,
    main_class: str = MAIN_CLASS,
    more: tuple[str, ...] = (),
) -> list[str]:
    """The command line of a server whose configuration is this file; `more` are further JVM flags."""
    classpath = ":".join(map(str, jars))
    flags = [*_jvm_flags(heap_mib), *java.using(start_archive), *more]
    return [str(java.binary), *flags, "-cp", classpath, main_class, str(configuration)]


def command(
    artifacts: Artifacts,
    configuration: Path,
    *,
    heap_mib: int,
    main_class: str = MAIN_CLASS,
    more: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The command line of a server from these artifacts, in an image or not; `more` are further JVM flags."""
    if images.IMAGE in artifacts.paths:
        flags = [*_jvm_flags(heap_mib), *images.log_flags(configuration.parent), *more]
        java, classpath = artifacts.paths["java"], artifacts.paths["classpath"]
        return (java, *flags, "-cp", classpath, main_class, str(configuration))
    jars = [Path(jar) for jar in artifacts.paths["classpath"].split(":")]
    made = artifacts.paths.get("archive") if main_class == MAIN_CLASS else artifacts.paths.get("keeper-archive")
    start_archive = Path(made) if made else None
    return tuple(
        argv(find_java(), jars, start_archive, configuration, heap_mib=heap_mib, main_class=main_class, more=more)
    )


def jars_of(artifacts: Artifacts) -> list[Path]:
    """The jars that these servers run from; for an image those of the same release, none where it is unknown."""
    if images.IMAGE in artifacts.paths:
        return versions.jars(artifacts.version) if artifacts.version in versions.known() else []
    return [Path(jar) for jar in artifacts.paths["classpath"].split(":")]


def archive_key(jars: list[Path], main_class: str = MAIN_CLASS) -> list[str]:
    return [*_JVM_FLAGS, main_class, *jar_parts(jars)]


def found_jars(version: str, *, refuse: Callable[[str], None]) -> tuple[str, list[Path]]:
    """Version and jars of a release or of a folder. Raises UsageError or MachineError.

    `refuse` raises for a release that the mode does not have; it is asked before anything is fetched.
    """
    require_library()
    if Path(version).is_dir():
        release, jars = versions.given(Path(version).absolute())
        refuse(release)
    else:
        versions.refuse_word(version)
        refuse(version)
        versions.tell_what_is_left_out(version)
        release, jars = version, versions.jars(version)
    return release, jars


def artifacts(version: str, jars: list[Path], archives: Mapping[str, Path | None]) -> Artifacts:
    """The artifacts; `paths` are "java", "classpath" (jars joined by colons) and the start-up archives."""
    java = find_java()
    paths = {"java": str(java.binary), "classpath": ":".join(map(str, jars))}
    paths |= {name: str(path) for name, path in archives.items() if path is not None}
    sha256 = {jar.name: sha256_of(jar) for jar in jars} | {"java": sha256_of(java.binary)}
    return Artifacts(version=version, paths=paths, sha256=sha256)


def fatal_line(line: str) -> str | None:
    """Why a server will never serve, where this line of its log says so; else None."""
    missing = _FATAL.search(line)
    if missing is not None:
        return f"a class is missing: {missing.group()}"
    refused = _REFUSED.match(line)
    return f"its configuration is refused: {refused.group(1)}" if refused else None
