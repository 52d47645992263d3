"""Taking the controller's role away without asking the controller: for systems whose administrators can."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.node import Place
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.systems.contract.system import System


class Administrator(Protocol):
    """What an administrator does where the role is kept; every call raises `Definite` or `Indefinite`."""

    async def controller(self) -> tuple[str, int] | None:
        """Who holds the role, and the version of that entry; None while nobody does."""
        ...

    async def make_topic(self, name: str) -> None:
        """Make a topic with one partition on every broker, which the controller has yet to learn of."""
        ...

    async def depose(self, version: int) -> None:
        """Delete the holder's entry if it is still of this version."""
        ...

    async def successor(self, deposed: str) -> tuple[str, int]:
        """The next holder and its epoch, once there is another one than `deposed`; the caller bounds the wait."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DeposesController(Protocol):
    """Its controller can lose its role while it is paused and its session lives on."""

    async def open_administrator(self, running: Sequence[Place]) -> Administrator:
        """Connect to one of these nodes; raises `Definite` or `Indefinite` when none of them can be reached."""
        ...


def with_controller(placement: Placement, system: System) -> Placement:
    """The placement with whether this system's controller can be deposed."""
    if isinstance(system, DeposesController):
        return placement
    refusal = Refusal(
        f"nobody can take the role of the controller of {system.profile.name} away",
        "choose a system with the ability deposes-controller (fencepost list abilities)",
    )
    return replace(placement, fixed_controller=refusal)
