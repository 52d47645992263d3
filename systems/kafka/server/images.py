"""The log of a Kafka inside an image.

An image of ours has a binding for the log that the command line configures. Any other is looked into for its jars, and
`java` runs them as it runs ours. Their own logging is given a configuration of the same kind: log4j 1 and its successor
reload4j (before Kafka 4.0), log4j 2 (since).
"""

from pathlib import Path
from typing import Final

from fencepost.harness.java.java_releases import IMAGE
from fencepost.harness.runtime.artifacts import Artifacts

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


def log_flags(folder: Path) -> list[str]:
    """For whichever logging an image's jars bring; configurations are in the node's `folder`."""
    return [
        f"-Dlog4j.configuration=file:{folder}/{_LOG4J1_FILE}",
        f"-Dlog4j2.configurationFile={folder}/{_LOG4J2_FILE}",
    ]


def log_files(artifacts: Artifacts) -> dict[str, str]:
    """What `log_flags` names; nothing outside of an image, where the log's binding is ours."""
    return {_LOG4J1_FILE: _LOG4J1, _LOG4J2_FILE: _LOG4J2} if IMAGE in artifacts.paths else {}
