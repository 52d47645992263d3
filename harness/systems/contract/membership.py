"""Who belongs to a cluster, and changing that: for systems whose members can be removed and added while they run."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.systems.contract.options import SystemOptions
from fencepost.harness.systems.contract.system import System


class Membership(Protocol):
    """The members of one running cluster, by the names of their nodes.

    Each call asks one node, once: nothing is tried again and nobody else is asked behind the caller's back.
    """

    @property
    def votes_last(self) -> bool:
        """Whether a server that is to be a member runs and follows before a vote is asked for it.

        Else it starts after that, and counts as a voter from the moment at which it is added.
        """
        ...

    @property
    def told_by_leader(self) -> bool:
        """Whether only the node that leads tells who votes, and takes changes."""
        ...

    @property
    def ends_removed(self) -> bool:
        """Whether a server that learns that it is no member any more ends by itself."""
        ...

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        """A spec for a cluster's first start, so that its members can be changed later."""
        ...

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        """Who votes, as the node `at` itself knows it: each one's id, in the system's own words, by its node's name.

        What is told is committed. Raises `Definite` or `Indefinite` when the node does not tell.
        """
        ...

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        """Ask the node `through` to remove a member.

        Raises `Definite` when it will not, `Indefinite` when nobody knows whether it did.
        """
        ...

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """Ask the node `through` to make a voter of the server with this spec; raises as `remove` does."""
        ...

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        """The node's spec so that its server joins these voters.

        `life` differs between the wipes of a run, for systems in which a wiped member gets a new identity; None: its
        data are kept.
        """
        ...

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        """What `node` lacks of a member that serves: None once it answers a read that is current."""
        ...


@runtime_checkable
class ChangesMembers(Protocol):
    """Its members can be removed and added while it runs; those of other systems are fixed when they start."""

    def fixed_members(self, version: str, options: Any) -> Refusal | None:
        """Why members of this release (or path; "" of an image) cannot be changed under these options; else None.

        Asked before anything is fetched or started.
        """
        ...

    def wiped_members(self) -> Refusal | None:
        """Why a member that was removed can come back only without its data; None where it can keep them."""
        ...

    def membership(self, layout: Layout, artifacts: Artifacts) -> Membership: ...


def with_members(placement: Placement, system: System, version: str, options: SystemOptions) -> Placement:
    """The placement with what this system's members can undergo."""
    if not isinstance(system, ChangesMembers):
        why = Refusal(
            f"the members of {system.profile.name} are fixed when it starts",
            "choose a system with the ability changes-members (fencepost list abilities)",
        )
        return replace(placement, fixed_members=why)
    fixed = system.fixed_members(version, options)
    return replace(placement, fixed_members=fixed, wiped_members=system.wiped_members())
