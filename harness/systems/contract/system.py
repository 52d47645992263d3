"""What a system under test says of itself: how it starts, what it promises, how one node is asked.

A system is one object of this protocol in `harness.plugins.registry.SYSTEMS`. Nothing here starts a process; the
runtime does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fencepost.harness.coordination import Interface, ReadMode, Session
from fencepost.harness.history import Claim
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Layout, Member, Node, NodeSpec, Place
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.verdict import Guarantee, LeadershipBound


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one node said when asked whether it leads; the observer adds the times.

    `leader` is the node's name of the leader that it believes in. `position` is where its store stands.
    """

    claims: Claim
    source: str
    epoch: int | None = None
    epoch_exact: bool = True
    leader: str | None = None
    position: int | None = None
    detail: str | None = None


class Question(Protocol):
    """A kept way of asking one node alone. `ask` may be called while earlier questions are unanswered."""

    async def ask(self) -> Answer:
        """Ask; raises anything when no answer comes (the observer records `silent`). Cancelled at its deadline."""
        ...

    async def close(self) -> None: ...


class System(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def default_version(self) -> str: ...
    @property
    def listeners(self) -> Mapping[str, int]:
        """Ports by what they are for: nodes dial every one but "client", the harness those that each member names."""
        ...

    @property
    def subjects(self) -> tuple[str, ...]:
        """What beliefs are about ("leader"); the nemesis follows the first one."""
        ...

    def members(self, nodes: int, options: Mapping[str, object]) -> tuple[Member, ...]:
        """The cluster of a plan with so many `nodes`, in order."""
        ...

    @property
    def interfaces(self) -> frozenset[Interface]:
        """What the sessions of `open_client` can be used for."""
        ...

    @property
    def read_modes(self) -> tuple[ReadMode, ...]:
        """The first one is the default."""
        ...

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the default release is held to; every release has the same names."""
        ...

    def promises(self, version: str) -> tuple[Guarantee, ...]:
        """What this release is held to: standing and source may differ from the default's."""
        ...

    def read_guarantee(self, mode: ReadMode) -> str:
        """Name of the guarantee that reads of this mode are held to."""
        ...

    def resolve(self, version: str) -> Artifacts:
        """Find the binaries of `version`, or of a path; raises UsageError or MachineError with the remedy."""
        ...

    def at_hand(self, version: str) -> bool:
        """Whether `resolve` has nothing to fetch or to build for this release. Asks no network."""
        ...

    @property
    def image_recipe(self) -> ImageRecipe | None:
        """What an image of this system is made of; None when it runs in containers only from a person's image."""
        ...

    def in_image(self, image: ImageFacts) -> Artifacts:
        """The binaries inside an image, ours or a person's; the path "image" names it. Raises UsageError."""
        ...

    def known_versions(self) -> tuple[str, ...]:
        """The releases that `resolve` can get by their number, in order; a path is always taken as well."""
        ...

    def specs(
        self,
        layout: Layout,
        artifacts: Artifacts,
        options: Mapping[str, object],
        settings: Settings = NO_SETTINGS,
    ) -> list[NodeSpec]:
        """`options` are the plan's [system_options], `settings` those of the servers themselves (`--set`), checked."""
        ...

    def leadership(self, options: Mapping[str, object], version: str = "") -> LeadershipBound:
        """How long a cut-off leader of this release may go on claiming; of the default one when it is not named."""
        ...

    async def ready(self, node: Node) -> bool:
        """Whether this node serves now: one short attempt, asked of this node alone."""
        ...

    async def healthy(self, layout: Layout) -> str | None:
        """None when every node serves and all agree on one leader; else what is still wrong, in words."""
        ...

    async def open_client(
        self, place: Place, *, connect_timeout_s: float, options: Mapping[str, object] | None = None
    ) -> Session:
        """A fresh connection to this node alone; raises `Definite` when it cannot be opened.

        `options` are the plan's [system_options] as `specs` gets them (lease and session times); None: the defaults.
        """
        ...

    def question(self, place: Place, subject: str) -> Question | None:
        """A way of asking this node about the subject; None where the node has no say in it."""
        ...

    async def prepare(self, client: Any, keys: tuple[str, ...]) -> None:
        """Make the keys that a workload is going to use, where the store needs that; idempotent."""
        ...

    def became_leader(self, line: str) -> int | None:
        """The epoch, when this log line says that the node became leader; else None."""
        ...

    def fatal_line(self, line: str) -> str | None:
        """Why this log line says that the server lacks what it needs, although it lives on; else None.

        One that starts will never serve; one that serves may drop work without a word.
        """
        ...

    def options(self) -> dict[str, object]:
        """The system's own settings with their defaults, as they stand in a plan's [system_options]."""
        ...


@runtime_checkable
class MovesLeadership(Protocol):
    """A system that hands its leadership over when it is asked to; the others are made to by ending their leader."""

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
    """A system whose topic partitions have leaders of their own, each with a preferred one."""

    async def partition_reigns(self, layout: Layout, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        """By partition, as one node knows them; raises `Definite` or `Indefinite` when no node answers."""
        ...

    async def elect_preferred(self, layout: Layout, *, timeout_s: float) -> None:
        """Ask that each partition be led by its preferred node again.

        Raises `Definite` when no node takes that, `Indefinite` when nobody knows whether one did.
        """
        ...
