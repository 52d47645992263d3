"""Which releases of ZooKeeper are known, and where their jars come from.

3.9.5 is in the Python package pyspark, with the five jars that a server needs (found by leaving jars out until it did
not start) and two more for its log. Where pyspark is not installed it comes from Maven, as all others do: the server
and the few jars that it needs here, the same ones for almost every release. They are named one by one and everything
else is excluded.

Left out are netty (a server with plain TCP does not load it) and the logging of each release (log4j 1.2, reload4j,
logback or none). log4j-core is left out too: configuring it costs as much processor time as the rest of the start,
while the simple logger inside log4j-api, set by system properties, has the same flags for all releases.
"""

import re
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.harness.java.server_jars import ServerJars
from fencepost.harness.runtime.artifacts import python_package_folder, required_package_folder

DEFAULT: Final = "3.9.5"
#: Of the packaged release, by the beginnings of their names.
_PACKAGED_JARS: Final = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "log4j-api",
    "log4j-slf4j2-impl",
)
_BESIDE: Final = (
    "org.slf4j:slf4j-api:1.7.36",
    "org.apache.logging.log4j:log4j-api:2.25.4",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
)
#: Releases before 3.6.3 need it.
_COMMONS_LANG: Final = "commons-lang:commons-lang:2.6"


class ZooKeeperJars(ServerJars):
    """The jars of recorded releases; those of the default release are in pyspark where that is installed."""

    def jars(self, version: str) -> list[Path]:
        return _packaged() if self._is_packaged(version) else super().jars(version)

    def sums(self, version: str) -> dict[str, str] | None:
        return None if self._is_packaged(version) else super().sums(version)

    def are_fetched(self, version: str) -> bool:
        return self._is_packaged(version) or super().are_fetched(version)

    def _is_packaged(self, version: str) -> bool:
        return version == DEFAULT and python_package_folder("pyspark") is not None


def _packaged() -> list[Path]:
    folder = required_package_folder("pyspark", distribution="pyspark") / "jars"
    return [_one(folder, name) for name in _PACKAGED_JARS]


def _one(folder: Path, name: str) -> Path:
    jars = sorted(jar for jar in folder.glob(f"{name}-*.jar") if re.fullmatch(rf"{name}-\d[\w.]*\.jar", jar.name))
    if len(jars) != 1:
        raise UsageError(
            f"{folder}: expected one {name}-<version>.jar, found {len(jars)}",
            hint="install the pyspark version of requirements.lock, or give a folder of jars as version",
        )
    return jars[0]


def roots(version: str) -> list[str]:
    own = [f"org.apache.zookeeper:{name}:{version}" for name in ("zookeeper", "zookeeper-jute")]
    also = [_COMMONS_LANG] if releases.numbers(version) < (3, 6, 3) else []
    return [*own, *_BESIDE, *also]


JARS: Final = ZooKeeperJars(
    title="ZooKeeper",
    file=Path(__file__).with_name("jars.toml"),
    server_jar=re.compile(r"zookeeper-(\d[\w.]*)\.jar"),
    server_jar_name="zookeeper-<version>.jar",
    folder="lib",
    roots=roots,
    left_out={"": ("*:*",)},
)
