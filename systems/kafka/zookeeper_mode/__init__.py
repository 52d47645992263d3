"""Apache Kafka with its metadata in ZooKeeper."""

from typing import Final

from fencepost.systems.kafka.zookeeper_mode.system import KafkaZk

KAFKA_ZK: Final = KafkaZk()

__all__ = ["KAFKA_ZK", "KafkaZk"]
