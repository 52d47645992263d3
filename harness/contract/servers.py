"""What some systems need beyond starting their servers: roles, prepared keys, logs that report failures."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from fencepost.harness.contract.options import S_contra, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Session
from fencepost.harness.history import NodeLog
from fencepost.harness.runtime.node import Member, members_alike


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
class PreparesKeys(Protocol):
    """Its keys must be created before a workload uses them."""

    async def prepare(self, client: Session, keys: tuple[str, ...]) -> None:
        """Create these keys through a client that this system opened. Idempotent."""
        ...


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


async def prepare_keys(system: System, client: Session, keys: tuple[str, ...]) -> None:
    """Create the keys that a workload will use, where the system's store needs that. Idempotent."""
    if isinstance(system, PreparesKeys):
        await system.prepare(client, keys)


@runtime_checkable
class LogsFailures(Protocol):
    """Its servers may stay alive without being able to serve, and only their logs say so."""

    def fatal_line(self, line: str) -> str | None:
        """Why the server cannot serve, where this log line says so; else None.

        A server that is starting will then never serve. A server that serves may drop work silently.
        """
        ...
