"""What some systems' servers need beyond being started, and what they tell: roles, waits, logs, clocks.

How a node catches up that was down or cut off (by the changes it lacks, by a snapshot, or by cutting off its own)
depends on the store's thresholds, on the rate of the load and on how long a node was away. Each way has code of its
own, and bugs of its own, so a run says which of them it had.

The time that a server itself reports is an independent measurement of a skewed clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from fencepost.harness.contract.options import S_contra, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.history import CatchUp, Clock, Logged, NodeLog
from fencepost.harness.runtime.node import Layout, Member, Node, Place, members_alike


@runtime_checkable
class ArrangesMembers(Protocol[S_contra]):
    """Its nodes have roles; the nodes of other systems are all alike, as many as the plan says."""

    def members(self, nodes: int, options: S_contra) -> tuple[Member, ...]:
        """The members of a cluster for a plan with this number of `nodes`, in order."""
        ...


def members_of(system: System, nodes: int, options: SystemOptions) -> tuple[Member, ...]:
    """The members of a cluster for a plan with this number of `nodes`, in order."""
    return system.members(nodes, options) if isinstance(system, ArrangesMembers) else members_alike(nodes)


@runtime_checkable
class StartsFromArchive(Protocol):
    """Its packaged release starts faster from an archive, which set-up makes when it resolves that release."""

    def startup_archive(self) -> Path | None:
        """The path of the archive; None when there is none."""
        ...


@runtime_checkable
class ReadsLogs(Protocol):
    """Its replicated log can be read from the disks of its nodes after a run."""

    def read_log(self, archive: Path, node: str) -> NodeLog | None:
        """Read the log in a node's kept data; None when there is none.

        Raises:
            OSError, EOFError, ValueError, tarfile.TarError: the data cannot be read.
        """
        ...


@runtime_checkable
class LogsFailures(Protocol):
    """Its servers may stay alive without being able to serve, and only their logs say so."""

    def fatal_line(self, line: str) -> str | None:
        """Why the server cannot serve, where this log line says so; else None.

        A server that is starting will then never serve. A server that serves may drop work silently.
        """
        ...


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


@runtime_checkable
class WaitsToStart(Protocol):
    """A dead server is started again only once another process can take its place."""

    async def before_start(self, node: Node, layout: Layout) -> None:
        """Return once another process of this node can start, or nobody can tell; it sets a limit itself."""
        ...
