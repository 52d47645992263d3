"""The time that a server itself reports: an independent measurement of a skewed clock."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.history import Clock
from fencepost.harness.runtime.node import Place


@dataclass(frozen=True, slots=True)
class ReportedTime:
    """A server's clock showed at least `shown_ns` and less than `shown_ns + resolution_ns` during the request.

    A wall clock counts from 1970, a monotonic clock from an origin of the server's own. `source` says what was read.
    """

    shown_ns: int
    resolution_ns: int
    source: str


@runtime_checkable
class TellsTime(Protocol):
    """Its servers report what their clocks show."""

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        """Ask this node alone; None where it does not report that clock. Raises OSError and ValueError."""
        ...
