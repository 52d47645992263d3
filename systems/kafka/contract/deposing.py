"""Taking the role from a controller without asking it, for systems whose administrators can do that."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from fencepost.harness.runtime.node import Place


class Administrator(Protocol):
    """What an administrator can do in the store that keeps the role. Calls raise `Definite` or `Indefinite`."""

    async def controller(self) -> tuple[str, int] | None:
        """The node that holds the role and the version of its entry; None while nobody holds it."""
        ...

    async def make_topic(self, name: str) -> None:
        """Make a topic with one partition on every broker, without telling the controller."""
        ...

    async def depose(self, version: int) -> None:
        """Delete the holder's entry if it still has this version."""
        ...

    async def successor(self, deposed: str) -> tuple[str, int]:
        """Wait until another node than `deposed` holds the role; return it and its epoch. The caller sets a limit."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DeposesController(Protocol):
    """Its controller can lose its role while it is paused and its session is still alive."""

    async def open_administrator(self, running: Sequence[Place]) -> Administrator:
        """Connect to one of these nodes; raises `Definite` or `Indefinite` when none can be reached."""
        ...
