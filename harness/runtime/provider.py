"""What a runtime says of itself: what it needs, what it can do, how it is opened and cleaned up.

The lab and the containers are one `Provider` each in `harness.plugins.registry.RUNTIMES`. The outer process uses it
before a run (`refuse`, `refuse_if_impossible`, `resolve`) and after it (`sweep`); the runner opens the cluster with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Member, Runtime, members_alike

NO_PROXY: Final = Refusal("no proxy stands in the connections of the cluster", "add --runtime containers")


class Need(StrEnum):
    """What a kind of fault needs from the runtime and not every runtime or machine can do."""

    #: Stop and resume every process of a node at once; the engine is asked before a run.
    FREEZE = "freeze"
    #: Change the files of the nodes from here.
    FILES = "files"
    #: Trace the processes of the nodes from here; depends on the machine.
    TRACE = "trace"
    #: Make links slow or lossy; depends on the machine.
    SHAPE = "shape"
    #: A proxy in every connection of the cluster, from its start.
    STREAMS = "streams"


def _possible(need: Need) -> Refusal | None:
    return NO_PROXY if need is Need.STREAMS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the nodes live, and who they are.

    `image` is a person's own image. `limited_data`: data directories have a hard size limit. `streams`: every
    connection goes through a proxy, because a fault of the plan needs it.
    """

    runtime: str = "lab"
    nodes: int = 3
    #: The nodes with their roles; empty: `nodes` of them, all the same.
    members: tuple[Member, ...] = ()
    streams: bool = False
    image: str = ""
    limited_data: bool = False
    #: The system under test, for a fault that needs a part of it, and the release or the path of a build: "" for an
    #: image, which decides the release.
    system: Any = field(default=None, compare=False, repr=False)
    version: str = ""
    system_options: Any = field(default=None, compare=False, repr=False)
    #: Asks the runtime (`Provider.why_not`).
    why_not: Callable[[Need], Refusal | None] = field(default=_possible, compare=False, repr=False)

    @property
    def system_name(self) -> str:
        """The system in a message."""
        return "this system" if self.system is None else str(self.system.profile.name)

    @property
    def other_leaders(self) -> tuple[str, ...]:
        """Targets that follow the leader of something else than most faults follow (NATS: "meta")."""
        return () if self.system is None else tuple(self.system.profile.other_leaders)

    @property
    def cluster(self) -> tuple[Member, ...]:
        """Every node, in order."""
        return self.members or members_alike(self.nodes)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `fencepost doctor`: what was checked, its state, and if that is not enough, why and the remedy."""

    name: str
    ok: bool
    state: str
    why: str | None = None
    remedy: str | None = None


#: What each kind of fault of a plan needs, by the kind's name.
Needs = Mapping[str, frozenset[str]]
NO_NEEDS: Final[Needs] = {}

#: Gets one sentence about what takes long (an image that is built, a binary that is fetched).
Say = Callable[[str], None]


class Served(Protocol):
    """What a runtime needs from the system that its nodes run: where its binaries are, here and in images."""

    def resolve(self, version: str) -> Artifacts:
        """Return the binaries of a version or a path; raise UsageError or MachineError with the remedy."""
        ...

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Return the binaries inside an image; the path "image" is its reference. Raise UsageError."""
        ...

    @property
    def image_recipe(self) -> ImageRecipe | None:
        """What an image of this system is made of; None where only a person's own image can be used."""
        ...


class Provider(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str:
        """One line for `fencepost list runtimes`."""
        ...

    @property
    def in_namespaces(self) -> bool:
        """Whether the runner first enters fresh namespaces (the lab), whose end removes everything."""
        ...

    def refuse(self, placement: Placement) -> Refusal | None:
        """Return why this placement makes no sense in this runtime, on any machine; None when it does."""
        ...

    def why_not(self, need: Need) -> Refusal | None:
        """Return why its nodes or links do not allow this; None when they do."""
        ...

    def checks(self) -> list[Check]:
        """Check everything that a run needs of this machine, for `fencepost doctor`."""
        ...

    def refuse_if_impossible(self, placement: Placement, needs: Needs = NO_NEEDS) -> Placement:
        """Return the placement with what the faults need.

        Args:
            needs: what the plan's faults need, by kind.

        Raises:
            MachineError: this machine cannot run the placement or one of the faults; with the remedy.
        """
        ...

    def resolve(self, system: Served, version: str, placement: Placement, say: Say) -> Artifacts:
        """Return the binaries or the image that nodes will run; may build or pull. Raise UsageError or MachineError."""
        ...

    async def open(
        self, folder: Path, placement: Placement, listeners: Mapping[str, int], artifacts: Artifacts
    ) -> Runtime:
        """Make the places of the nodes; no server runs yet.

        Args:
            folder: the run's folder; files of nodes lie below `folder`/nodes. What the runtime makes elsewhere is
                labelled with the run's id.
            listeners: the system's ports by name. Nodes dial every one except "client"; the harness dials those that
                each member names.
        """
        ...

    def sweep(self, folder: Path | None) -> list[str]:
        """Remove what the run in `folder` left behind; None: what every run of this machine left whose process is gone.

        Called when no process of the run is left.

        Returns:
            What could not be removed, one sentence each, with the command that removes it.
        """
        ...
