"""What the brokers of a cluster say of its partitions, each by its own copy (Kafka)."""

from collections.abc import Sequence
from typing import Protocol

from fencepost.harness.coordination.session import Session
from fencepost.harness.history import BrokerView


class PartitionStates(Session, Protocol):
    """The leader, epoch and in-sync replicas of each partition, and which brokers are alive.

    `System.prepare` makes the partitions from the workload's keys, "p<i>" for each.
    """

    async def view(self) -> BrokerView:
        """Ask this node alone what it knows."""
        ...

    async def move(self, partition: int, replicas: Sequence[int]) -> None:
        """Put the partition's replicas into this order, by their ids, and let the first of them lead.

        Raises `Definite` only when neither was done.
        """
        ...
