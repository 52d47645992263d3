"""How a node catches up that was down or cut off: by the changes it lacks, by a snapshot, or by cutting off its own.

Which of these happens depends on the store's thresholds, on the rate of the load and on how long a node was away. Each
has code of its own, and bugs of its own, so a run says which of them it had.
"""

from typing import Protocol, runtime_checkable

from fencepost.harness.history import CatchUp


@runtime_checkable
class LogsCatchUps(Protocol):
    """Its servers log how they caught up with the others."""

    @property
    def catch_ups(self) -> tuple[CatchUp, ...]:
        """The ways that its logs tell apart."""
        ...

    def caught_up(self, line: str) -> CatchUp | None:
        """How the node caught up, where this log line says so; else None."""
        ...
