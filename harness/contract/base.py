"""Defaults for systems, so that a small system needs few lines.

    class Counter(BaseSystem[CounterOptions]):
        profile = Profile(name="counter", options=CounterOptions, interfaces=..., reads=..., listeners={"client": 7000})
        releases = CounterReleases()
        guarantees = (Guarantee(...),)

        def specs(...)
        async def healthy(...)
        async def open_client(...)

Everything else has a default here, or is an ability (`abilities`) that a system may have.
"""

from abc import ABC, abstractmethod

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.options import S
from fencepost.harness.contract.system import Question, Releases, SystemOf
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Node, Place
from fencepost.harness.verdict import Guarantee


class BaseSystem(SystemOf[S], ABC):
    """A system whose releases all promise the same, and whose nodes are not asked who leads."""

    #: The guarantees of every release; a system whose releases differ overrides `promises`.
    guarantees: tuple[Guarantee, ...] = ()

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        return self.guarantees

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
