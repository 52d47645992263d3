"""How a Kafka server starts: its class `kafka.Kafka` run directly, jars, flags and the settings that all modes share.

No shell distribution is needed. Settings that are not a production server's, and why: few threads and index files of
4 KiB (every partition maps two, of 10 MB by default, and data lies in memory), no cleaner and no group delay (nothing
here compacts or consumes in groups), topics only where they are asked for. Logs go to stderr through slf4j-simple.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.artifacts import Artifacts, sha256_of
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS, Java, find_java, jar_parts
from fencepost.harness.systems.kafka.server import images, versions

MAIN_CLASS: Final = "kafka.Kafka"
PROPERTIES: Final = "server.properties"
DEFAULT_VERSION: Final = "4.3.1"

_JVM_FLAGS: Final = ("-Xms64m", "-Xss512k", *QUICK_FLAGS, "-Djava.net.preferIPv4Stack=true")
_SIMPLE_LOGGER: Final = "-Dorg.slf4j.simpleLogger."
#: The log at INFO, less what repeats the configuration and a line for every question that ZooKeeper is asked.
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
    # Who leads a partition is to change by faults alone.
    "auto.leader.rebalance.enable": "false",
}
#: A server goes on without the class, and without what it was for: it would only seem slow.
_FATAL: Final = re.compile(r"(NoClassDefFoundError|UnsupportedClassVersionError)(: [\w/.$]+)?")
#: The first line of the trace with which a server ends that does not accept its configuration.
_REFUSED: Final = re.compile(r"(?:Exception in thread .*)?org\.apache\.kafka\.common\.config\.ConfigException: (.+)")


def properties(settings: Mapping[str, object]) -> str:
    """The configuration file of a server: the shared settings overlaid by its own."""
    return "".join(f"{name}={value}\n" for name, value in {**_SHARED, **settings}.items())


def transaction_log(copies: int) -> dict[str, object]:
    """Settings of the transaction log for so many replicas: one partition, since workloads use one transactional id.

    What was acknowledged is on all replicas but one. Abandoned transactions are looked for every second, not every ten.
    """
    return {
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "transaction.state.log.num.partitions": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    }


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
    """The command line of a server of these artifacts, wherever they are; `more` are further JVM flags."""
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
    """The jars that these servers run from; of an image, those of the same release, none where it is not known."""
    if images.IMAGE in artifacts.paths:
        return versions.jars(artifacts.version) if artifacts.version in versions.known() else []
    return [Path(jar) for jar in artifacts.paths["classpath"].split(":")]


def archive_key(jars: list[Path], main_class: str = MAIN_CLASS) -> list[str]:
    return [*_JVM_FLAGS, main_class, *jar_parts(jars)]


def found_jars(version: str, *, refuse: Callable[[str], None]) -> tuple[str, list[Path]]:
    """Version and jars of a release or of a folder. Raises UsageError or MachineError.

    `refuse` raises for a release that the mode does not have; it is asked before anything is fetched.
    """
    if Path(version).is_dir():
        found, jars = versions.given(Path(version).absolute())
        refuse(found)
    else:
        versions.refuse_word(version)
        refuse(version)
        versions.tell_what_is_left_out(version)
        found, jars = version, versions.jars(version)
    return found, jars


def artifacts(version: str, jars: list[Path], archives: Mapping[str, Path | None]) -> Artifacts:
    """`paths` are "java", "classpath" (jars joined by colons) and those start-up archives that there are."""
    java = find_java()
    paths = {"java": str(java.binary), "classpath": ":".join(map(str, jars))}
    paths |= {name: str(path) for name, path in archives.items() if path is not None}
    sha256 = {jar.name: sha256_of(jar) for jar in jars} | {"java": sha256_of(java.binary)}
    return Artifacts(version=version, paths=paths, sha256=sha256)


def fatal_line(line: str) -> str | None:
    """Why this line of a server's log says that it will never serve, however long it lives; else None."""
    found = _FATAL.search(line)
    if found is not None:
        return f"a class is missing: {found.group()}"
    refused = _REFUSED.match(line)
    return f"its configuration is refused: {refused.group(1)}" if refused else None
