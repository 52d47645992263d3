"""Which releases of Cassandra are known, their jars, and the Java that each needs.

A server is resolved by Maven coordinates: org.apache.cassandra:cassandra-all with all its dependencies. `jars.toml`
names every jar of the known releases with its SHA-256 (`python -m tools.record_sums cassandra`).

Cassandra 5.0 runs on Java 11 and 17, and 4.1 on 8 and 11, so neither runs on the Java of the other systems.
"""

import re
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.harness.java.recorded_jars import RecordedJars

DEFAULT: Final = "5.0.9"
RECORDED: Final = RecordedJars(Path(__file__).with_name("jars.toml"))
SERVER_JAR: Final = re.compile(r"(?:apache-cassandra|cassandra-all)-(\d+\.\d+(?:\.\d+)?(?:-[\w.]+)?)\.jar")
_FIRST_ON_JAVA_17: Final = (5, 0)


def roots(version: str) -> list[str]:
    return [f"org.apache.cassandra:cassandra-all:{version}"]


def jars(version: str) -> list[Path]:
    """The jars of a known release: fetched, checked and kept."""
    fetched = RECORDED.fetch(version)
    if fetched is None:
        raise UsageError(
            f"Cassandra {version!r} is neither a known release nor a folder; known are"
            f" {releases.in_words(RECORDED.known())}",
            hint="choose one of them, or give the path of a folder with the jars of one Cassandra",
        )
    return fetched


def given(folder: Path) -> tuple[str, list[Path]]:
    """Version and jars of a folder that a user gave: the jars themselves, or a distribution with a `lib` folder."""
    files = sorted(folder.glob("*.jar")) or sorted(folder.glob("lib/*.jar"))
    servers = _servers(files)
    if len(servers) != 1:
        raise UsageError(
            f"{folder}: expected one cassandra-all-<version>.jar or apache-cassandra-<version>.jar in it (or in its lib"
            f" folder), found {len(servers)}",
            hint="give a folder that holds the jars of one Cassandra and of what it needs",
        )
    return servers[0], files


def release_of(jars: list[Path]) -> str:
    """The release of the Cassandra that these jars are, of which one is its server's."""
    (release,) = _servers(jars)
    return release


def _servers(jars: list[Path]) -> list[str]:
    return [match.group(1) for jar in jars if (match := SERVER_JAR.fullmatch(jar.name))]


def java_needed(version: str) -> int:
    """The feature release of the Java that this Cassandra runs on."""
    return 11 if releases.is_before(version, _FIRST_ON_JAVA_17) else 17
