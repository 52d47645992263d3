"""Kafka inside an image: where its jars lie, which release they are, and how its log is made to say what is needed.

An image of ours has the jars in a folder of its own and a binding for their log that the command line configures. Any
other is not run by its entry point, whose scripts write a configuration of their own: it is looked into for the jars,
which lie where a distribution is unpacked, and its `java` runs them as it runs ours. Their own logging is given a
configuration of the same kind: log4j 1 and its successor reload4j (before Kafka 4.0), log4j 2 (since).
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.systems.kafka.server.versions import SERVER_JAR
from fencepost.systems.kafka.wire.codec import require_library

#: Of the artifacts' paths: there when the others are inside of an image.
IMAGE: Final = "image"
#: In our images, and in that of the Apache project.
_OURS: Final = "/opt/kafka/libs"
#: Where others have them. Confluent's images are left out: their jars do not say which Kafka they are.
_JAR_FOLDERS: Final = (_OURS, "/opt/bitnami/kafka/libs")
_ZOOKEEPER_JAR: Final = re.compile(r"zookeeper-\d[\w.-]*\.jar")
_OUR_SYSTEMS: Final = ("kraft", "kafka-zk", "kafka-bridge")

#: Loggers that are asked for warnings alone: they repeat the configuration, or have a line for each question.
QUIET: Final = (
    "kafka.server.KafkaConfig",
    "org.apache.kafka.common.config.AbstractConfig",
    "org.apache.zookeeper.server.NIOServerCnxn",
    "org.apache.zookeeper.ZooKeeper",
)
_LOG4J1_FILE: Final = "log4j.properties"
_LOG4J2_FILE: Final = "log4j2.properties"
_LOG4J1: Final = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1} - %m%n
""" + "".join(f"log4j.logger.{name}=WARN\n" for name in QUIET)
_LOG4J2: Final = """status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} - %m%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
""" + "".join(f"logger.q{place}.name={name}\nlogger.q{place}.level=warn\n" for place, name in enumerate(QUIET))


def in_image(image: ImageFacts, *, refuse: Callable[[str], None], keeper: bool) -> Artifacts:
    """The Kafka inside an image, ours or a person's. `refuse` raises for a release that the mode does not have.

    `keeper`: ZooKeeper's jars have to be there as well. Raises UsageError.
    """
    require_library()
    if image.labels.get("org.fencepost.system") in _OUR_SYSTEMS:
        version, folder = image.version, _OURS
    else:
        version, folder, jars = _looked_into(image)
        if keeper and not any(map(_ZOOKEEPER_JAR.fullmatch, jars)):
            raise UsageError(
                f"{image.reference}: there is no ZooKeeper beside the Kafka {version} in {folder}",
                hint="ZooKeeper's nodes run from the same image; take one with the jars of Kafka's distribution",
            )
    refuse(version)
    paths = {IMAGE: image.reference, "java": "java", "classpath": f"{folder}/*"}
    return Artifacts(version=version, paths=paths, sha256={IMAGE: image.id})


def log_flags(folder: Path) -> list[str]:
    """For whichever logging an image's jars bring; configurations are in the node's `folder`."""
    return [
        f"-Dlog4j.configuration=file:{folder}/{_LOG4J1_FILE}",
        f"-Dlog4j2.configurationFile={folder}/{_LOG4J2_FILE}",
    ]


def log_files(artifacts: Artifacts) -> dict[str, str]:
    """What `log_flags` names; nothing outside of an image, where the log's binding is ours."""
    return {_LOG4J1_FILE: _LOG4J1, _LOG4J2_FILE: _LOG4J2} if IMAGE in artifacts.paths else {}


def _looked_into(image: ImageFacts) -> tuple[str, str, tuple[str, ...]]:
    """Release, folder and names of the jars; by the jars themselves, since tags say what their owners like."""
    for folder in _JAR_FOLDERS:
        jars = image.files(folder)
        releases = [m.group(1) for jar in jars if (m := SERVER_JAR.fullmatch(jar))]
        if len(releases) == 1:
            return releases[0], folder, jars
        if releases:
            raise UsageError(
                f"{image.reference}: {len(releases)} releases of Kafka in {folder}: {', '.join(sorted(releases))}",
                hint="give an image that holds the jars of one Kafka and of what it needs",
            )
    raise UsageError(
        f"{image.reference}: no kafka_2.13-<version>.jar in {', '.join(_JAR_FOLDERS)}",
        hint="give an image with Kafka's jars in one of these folders and `java` on its PATH; one that was compiled to"
        " a program (apache/kafka-native) cannot be run as a controller or broker of this cluster",
    )
