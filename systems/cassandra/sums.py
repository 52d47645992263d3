"""Recording the jars of Cassandra's releases and the SHA-256 of each jar."""

from fencepost.harness.java.jar_recording import record_jars
from fencepost.systems.cassandra.versions import RECORDED, roots


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    return record_jars(RECORDED, "What the known Cassandras consist of, and the SHA-256 of each jar", releases, roots)
