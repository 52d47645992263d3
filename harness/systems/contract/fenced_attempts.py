"""Attempts to act as a leader that servers' logs tell of, for the systems whose logs do."""

from typing import NamedTuple, Protocol, runtime_checkable


class Attempt(NamedTuple):
    """What one log says was tried and refused, as `harness.history.operation.AttemptEvent` records it.

    `node` is None where the log's own node tried it.
    """

    f: str
    error: str
    node: str | None = None
    epoch: int | None = None
    key: str | None = None
    detail: str | None = None


class AttemptReader(Protocol):
    """Reads one node's log, line by line in order: a refusal may stand on another line than what was refused."""

    def read(self, line: str) -> Attempt | None: ...


@runtime_checkable
class TellsAttempts(Protocol):
    """Its servers write into their logs what they were refused as a leader."""

    def attempts(self) -> AttemptReader:
        """A reader for one node's log, from its beginning."""
        ...
