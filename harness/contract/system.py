"""What a system under test declares: how it starts, what it promises, how one node is asked.

A system is one object that a leaf names in its table SYSTEMS. It has the eight members of `System` and is written as a
`base.BaseSystem[ItsOptions]`, which has defaults for some of them. `abilities` lists what only some systems can do.
Nothing here starts a process; the runtime does.

`BaseSystem` and `BaseReleases` have defaults, so that a small system needs few lines.

    class Counter(BaseSystem[CounterOptions]):
        profile = Profile(name="counter", options=CounterOptions, interfaces=..., reads=..., listeners={"client": 7000})
        releases = CounterReleases()
        guarantees = Path(__file__).with_name("guarantees.toml")

        spec = staticmethod(...)
        async def healthy(...)
        async def open_client(...)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.guarantees import read_guarantees
from fencepost.harness.contract.options import S
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.coordination import Session
from fencepost.harness.history import Claim
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.runtime.provider import Served
from fencepost.harness.verdict import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One node's answer to the question whether it leads; the observer adds the times.

    `leader` is the name of the node that it takes for the leader. `position` is where its store stands.
    """

    claims: Claim
    source: str
    epoch: int | None = None
    epoch_exact: bool = True
    leader: str | None = None
    position: int | None = None
    detail: str | None = None


class Question(Protocol):
    """A reusable question to one node alone. `ask` may be called while earlier questions are unanswered."""

    async def ask(self) -> Answer:
        """Ask once. Raises anything without an answer (the observer records `silent`); cancelled at its deadline."""
        ...

    async def close(self) -> None: ...


class Releases(Served, Protocol):
    """The releases of a system, and where their binaries come from, in images and outside of them."""

    @property
    def default(self) -> str:
        """The release of a plan that names none."""
        ...

    def known(self) -> tuple[str, ...]:
        """The releases that `resolve` can get by their number, in order; `resolve` also accepts a path."""
        ...

    def at_hand(self, version: str) -> bool:
        """Whether `resolve` has nothing to fetch or to build for this release. Uses no network."""
        ...


class SystemOf(Protocol[S]):
    """What every system has; `S` is the struct of its options, `profile.options`."""

    @property
    def profile(self) -> Profile[S]:
        """Its name, and the facts about it that other code needs."""
        ...

    @property
    def releases(self) -> Releases: ...

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        """The guarantees that this release ("": the default) is held to; every release has the same names."""
        ...

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: S, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        """Describe every node of the cluster as data.

        Args:
            layout: where the nodes live, by name.
            artifacts: the binaries of the release.
            options: the plan's options of this system.
            settings: settings of the servers themselves (`--set`).
        """
        ...

    async def ready(self, node: Node) -> bool:
        """Whether this node serves now, by one short request to this node alone."""
        ...

    async def healthy(self, layout: Layout) -> str | None:
        """What is still wrong, in words; None when every node serves and all agree on one leader."""
        ...

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: S | None = None
    ) -> Session:
        """Open a connection to this node alone; raises `Definite` when it cannot be opened.

        Args:
            interface: one of `Profile.interfaces`; the session offers what belongs to it.
            options: as `specs` gets them, for the times of leases and sessions; None for the defaults.
        """
        ...

    def question(self, place: Place, subject: str) -> Question | None:
        """A question to this node about the subject (see `Profile.subjects`); None where the node cannot answer it."""
        ...


#: Any system, for whoever passes its options on without reading them.
System: TypeAlias = SystemOf[Any]


class BaseSystem(SystemOf[S], ABC):
    """A system whose promises stand in a file, and whose nodes are not asked who leads."""

    #: What the system is held to (`guarantees`).
    guarantees: Path

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        return read_guarantees(self.guarantees, version or self.releases.default)

    #: Describes one node as data, from the arguments of `specs`; a system that describes all at once overrides that.
    spec: Callable[[Place, Layout, Artifacts, S, Settings], NodeSpec]

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: S, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [self.spec(place, layout, artifacts, options, settings) for place in layout.values()]

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        """`harness.contract.reported_version.TellsVersion`: a node reports the release of its artifacts."""
        return artifacts.version

    async def ready(self, node: Node) -> bool:
        """Whether this node, looked at as a cluster of one, is healthy."""
        return await self.healthy({node.name: node.place}) is None

    def question(self, place: Place, subject: str) -> Question | None:
        return None


class BaseReleases(Releases, ABC):
    """The releases of a system that has one release, already on this machine, and no image."""

    @property
    @abstractmethod
    def default(self) -> str: ...

    @abstractmethod
    def resolve(self, version: str) -> Artifacts: ...

    def known(self) -> tuple[str, ...]:
        return (self.default,)

    def at_hand(self, version: str) -> bool:
        return version == self.default

    @property
    def image_recipe(self) -> ImageRecipe | None:
        return None

    def in_image(self, image: ImageFacts) -> Artifacts:
        raise UsageError(f"{image.reference}: this system does not run from an image", hint="use --runtime lab")
