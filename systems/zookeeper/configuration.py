"""How a ZooKeeper server starts: jars, command line, configuration files.

The default server is the ZooKeeper 3.9.5 inside pyspark, with the five jars that it needs (found by leaving jars out
until it did not start) and two more for its log. log4j-core is left out: configuring it costs as much processor time as
the rest of the start, while the simple logger inside log4j-api, set by system properties, writes the same lines at no
cost. A folder of jars given as version is used as it is, with a configuration for the logging that it brings.

Settings that differ from a production server, and why: no admin server (it needs jetty), every four-letter word allowed
(`srvr` asks for beliefs), no limit on connections from one address (all clients have the same one), sessions longer
than 20 ticks (a session must outlive several pauses), small heap and stack.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.runtime.artifacts import (
    Artifacts,
    ImageFacts,
    python_package_folder,
    required_package_folder,
    sha256_of,
)
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS, Java, find_java, jar_parts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.settings import in_file, jvm_flags

PACKAGED_VERSION: Final = "3.9.5"
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CLIENT_PORT: Final = 2181
PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "peer": PEER_PORT, "election": ELECTION_PORT}
#: The jars in an image of ours.
IMAGE_CLASSPATH: Final = "/opt/zookeeper/lib/*"

_NEEDED: Final = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
_FOR_LOGS: Final = ("log4j-api", "log4j-slf4j2-impl")

_JVM_FLAGS: Final = (
    "-Xms32m",
    "-Xmx256m",
    "-Xss512k",
    *QUICK_FLAGS,
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
)
_SIMPLE_LOGGER: Final = "-Dorg.apache.logging.log4j.simplelog."
#: The log at INFO, without a line for every `srvr` of the observers.
_LOG_FLAGS: Final = (
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    f"{_SIMPLE_LOGGER}level=INFO",
    f"{_SIMPLE_LOGGER}org.apache.zookeeper.server.NIOServerCnxn.level=WARN",
    f"{_SIMPLE_LOGGER}showdatetime=true",
    f"{_SIMPLE_LOGGER}dateTimeFormat=HH:mm:ss.SSS",
    f"{_SIMPLE_LOGGER}showShortLogname=true",
)
_LOG4J1: Final = """log4j.rootLogger=INFO, console
log4j.logger.org.apache.zookeeper.server.NIOServerCnxn=WARN
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
"""
_LOGBACK: Final = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <logger name="org.apache.zookeeper.server.NIOServerCnxn" level="WARN"/>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""


def is_packaged() -> bool:
    """Whether there is a pyspark, whose jars hold the default release."""
    return python_package_folder("pyspark") is not None


def packaged() -> list[Path]:
    """The jars of the ZooKeeper inside pyspark; raises MachineError when the package is absent."""
    folder = required_package_folder("pyspark", distribution="pyspark") / "jars"
    return [_one(folder, name) for name in (*_NEEDED, *_FOR_LOGS)]


def given(folder: Path) -> tuple[str, list[Path]]:
    """Version and jars of a folder that a user gave: the jars themselves, or a distribution with a `lib` folder."""
    jars = sorted(folder.glob("*.jar")) or sorted(folder.glob("lib/*.jar"))
    versions = [m.group(1) for jar in jars if (m := re.fullmatch(r"zookeeper-(\d[\w.]*)\.jar", jar.name))]
    if len(versions) != 1:
        raise UsageError(
            f"{folder}: expected one zookeeper-<version>.jar in it (or in its lib folder), found {len(versions)}",
            hint="give a folder that holds the jars of one ZooKeeper and of what it needs",
        )
    return versions[0], jars


def artifacts(version: str, jars: list[Path], archive: Path | None) -> Artifacts:
    """`paths` are "java", "classpath" (jars joined by colons) and, when there is one, the start-up "archive"."""
    java = find_java()
    paths = {"java": str(java.binary), "classpath": ":".join(map(str, jars))}
    if archive is not None:
        paths["archive"] = str(archive)
    sha256 = {jar.name: sha256_of(jar) for jar in jars} | {"java": sha256_of(java.binary)}
    return Artifacts(version=version, paths=paths, sha256=sha256)


def in_image(image: ImageFacts) -> Artifacts:
    """Describe the ZooKeeper in an image: one made by fencepost runs `java` on its jars, any other its entry point.

    The official image reads its configuration from the folder that ZOO_CONF_DIR names, so it can be given this one.
    """
    if image.labels.get("org.fencepost.system") == "zookeeper":
        paths = {"java": "java", "classpath": IMAGE_CLASSPATH}
    else:
        command = (*image.entrypoint, *image.command)
        if not command:
            raise UsageError(
                f"{image.reference}: the image has neither an entry point nor a command",
                hint="give an image that starts a ZooKeeper server by itself, as the official one does",
            )
        paths = {"command": shlex.join(command)}
    return Artifacts(version=image.version, paths={"image": image.reference, **paths}, sha256={"image": image.id})


def archive_key(jars: list[Path]) -> list[str]:
    return [*_JVM_FLAGS, MAIN_CLASS, *jar_parts(jars)]


def argv(java: Java, jars: list[Path], archive: Path | None, folder: Path, more: tuple[str, ...] = ()) -> list[str]:
    """The command line of a server whose configuration is `folder`/zoo.cfg; `more` are further JVM flags."""
    classpath = ":".join(map(str, jars))
    flags = [*_JVM_FLAGS, *_log_flags(folder), *java.using(archive), *more]
    return [str(java.binary), *flags, "-cp", classpath, MAIN_CLASS, str(folder / "zoo.cfg")]


def _log_flags(folder: Path) -> list[str]:
    """The flags for each kind of logging that jars may bring."""
    return [
        *_LOG_FLAGS,
        f"-Dlog4j.configuration=file:{folder}/log4j1.properties",
        f"-Dlogback.configurationFile={folder}/logback.xml",
    ]


def log_files(jars: list[Path]) -> dict[str, str]:
    """Configurations for the logging that the jars bring and that system properties do not reach."""
    names = [jar.name for jar in jars]
    files = {}
    if any(re.match(r"(log4j-1\.2\.|reload4j-)", name) for name in names):
        files["log4j1.properties"] = _LOG4J1
    if any(name.startswith("logback-classic-") for name in names):
        files["logback.xml"] = _LOGBACK
    return files


def zoo_cfg(
    *,
    address: str,
    client_port: int,
    data: Path,
    servers: Mapping[int, str],
    options: ZooKeeperOptions,
    settings: Settings = NO_SETTINGS,
) -> str:
    """The configuration file; `servers` are "address:peer port:election port" by number."""
    tick_ms, session_ms = options.tick.ms, options.session_timeout.ms
    lines = {
        "tickTime": tick_ms,
        "initLimit": options.init_limit,
        "syncLimit": options.sync_limit,
        "dataDir": data,
        "clientPort": client_port,
        "clientPortAddress": address,
        "maxClientCnxns": 0,
        "minSessionTimeout": min(2 * tick_ms, session_ms),
        "maxSessionTimeout": max(20 * tick_ms, session_ms),
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
    } | {f"server.{number}": where for number, where in servers.items()}
    lines |= in_file(settings)
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: ZooKeeperOptions, settings: Settings) -> NodeSpec:
    """One server of the cluster `layout` as data."""
    # Both ports belong to the one host of the server.
    servers = {p.number: ":".join(map(str, (*p.peer(PEER_PORT), p.peer(ELECTION_PORT)[1]))) for p in layout.values()}
    configuration = zoo_cfg(
        address=place.address,
        client_port=CLIENT_PORT,
        data=place.data,
        servers=servers,
        options=options,
        settings=settings,
    )
    if "image" in artifacts.paths:
        command, environment, logs = _inside(place, artifacts, jvm_flags(settings))
    else:
        jars = [Path(jar) for jar in artifacts.paths["classpath"].split(":")]
        archive = artifacts.paths.get("archive")
        more = jvm_flags(settings)
        command = tuple(argv(find_java(), jars, Path(archive) if archive else None, place.folder, more))
        environment, logs = {}, log_files(jars)
    return NodeSpec(
        name=place.name,
        argv=command,
        environment=environment,
        listeners=LISTENERS,
        files={"zoo.cfg": configuration, **logs},
        data_files={"myid": f"{place.number}\n"},
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=30.0,
    )


def _inside(
    place: Place, artifacts: Artifacts, more: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """Command, environment and log configurations of a server in a container; its jars cannot be seen from here."""
    logs = {"log4j1.properties": _LOG4J1, "log4j.properties": _LOG4J1, "logback.xml": _LOGBACK}
    flags = [*_JVM_FLAGS, *_log_flags(place.folder), *more]
    if "command" not in artifacts.paths:
        java, classpath = artifacts.paths["java"], artifacts.paths["classpath"]
        return (java, *flags, "-cp", classpath, MAIN_CLASS, str(place.folder / "zoo.cfg")), {}, logs
    environment = {
        "ZOO_CONF_DIR": str(place.folder),
        "ZOOCFGDIR": str(place.folder),
        "ZOO_DATA_DIR": str(place.data),
        "ZOO_MY_ID": str(place.number),
        "SERVER_JVMFLAGS": shlex.join(flags),
    }
    return tuple(shlex.split(artifacts.paths["command"])), environment, logs


def _one(folder: Path, name: str) -> Path:
    jars = sorted(jar for jar in folder.glob(f"{name}-*.jar") if re.fullmatch(rf"{name}-\d[\w.]*\.jar", jar.name))
    if len(jars) != 1:
        raise UsageError(
            f"{folder}: expected one {name}-<version>.jar, found {len(jars)}",
            hint="install the pyspark version of requirements.lock, or give a folder of jars as version",
        )
    return jars[0]
