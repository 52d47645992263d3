"""What every runtime has beside the cluster itself: what it needs, what it can do, how it is opened and swept.

The lab and the containers are one `Provider` each in `harness.plugins.registry.RUNTIMES`. The outer process asks it
before a run (`refuse`, `refuse_if_impossible`, `resolve`) and after it (`sweep`); the runner opens the cluster with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Member, Runtime, members_alike


class Links(StrEnum):
    """How links are enforced: by packet rules from here, from a side-car in each node's namespace, or by a proxy."""

    AUTO = "auto"
    RULES = "rules"
    SIDECAR = "sidecar"
    TOXIPROXY = "toxiproxy"


def _possible() -> Refusal | None:
    return None


class Need(StrEnum):
    """What a kind of fault needs of the runtime that not every engine can do."""

    #: Every process of a node stopped at once, and resumed.
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the nodes live, and what they are: `image` is a person's own, `limited_data` a hard limit."""

    runtime: str = "lab"
    nodes: int = 3
    #: Who they are; empty: `nodes` that are all the same.
    members: tuple[Member, ...] = ()
    links: Links = Links.AUTO
    image: str = ""
    limited_data: bool = False
    #: Why members of this system cannot be removed and added; None where they can.
    fixed_members: Refusal | None = None
    #: Why one that was removed can come back only without its data; None where it can keep them.
    wiped_members: Refusal | None = None
    #: Why this system's controller cannot be deposed while it is paused; None where it can.
    fixed_controller: Refusal | None = None
    #: Why the files of the nodes cannot be changed from here (`Provider.closed_files`); None where they can.
    closed_files: Refusal | None = None
    #: Asks the runtime (`Provider.why_untraceable`).
    why_untraceable: Callable[[], Refusal | None] = field(default=_possible, compare=False, repr=False)
    #: Asks the runtime (`Provider.why_unshaped`).
    why_unshaped: Callable[[], Refusal | None] = field(default=_possible, compare=False, repr=False)

    @property
    def cluster(self) -> tuple[Member, ...]:
        """Every node, in order."""
        return self.members or members_alike(self.nodes)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `fencepost doctor`: what was looked for and found; when it will not do, why and the remedy."""

    name: str
    ok: bool
    found: str
    why: str | None = None
    remedy: str | None = None


#: What each kind of fault of a plan needs, by the kind's name.
Needs = Mapping[str, frozenset[Need]]
NO_NEEDS: Final[Needs] = {}

#: Told in words what takes long (an image that is built, a binary that is fetched).
Say = Callable[[str], None]


class Served(Protocol):
    """What a runtime needs of the system that its nodes run: where the binaries are, outside of images and inside."""

    def resolve(self, version: str) -> Artifacts:
        """Find the binaries of `version`, or of a path; raises UsageError or MachineError with the remedy."""
        ...

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Name the binaries inside an image, ours or a person's; the path "image" names it. Raises UsageError."""
        ...

    @property
    def image_recipe(self) -> ImageRecipe | None:
        """What an image of this system is made of; None when it runs in containers only from a person's image."""
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
        """Whether the runner enters fresh namespaces before anything else (the lab), whose end removes everything."""
        ...

    def refuse(self, placement: Placement) -> Refusal | None:
        """Why this placement makes no sense here, whatever the machine; None when it does."""
        ...

    def why_untraceable(self) -> Refusal | None:
        """Why the processes of its nodes cannot be traced from here; None when they can."""
        ...

    def why_unshaped(self) -> Refusal | None:
        """Why its links cannot be made slow or lossy here; None when they can."""
        ...

    @property
    def closed_files(self) -> Refusal | None:
        """Why the files of its nodes cannot be changed from here; None when they can."""
        ...

    def checks(self) -> list[Check]:
        """Everything that a run here needs of this machine, for `fencepost doctor`."""
        ...

    def refuse_if_impossible(self, placement: Placement, needs: Needs = NO_NEEDS) -> Placement:
        """The placement with `auto` made concrete; raises MachineError with the reason and the remedy.

        `needs` are those of the kinds of faults that the plan asks for: what this machine cannot do is refused as well.
        """
        ...

    def resolve(self, system: Served, version: str, placement: Placement, say: Say) -> Artifacts:
        """The binaries or the image that nodes will run; may build or pull. Raises UsageError or MachineError."""
        ...

    async def open(
        self, folder: Path, placement: Placement, listeners: Mapping[str, int], artifacts: Artifacts
    ) -> Runtime:
        """Make the nodes' places; what is kept of them lies below `folder`/nodes. No server runs yet.

        `listeners` are the system's: nodes dial every one but "client", the harness those that each member names.
        `folder` is the run's; what a runtime leaves outside of it is labelled with the run's id.
        """
        ...

    def sweep(self, folder: Path | None) -> list[str]:
        """Remove what the run in `folder` left behind (None: every run of this machine whose process is gone).

        Called when no process of the run is left. Returns, in words, what could not be removed, with the command that
        does it; what was removed is nobody's concern.
        """
        ...


def with_runtime(placement: Placement, provider: Provider) -> Placement:
    """The placement with what its runtime says that can be done to nodes and links there."""
    return replace(
        placement,
        closed_files=provider.closed_files,
        why_untraceable=provider.why_untraceable,
        why_unshaped=provider.why_unshaped,
    )
