"""Who leads each topic partition, and an election that gives the preferred leaders their partitions back (KIP-460)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.runtime.node import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReign:
    """The leader of a topic partition, its leader epoch and the preferred leader; None for a node that is not known."""

    leader: str | None
    epoch: int
    preferred: str | None
    #: Whether the preferred leader is in sync; otherwise it is not elected.
    in_sync: bool


@runtime_checkable
class LeadsPartitions(Protocol):
    """Each of its topic partitions has a leader of its own, and a preferred leader."""

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        """The reigns by partition, as one node knows them; raises `Definite` or `Indefinite` when no node answers."""
        ...

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        """Ask for an election in which each partition gets its preferred leader back.

        Raises:
            Definite: no node accepts the request.
            Indefinite: nobody knows whether a node accepted it.
        """
        ...
