"""Apache Kafka whose metadata is kept by a quorum of its own controllers."""

from typing import Final

from fencepost.systems.kafka.kraft.system import Kraft

KRAFT: Final = Kraft()

__all__ = ["KRAFT", "Kraft"]
