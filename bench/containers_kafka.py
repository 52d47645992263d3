"""Figures of Kafka on containers: from a run to its first change of metadata, and the building of its images."""

from bench.containers import first_write, images
from bench.figure import Figure
from bench.toxiproxy import engine_answers

_IMAGES = ("kraft", "kafka-zk")


def run(repeats: int = 5) -> list[Figure]:
    """Measure the figures; none if no container engine answers."""
    if not engine_answers():
        print("  no container engine answers: nothing measured; start one, or set DOCKER_HOST", flush=True)
        return []
    return [
        first_write("kraft", "metadata", "alter", 12, repeats, "three controllers and a broker"),
        first_write("kafka-zk", "metadata", "alter", 15, repeats, "three ZooKeepers and three brokers"),
        images("Kafka's images", _IMAGES, cold=False),
        images("Kafka's images", _IMAGES, cold=True),
    ]
