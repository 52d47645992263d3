"""The release that a server reports, and which changes of release a running cluster allows."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract import releases
from fencepost.harness.contract.options import S_contra
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node

#: A server reports its version as soon as it serves, or in its log a moment later.
_SAYS_S: Final = 10.0
_ASK_S: Final = 2.0
_LOOK_S: Final = 0.05


@runtime_checkable
class TellsVersion(Protocol[S_contra]):
    """Its servers report their release, so that a change of release can be proven."""

    async def reported_version(self, node: Node, *, log_from: int) -> str:
        """The release that this server itself reports: in an answer, or in its log from that byte on.

        Raises any exception while the server does not report one.
        """
        ...

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        """The release that this node reports when it runs from these artifacts."""
        ...

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: S_contra, settings: Settings
    ) -> Refusal | None:
        """Why the nodes of a cluster cannot be restarted as another release, one by one; None when they can.

        Args:
            start: the release that the cluster began as.
            to: the release that each node is to become.
            back: whether each node returns to `start` after all have changed.
        """
        ...


async def ask_version(
    system: TellsVersion[Any], node: Node, *, log_from: int, hurried: Callable[[], bool]
) -> tuple[str | None, str]:
    """Ask until the server reports its release or 10 s have passed.

    Args:
        log_from: the byte of the log from which the server's present life begins.
        hurried: whether the run is ending, so that waiting must stop.

    Returns:
        The release and ""; or None and why there is none.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _SAYS_S
    while True:
        try:
            async with asyncio.timeout(_ASK_S):
                return await system.reported_version(node, log_from=log_from), ""
        except Exception as error:
            if loop.time() > end_s or hurried():
                return None, str(error) or type(error).__name__
        await asyncio.sleep(_LOOK_S)


def minor(version: str) -> tuple[int, ...] | None:
    """Major and minor number of a release ("3.5.1", "3.6.0-rc.2"); None for anything else, such as a path."""
    try:
        return releases.numbers(version.partition("-")[0])[:2]
    except ValueError:
        return None
