"""What some systems need of their servers beyond starting them: roles, keys made first, logs that tell of failure."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fencepost.harness.history import NodeLog
from fencepost.harness.runtime.node import Member, members_alike
from fencepost.harness.systems.contract.options import SystemOptions
from fencepost.harness.systems.contract.system import System


@runtime_checkable
class ArrangesMembers(Protocol):
    """Its nodes have roles; those of other systems are all alike and are as many as the plan says."""

    def members(self, nodes: int, options: Any) -> tuple[Member, ...]:
        """The cluster of a plan with so many `nodes`, in order."""
        ...


def members_of(system: System, nodes: int, options: SystemOptions) -> tuple[Member, ...]:
    """The cluster of a plan with so many `nodes`, in order."""
    return system.members(nodes, options) if isinstance(system, ArrangesMembers) else members_alike(nodes)


@runtime_checkable
class PreparesKeys(Protocol):
    """Its keys must be made before a workload uses them."""

    async def prepare(self, client: Any, keys: tuple[str, ...]) -> None:
        """Make these keys through a client of its own; idempotent."""
        ...


@runtime_checkable
class StartsFromArchive(Protocol):
    """Its packaged release starts faster from an archive, which set-up makes by resolving that release."""

    def startup_archive(self) -> Path | None:
        """Where the archive is; None when it is absent."""
        ...


@runtime_checkable
class ReadsLogs(Protocol):
    """Its replicated log can be read off the disks of its nodes after a run."""

    def read_log(self, archive: Path, node: str) -> NodeLog | None:
        """The log in a node's kept data; None when there is none. Raises OSError, EOFError, ValueError or TarError."""
        ...


async def prepare_keys(system: System, client: Any, keys: tuple[str, ...]) -> None:
    """Make the keys that a workload is going to use, where the system's store needs that; idempotent."""
    if isinstance(system, PreparesKeys):
        await system.prepare(client, keys)


@runtime_checkable
class LogsFailures(Protocol):
    """Its servers may live on without what they need, and say so in their logs only."""

    def fatal_line(self, line: str) -> str | None:
        """Why this log line says that the server lacks what it needs, although it lives on; else None.

        One that starts will never serve; one that serves may drop work without a word.
        """
        ...
