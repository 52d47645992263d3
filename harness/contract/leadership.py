"""Who leads: the bound for a leader that is cut off, what logs say about it, and how leadership is moved.

Leases that end by time unless they are kept alive (ZooKeeper: sessions), and nodes that keep a session with those that
hold the metadata (Kafka's brokers), have bounds of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.options import S_contra, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.runtime.node import Member, Place
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import LeadershipBound, LeaseBound, SessionBound, Standing


@runtime_checkable
class BoundsLeadership(Protocol[S_contra]):
    """It states for how long a leader that is cut off may still claim to lead."""

    def leadership(self, options: S_contra, version: str = "") -> LeadershipBound:
        """The bound of this release ("": the default release) with these options, and its source."""
        ...


#: For a system that states no bound: claims are measured and not judged.
_NO_BOUND: Final = LeadershipBound(
    bound_ns=None, source="the system states no bound", standing=Standing.MEASURED, one_leader_per_epoch=False
)


def leadership_of(system: System, options: SystemOptions, version: str = "") -> LeadershipBound:
    """The bound for a cut-off leader of this release; `bound_ns` is None where the system states none."""
    return system.leadership(options, version) if isinstance(system, BoundsLeadership) else _NO_BOUND


def with_leader(placement: Placement, system: System) -> Placement:
    """Add to the placement whether a node of this system leads, and whether its log says when it comes to lead."""
    name = system.profile.name
    if not system.profile.subjects:
        refusal = Refusal(f"no node of {name} leads", "name another target: one, minority, or a node's name")
        return replace(placement, leaderless=refusal, unlogged_leader=refusal)
    if claim_reader(system) is None:
        unlogged = Refusal(f"the logs of {name} do not say who leads", "wait for leader instead of claim")
        return replace(placement, unlogged_leader=unlogged)
    return placement


@runtime_checkable
class LogsReigns(Protocol):
    """Its servers log when they become the leader, and in which epoch."""

    def became_leader(self, line: str) -> int | None:
        """The epoch in which the node became leader, where this log line says so; else None."""
        ...


@runtime_checkable
class LogsClaims(Protocol):
    """Its servers log when they take over the leader's role, but not every subject has that epoch."""

    def claimed(self, line: str) -> int | None:
        """The epoch in which the node took over, where this log line says so; else None."""
        ...


def claim_reader(system: System) -> Callable[[str], int | None] | None:
    """What reads from a line of a node's log in which epoch the node came to lead; None where the logs do not tell."""
    if isinstance(system, LogsClaims):
        return system.claimed
    return system.became_leader if isinstance(system, LogsReigns) else None


@runtime_checkable
class MovesLeadership(Protocol):
    """Its leader hands its leadership over on request; that of other systems must be ended."""

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        """Ask the leader to hand its leadership to another node.

        Raises:
            Definite: it refuses, and nothing changed.
            Indefinite: nobody knows whether leadership moved.
        """
        ...


@runtime_checkable
class BoundsLeases(Protocol[S_contra]):
    """It grants leases, and states by when they end."""

    def lease_bound(self, options: S_contra) -> LeaseBound:
        """How much longer than its time to live a lease may last with these options, and the source."""
        ...


@runtime_checkable
class BoundsSessions(Protocol[S_contra]):
    """It has nodes that keep a session, and states by when one that reports to nobody is fenced."""

    def session_bound(self, members: Sequence[Member], options: S_contra) -> SessionBound:
        """These nodes among the members, the length of their sessions with these options, and the source."""
        ...


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
