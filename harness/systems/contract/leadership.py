"""Who leads: how long a leader that was cut off may go on, what logs say of it, and how it is made to change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from fencepost.harness.runtime.node import Layout, Place
from fencepost.harness.systems.contract.options import SystemOptions
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import LeadershipBound, Standing


@runtime_checkable
class BoundsLeadership(Protocol):
    """It says how long a leader that is cut off may go on claiming to lead."""

    def leadership(self, options: Any, version: str = "") -> LeadershipBound:
        """The bound of this release with these options; of the default release when none is named."""
        ...


#: Of a system that says nothing: claims are measured, and judged by nothing.
_NO_BOUND: Final = LeadershipBound(
    bound_ns=None, source="the system states no bound", standing=Standing.MEASURED, one_leader_per_epoch=False
)


def leadership_of(system: System, options: SystemOptions, version: str = "") -> LeadershipBound:
    """How long a cut-off leader of this release may go on claiming, as far as the system says that."""
    return system.leadership(options, version) if isinstance(system, BoundsLeadership) else _NO_BOUND


@runtime_checkable
class LogsReigns(Protocol):
    """Its servers write into their logs when they become the leader, and of which epoch."""

    def became_leader(self, line: str) -> int | None:
        """The epoch, when this log line says that the node became leader; else None."""
        ...


@runtime_checkable
class MovesLeadership(Protocol):
    """It hands its leadership over when it is asked to; others are made to by ending their leader."""

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        """Ask the node that leads to hand over to another one.

        Raises `Definite` when it will not, `Indefinite` when nobody knows whether it did.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReign:
    """Who leads a topic partition, in which leader epoch, and who should; None where no known node does."""

    leader: str | None
    epoch: int
    preferred: str | None
    #: Whether the preferred one is in sync, without which it is not elected.
    in_sync: bool


@runtime_checkable
class LeadsPartitions(Protocol):
    """Its topic partitions have leaders of their own, each with a preferred one."""

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        """By partition, as one node knows them; raises `Definite` or `Indefinite` when no node answers."""
        ...

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        """Ask that each partition be led by its preferred node again.

        Raises `Definite` when no node takes that, `Indefinite` when nobody knows whether one did.
        """
        ...
