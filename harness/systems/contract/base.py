"""Defaults for systems, so that a small one is short.

    class Counter(BaseSystem):
        profile = Profile(name="counter", interfaces=..., reads=..., listeners={"client": 7000})
        releases = CounterReleases()
        guarantees = (Guarantee(...),)

        def specs(...)
        async def healthy(...)
        async def open_client(...)

Everything else has a default here, or is an ability (`abilities`) that a system may have or lack.
"""

from abc import ABC, abstractmethod

from fencepost.harness.base.errors import UsageError
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.node import Node, Place
from fencepost.harness.systems.contract.system import Question, Releases, System
from fencepost.harness.verdict import Guarantee


class BaseSystem(System, ABC):
    """A system whose releases all promise the same, and whose nodes nobody asks who leads."""

    #: What every release is held to, where `promises` is not overridden.
    guarantees: tuple[Guarantee, ...] = ()

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        return self.guarantees

    async def ready(self, node: Node) -> bool:
        """What is healthy as a cluster of its own serves."""
        return await self.healthy({node.name: node.place}) is None

    def question(self, place: Place, subject: str) -> Question | None:
        return None


class BaseReleases(Releases, ABC):
    """The releases of a system that is at hand in its one release, and has no image."""

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
        raise UsageError(f"{image.reference}: this system is not run from an image", hint="--runtime lab")
