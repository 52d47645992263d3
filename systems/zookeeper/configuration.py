"""How a ZooKeeper server starts: command line, configuration files.

Its log is configured for whichever logging its jars bring (see `versions`).

Settings that differ from a production server, and why: no admin server (it needs jetty), every four-letter word allowed
(`srvr` asks for beliefs), no limit on connections from one address (all clients have the same one), sessions longer
than 20 ticks (a session must outlive several pauses), small heap and stack.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.java.java_releases import java_command
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.zookeeper.options import ZooKeeperOptions

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CLIENT_PORT: Final = 2181
PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "peer": PEER_PORT, "election": ELECTION_PORT}
#: What stands before the dot of a setting, and the beginnings of those that are Java system properties.
ZOOKEEPER: Final = "zookeeper"
PROPERTY: Final = ("zookeeper.", "jute.")
#: The jars in an image of ours.
IMAGE_FOLDER: Final = "/opt/zookeeper/lib"

_JVM_FLAGS: Final = (
    "-Xms32m",
    "-Xmx256m",
    "-Xss512k",
    *QUICK_FLAGS,
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
)
#: In KiB (FilePadding).
_LAID_OUT: Final = "preAllocSize"
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


#: What a start-up archive depends on.
PROGRAM: Final = (*_JVM_FLAGS, MAIN_CLASS)


def _log_flags(folder: Path) -> list[str]:
    """The flags for each kind of logging that jars may bring."""
    return [
        *_LOG_FLAGS,
        f"-Dlog4j.configuration=file:{folder}/log4j1.properties",
        f"-Dlogback.configurationFile={folder}/logback.xml",
    ]


def _log_files(artifacts: Artifacts) -> dict[str, str]:
    """Configurations for the logging that the jars bring and that system properties do not reach."""
    if "image" in artifacts.paths:
        # Its jars cannot be seen from here.
        return {"log4j1.properties": _LOG4J1, "log4j.properties": _LOG4J1, "logback.xml": _LOGBACK}
    names = [Path(jar).name for jar in artifacts.paths["classpath"].split(":")]
    files = {}
    if any(re.match(r"(log4j-1\.2\.|reload4j-)", name) for name in names):
        files["log4j1.properties"] = _LOG4J1
    if any(name.startswith("logback-classic-") for name in names):
        files["logback.xml"] = _LOGBACK
    return files


def in_file(settings: Settings) -> dict[str, str]:
    """The settings that go into zoo.cfg.

    Where a snapshot count is set, the log grows in steps of 1 MiB unless that is set too. By default each log file
    begins with 64 MiB, and with many of them gigabytes of zeros would be copied and read after the run.
    """
    given = settings.get(ZOOKEEPER, {})
    named = {key.removeprefix("zookeeper.") for key in given}
    laid_out = {_LAID_OUT: "1024"} if "snapCount" in named and _LAID_OUT not in named else {}
    return {**laid_out, **{key: value for key, value in given.items() if not key.startswith(PROPERTY)}}


def jvm_flags(settings: Settings) -> tuple[str, ...]:
    """The settings that are Java system properties, as flags of the JVM."""
    return tuple(f"-D{k}={v}" for k, v in settings.get(ZOOKEEPER, {}).items() if k.startswith(PROPERTY))


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
    command, environment = _command(place, artifacts, jvm_flags(settings))
    return NodeSpec(
        name=place.name,
        argv=command,
        environment=environment,
        listeners=LISTENERS,
        files={"zoo.cfg": configuration, **_log_files(artifacts)},
        data_files={"myid": f"{place.number}\n"},
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=30.0,
    )


def _command(place: Place, artifacts: Artifacts, more: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Command and environment of a server; `more` are further JVM flags."""
    configuration = str(place.folder / "zoo.cfg")
    flags = [*_JVM_FLAGS, *_log_flags(place.folder), *more]
    if "command" not in artifacts.paths:
        java, *archived = java_command(artifacts)
        return (java, *archived, *flags, "-cp", artifacts.paths["classpath"], MAIN_CLASS, configuration), {}
    environment = {
        "ZOO_CONF_DIR": str(place.folder),
        "ZOOCFGDIR": str(place.folder),
        "ZOO_DATA_DIR": str(place.data),
        "ZOO_MY_ID": str(place.number),
        "SERVER_JVMFLAGS": shlex.join(flags),
    }
    return tuple(shlex.split(artifacts.paths["command"])), environment
