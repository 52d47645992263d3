"""The replicas of a system's data and changes of them, for systems that place them on some of their servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.contract.profile import S_contra
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReplica:
    """One replica as its own server describes it: who has replicas too, and how many it takes them to be."""

    members: frozenset[str]
    size: int
    leads: bool


class Replicas(Protocol):
    """The replicas of one running cluster, by the names of their nodes. Each call asks one node once."""

    async def held(self, at: str, *, timeout_s: float) -> Mapping[str, StreamReplica]:
        """Ask the node `at` which replicas it has.

        Returns:
            By the name of what is replicated: the node's replica.

        Raises:
            Definite, Indefinite: the node does not answer.
        """
        ...

    async def scale(self, count: int, *, through: str, timeout_s: float) -> None:
        """Ask through the node `through` that everything has this many replicas.

        Raises:
            Definite: it refuses, and nothing changed.
            Indefinite: nobody knows whether something changed.
        """
        ...

    async def move_away(self, node: str, *, through: str, timeout_s: float) -> None:
        """Ask that another server have a replica in place of this node; raises as `scale` does."""
        ...

    async def lacks(self, count: int, *, through: str, timeout_s: float) -> str | None:
        """Why not everything has this many replicas that hold all of it; None once it has."""
        ...


@runtime_checkable
class PlacesReplicas(Protocol[S_contra]):
    """Its data have replicas on some of its servers, whose number and places can change while it runs."""

    def replica_count(self, options: S_contra) -> int: ...

    def replicas(self, layout: Layout, artifacts: Artifacts) -> Replicas: ...
