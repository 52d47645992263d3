"""Records the checksums of Kafka's releases: both modes run from the same jars."""

from fencepost.systems.kafka.server.sums import record

__all__ = ["record"]
