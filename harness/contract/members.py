"""Changes of the members of a cluster that runs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import S, SystemOptions
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec


def _always(version: str, options: SystemOptions) -> Refusal | None:
    return None


@dataclass(frozen=True, kw_only=True)
class MemberChanges(Generic[S]):
    """How the members of one system's clusters are removed and added while it runs."""

    of: Callable[[Layout, Artifacts], "Membership"]
    #: The same for nodes that come back as learners (`AdmitsLearners`); None where there are none.
    learners: Callable[[Layout, Artifacts], "Membership"] | None = None
    #: Why a removed member can come back only without its data; None where it can keep them.
    wiped: Refusal | None = None
    #: Why members cannot be changed with this release and these options; None when they can. Called before anything is
    #: fetched or started; the version is a release or the path of a build, "" for an image, whose release is not known.
    fixed: Callable[[str, S], Refusal | None] = _always


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
class NamesRemovedMembers(Protocol):
    """A membership whose other groups may name a removed member for as long as its server runs."""

    async def is_removed(self, node: str, *, at: str, timeout_s: float) -> bool:
        """Ask the node `at` whether the group that decides who is a member has removed it, while others name it.

        Raises:
            Definite, Indefinite: the node does not answer.
        """
        ...


@runtime_checkable
class AdmitsLearners(Protocol):
    """A membership in which a server may run only once it is known as a learner; `add` then makes it a voter."""

    async def admit(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """Ask the node `through` to know the server as a learner; returns at once if it does. Raises as `add` does."""
        ...
