"""Recording the SHA-256 of the jars of ZooKeeper's releases."""

import re
from typing import Final

from fencepost.harness.contract.recorded_sums import read_sums, record_sums
from fencepost.harness.runtime.artifacts import maven, sha256_of
from fencepost.systems.zookeeper.versions import SUMS, coordinates

_SERVER: Final = re.compile(r"zookeeper-([\d.]+)\.jar")


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    heading = "SHA-256 of the jars of the known ZooKeepers; written by tools/record_sums.py."
    recorded = [match.group(1) for name in read_sums(SUMS) if (match := _SERVER.fullmatch(name))]
    return record_sums(SUMS, "sha256", heading, releases or recorded, _jars)


def _jars(release: str) -> dict[str, str]:
    return {jar.name: sha256_of(jar) for jar in maven.jars(coordinates(release), exclude=maven.EVERYTHING)}
