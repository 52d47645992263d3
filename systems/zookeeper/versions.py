"""Which releases of ZooKeeper are known, and where each comes from.

3.9.5 is in the Python package pyspark (see `configuration`), and comes from Maven where that is not installed. All
others are resolved by Maven coordinates: the server and the few jars that it needs here, the same ones for almost every
release. They are named one by one and everything else is excluded, so that Maven and Ivy fetch the same; each is
checked against its sum in `jars.toml` (`python -m tools.record_sums zookeeper`).

Left out are netty (a server with plain TCP does not load it) and the logging of each release (log4j 1.2, reload4j,
logback or none): the simple logger inside log4j-api has the same flags for all releases and costs the least.
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.systems.zookeeper import configuration

SUMS: Final = Path(__file__).with_name("jars.toml")

_BESIDE: Final = (
    "org.slf4j:slf4j-api:1.7.36",
    "org.apache.logging.log4j:log4j-api:2.25.4",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
)
#: Releases before 3.6.3 need it.
_COMMONS_LANG: Final = "commons-lang:commons-lang:2.6"


def known() -> tuple[str, ...]:
    """Every release that `jars` can get, in order."""
    recorded = (name.removeprefix("zookeeper-").removesuffix(".jar") for name in _sums())
    return releases.in_order(
        {configuration.PACKAGED_VERSION, *(release for release in recorded if release[0].isdigit())}
    )


def jars(version: str) -> list[Path]:
    """The jars of a known release: inside pyspark where it is installed, or fetched, checked and kept."""
    if version == configuration.PACKAGED_VERSION and configuration.is_packaged():
        return configuration.packaged()
    if version not in known():
        raise UsageError(
            f"ZooKeeper {version!r} is neither a known release nor a folder; known are {releases.in_words(known())}",
            hint="choose one of them, or give the path of a folder with the jars of one ZooKeeper",
        )
    from fencepost.harness.runtime.artifacts import maven, sums

    wanted = coordinates(version)
    fetched = maven.jars(wanted, exclude=maven.EVERYTHING)
    sums.check(fetched, {name: _sums()[name] for name in map(_file_name, wanted)})
    return fetched


def coordinates(version: str) -> list[str]:
    own = [f"org.apache.zookeeper:{name}:{version}" for name in ("zookeeper", "zookeeper-jute")]
    also = [_COMMONS_LANG] if releases.numbers(version) < (3, 6, 3) else []
    return [*own, *_BESIDE, *also]


def _file_name(coordinate: str) -> str:
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


@lru_cache(maxsize=1)
def _sums() -> Mapping[str, str]:
    with SUMS.open("rb") as file:
        recorded: dict[str, str] = tomllib.load(file)["sha256"]
    return recorded
