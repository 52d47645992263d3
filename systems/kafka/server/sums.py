"""Recording the jars of Kafka's releases and the SHA-256 of each jar."""

from fencepost.harness.java.jar_recording import record_jars
from fencepost.systems.kafka.server.versions import NEVER_PUBLISHED, RECORDED, roots


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    heading = "What the known Kafkas consist of, and the SHA-256 of each jar"
    return record_jars(RECORDED, heading, releases, roots, lambda release: NEVER_PUBLISHED.get(release, ()))
