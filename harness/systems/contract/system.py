"""What a system under test says of itself: how it starts, what it promises, how one node is asked.

A system is one object of this protocol in `harness.plugins.registry.SYSTEMS`. It has the eight members of `System`;
`base.BaseSystem` has defaults for some of them, and `abilities` lists what only some systems can do. Nothing here
starts a process; the runtime does.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.harness.coordination import Session
from fencepost.harness.history import Claim
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.runtime.provider import Served
from fencepost.harness.systems.contract.profile import Profile
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.verdict import Guarantee


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


class Releases(Served, Protocol):
    """Which releases of a system there are, and where their binaries come from, outside of images and inside."""

    @property
    def default(self) -> str:
        """The release that a plan means that names none."""
        ...

    def known(self) -> tuple[str, ...]:
        """The releases that `resolve` can get by their number, in order; a path is always taken as well."""
        ...

    def at_hand(self, version: str) -> bool:
        """Whether `resolve` has nothing to fetch or to build for this release. Asks no network."""
        ...


class System(Protocol):
    """What every system has. Where it says `options`, it gets a struct of the type `profile.options`."""

    @property
    def profile(self) -> Profile[Any]:
        """Its name, and every fact that others must know of it."""
        ...

    @property
    def releases(self) -> Releases: ...

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        """What this release is held to ("": the default one); every release has the same names."""
        ...

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: Any, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        """Every node as data, from what the plan chose; `settings` are those of the servers themselves (`--set`)."""
        ...

    async def ready(self, node: Node) -> bool:
        """Whether this node serves now: one short attempt, asked of this node alone."""
        ...

    async def healthy(self, layout: Layout) -> str | None:
        """None when every node serves and all agree on one leader; else what is still wrong, in words."""
        ...

    async def open_client(self, place: Place, *, connect_timeout_s: float, options: Any | None = None) -> Session:
        """A fresh connection to this node alone; raises `Definite` when it cannot be opened.

        `options` are as `specs` gets them (lease and session times); None: the defaults.
        """
        ...

    def question(self, place: Place, subject: str) -> Question | None:
        """A way of asking this node about the subject; None where the node has no say in it."""
        ...
