"""Apache Kafka on its way from ZooKeeper to KRaft (KIP-866): the releases that can run in both modes."""

from typing import Final

from fencepost.systems.kafka.bridge.system import KafkaBridge

KAFKA_BRIDGE: Final = KafkaBridge()

__all__ = ["KAFKA_BRIDGE", "KafkaBridge"]
