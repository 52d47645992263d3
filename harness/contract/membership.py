"""The members of a cluster and changes of them, the last step of an upgrade, and which faults a cluster refuses.

Members can change for systems that allow it while they run. Some systems keep the old release's ways after an upgrade
until an operator raises the cluster's features. What each part of the contract says of the faults that need it stands
in the placement, whatever the plan asks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.leadership import with_leader
from fencepost.harness.contract.options import S_contra, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.harness.runtime.provider import Placement


class Membership(Protocol):
    """The members of one running cluster, by the names of their nodes.

    Each call asks one node once. It never tries again, and never asks another node.
    """

    @property
    def votes_last(self) -> bool:
        """Whether a new server must run and follow before it can be made a voter.

        If not, it starts afterwards, and counts as a voter from the moment at which it is added.
        """
        ...

    @property
    def only_leader_answers(self) -> bool:
        """Whether only the leader answers who votes and accepts changes."""
        ...

    @property
    def ends_removed(self) -> bool:
        """Whether a server ends by itself when it learns that it was removed."""
        ...

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        """Adapt a spec for a cluster's first start so that its members can be changed later."""
        ...

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        """Ask the node `at` who votes.

        Returns:
            By node: the voter's id, as the system writes it. The answer is committed.

        Raises:
            Definite, Indefinite: the node does not answer.
        """
        ...

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        """Ask the node `through` to remove a member.

        Raises:
            Definite: it refuses, and nothing changed.
            Indefinite: nobody knows whether the member was removed.
        """
        ...

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """Ask the node `through` to make the server with this spec a voter; raises as `remove` does."""
        ...

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        """Adapt the node's spec so that its server joins these voters.

        Args:
            life: a number that differs after each wipe of a run, for systems in which a wiped member gets a new
                identity; None when the member keeps its data.
        """
        ...

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        """Why `node` does not serve as a member yet; None once it answers a current read."""
        ...


@runtime_checkable
class ChangesMembers(Protocol[S_contra]):
    """Its members can be removed and added while it runs; the members of other systems are fixed."""

    def fixed_members(self, version: str, options: S_contra) -> Refusal | None:
        """Why members cannot be changed with this release and these options; None when they can.

        Called before anything is fetched or started.

        Args:
            version: a release or the path of a build; "" for an image, whose release is not known yet.
        """
        ...

    def wiped_members(self) -> Refusal | None:
        """Why a removed member can come back only without its data; None where it can keep them."""
        ...

    def membership(self, layout: Layout, artifacts: Artifacts) -> Membership: ...


def with_members(placement: Placement, system: System, version: str, options: SystemOptions) -> Placement:
    """Add to the placement which changes of members this system allows."""
    if not isinstance(system, ChangesMembers):
        why = Refusal(
            f"the members of {system.profile.name} are fixed when it starts",
            "choose a system with the ability changes-members (fencepost list abilities)",
        )
        return replace(placement, fixed_members=why)
    fixed = system.fixed_members(version, options)
    return replace(placement, fixed_members=fixed, wiped_members=system.wiped_members())


@runtime_checkable
class RaisesFeatures(Protocol):
    """Its cluster keeps the features of the old release until an operator raises them."""

    async def raise_features(self, running: Sequence[Place], version: str) -> str:
        """Raise the cluster's features to those of a new cluster of this release, by way of one of these nodes.

        Returns what was raised, from which level to which. Raises `Definite` or `Indefinite`. The caller sets a limit.
        """
        ...


def with_features(placement: Placement, system: System) -> Placement:
    """Add to the placement whether an upgrade of this system has such a step."""
    if isinstance(system, RaisesFeatures):
        return placement
    refusal = Refusal(
        f"{system.profile.name} has no features that are raised after an upgrade",
        "choose a system with the ability raises-features (fencepost list abilities)",
    )
    return replace(placement, fixed_features=refusal)


def with_refusals(placement: Placement, system: System, version: str, options: SystemOptions) -> Placement:
    """Add to the placement what each part of the contract says of the faults that need it."""
    placement = with_features(with_leader(placement, system), system)
    others = tuple(system.profile.other_leaders)
    placement = replace(placement, system=system, system_options=options, other_leaders=others)
    return with_members(placement, system, version, options)
