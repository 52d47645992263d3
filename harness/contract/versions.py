"""The release that a server reports, and which changes of release a running cluster allows."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract import releases
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node

#: A server reports its version as soon as it serves, or in its log a moment later.
_SAYS_S: Final = 10.0
_ASK_S: Final = 2.0
_LOOK_S: Final = 0.05


def _every(start: str, to: str, back: bool, settings: Settings) -> Refusal | None:
    return None


def _release(node: Node, artifacts: Artifacts) -> str:
    return artifacts.version


@dataclass(frozen=True, kw_only=True)
class Versions:
    """The releases that one system's servers report, and the changes of release that its clusters allow."""

    #: The release that this server itself reports: in an answer, or in its log from that byte on. Raises any exception
    #: while the server does not report one.
    reported: Callable[[Node, int], Awaitable[str]]
    #: The release that this node reports when it runs from these artifacts.
    expected: Callable[[Node, Artifacts], str] = _release
    #: Why nodes that began as the first release cannot be restarted as the second, one by one (and back again, each
    #: after all have changed) with these settings; None when they can.
    refuse_change: Callable[[str, str, bool, Settings], Refusal | None] = _every


async def ask_version(
    versions: Versions, node: Node, *, log_from: int, hurried: Callable[[], bool]
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
                return await versions.reported(node, log_from), ""
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
