"""Refused attempts to act as a leader, as the servers' logs record them."""

from typing import NamedTuple, Protocol, runtime_checkable


class Attempt(NamedTuple):
    """One refused attempt in a log, as `harness.history.operation.AttemptEvent` records it.

    `node` is the node that made the attempt; None stands for the node whose log it is.
    """

    f: str
    error: str
    node: str | None = None
    epoch: int | None = None
    key: str | None = None
    detail: str | None = None


class AttemptReader(Protocol):
    """Reads one node's log line by line, since an attempt and its refusal may stand on two lines."""

    def read(self, line: str) -> Attempt | None: ...


@runtime_checkable
class TellsAttempts(Protocol):
    """Its servers log the attempts to act as a leader that were refused."""

    def attempts(self) -> AttemptReader:
        """Make a reader for one node's log, from its beginning."""
        ...
