"""What a server itself says of its time, for systems whose servers do: an independent look at a skewed clock."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.history import Clock
from fencepost.harness.runtime.node import Place


@dataclass(frozen=True, slots=True)
class ToldTime:
    """The server's clock showed at least `shown_ns`, and less than `resolution_ns` more, while it was asked.

    A wall clock counts from 1970, a monotonic one from where the server began to. `source` says what was asked.
    """

    shown_ns: int
    resolution_ns: int
    source: str


@runtime_checkable
class TellsTime(Protocol):
    """Its servers tell what their clocks show."""

    async def told_time(self, place: Place, clock: Clock) -> ToldTime | None:
        """Ask this node alone; None where it does not tell of that clock. Raises OSError and ValueError."""
        ...
