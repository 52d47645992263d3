"""Servers of another release in a running cluster: what a server says it is, and which changes cannot be."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.harness.systems.contract import releases
from fencepost.harness.systems.contract.server_settings import Settings

#: A server that serves says its version at once, or in its log a moment later.
_SAYS_S: Final = 10.0
_ASK_S: Final = 2.0
_LOOK_S: Final = 0.05


@runtime_checkable
class TellsVersion(Protocol):
    """Its servers say which release they are, so that a change of it can be proven."""

    async def told_version(self, node: Node, *, log_from: int) -> str:
        """The release, as this server itself says it: when it is asked, else in its log from that byte on.

        Raises anything when it does not (yet).
        """
        ...

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        """What this node says when it runs from these artifacts."""
        ...

    def refuse_change(self, start: str, to: str, *, back: bool, options: Any, settings: Settings) -> Refusal | None:
        """Why the nodes of a cluster that began as release `start` cannot be started again as `to`, one by one.

        None where they can. With `back` each is to return to `start` once all were changed.
        """
        ...


async def ask_version(
    system: TellsVersion, node: Node, *, log_from: int, hurried: Callable[[], bool]
) -> tuple[str | None, str]:
    """Ask until the server says its release, or the time is over: the release, else None and why not."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _SAYS_S
    while True:
        try:
            async with asyncio.timeout(_ASK_S):
                return await system.told_version(node, log_from=log_from), ""
        except Exception as error:
            if loop.time() > end_s or hurried():
                return None, str(error) or type(error).__name__
        await asyncio.sleep(_LOOK_S)


def minor(version: str) -> tuple[int, ...] | None:
    """Major and minor number ("3.5.1", "3.6.0-rc.2"); None of what is no release's number, such as a path."""
    try:
        return releases.numbers(version.partition("-")[0])[:2]
    except ValueError:
        return None
