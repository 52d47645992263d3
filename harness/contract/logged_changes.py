"""Changes of which servers' logs tell: who ceased to lead, which replicas are in sync, which brokers may serve."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from fencepost.harness.history import Logged


class LoggedChange(NamedTuple):
    """One change in a log, as `harness.history.operation.LogEvent` records it.

    `number` is the number of the node that it is about (`Place.number`); None stands for the node whose log it is.
    """

    change: Logged
    number: int | None = None
    subject: str | None = None
    key: str | None = None
    epoch: int | None = None
    position: int | None = None
    detail: str | None = None
    topic: str | None = None


@runtime_checkable
class LogsChanges(Protocol):
    """Its servers log such changes."""

    def logged(self, line: str) -> Sequence[LoggedChange]:
        """The changes that this log line tells of; none for any other line."""
        ...
