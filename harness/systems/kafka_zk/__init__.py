"""Apache Kafka with its metadata in ZooKeeper."""

from typing import Final

from harness.systems.kafka_zk.system import KafkaZk

KAFKA_ZK: Final = KafkaZk()

__all__ = ["KAFKA_ZK", "KafkaZk"]
