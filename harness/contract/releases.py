"""Release numbers, in order and in words ("3.5.0 to 3.5.21, 3.6.0"); the one that a server reports, and which changes
of release a running cluster allows."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node

#: A server reports its version as soon as it serves, or in its log a moment later.
_SAYS_S: Final = 10.0
_ASK_S: Final = 2.0
_LOOK_S: Final = 0.05


def in_order(releases: Iterable[str]) -> tuple[str, ...]:
    """Sort by number, not by letter: 3.5.9 comes before 3.5.10, and 6.0-alpha2 before 6.0."""
    return tuple(sorted(releases, key=_order))


def in_words(releases: Iterable[str]) -> str:
    """List the releases for a person, consecutive patch releases as "first to last"."""
    runs = groupby(enumerate(in_order(releases)), key=lambda item: _beside(*item))
    parts = []
    for _, members in runs:
        run = [release for _, release in members]
        parts.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run))
    return ", ".join(parts)


def _order(release: str) -> tuple[tuple[int, ...], bool, str]:
    number, dash, early = release.partition("-")
    return numbers(number), not dash, early


def _beside(at: int, release: str) -> tuple[object, ...]:
    """The same for releases that follow each other by their last number, given the place in the order."""
    number, _, early = _order(release)
    return number[:-1], number[-1] - at, early


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release: (3, 5, 1) for "3.5.1"; raises ValueError for anything else."""
    return tuple(map(int, release.split(".")))


def is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether this is certainly a release before `first`; False for what is not a number, such as "latest"."""
    try:
        return numbers(version.partition("-")[0]) < first
    except ValueError:
        return False


def lacks_fix(version: str, fixed: Iterable[str]) -> bool:
    """Whether this release stands before the first fixed one of its line of releases; False for what is no number."""
    firsts = sorted(map(numbers, fixed))
    own = next((first for first in firsts if is_before(version, (*first[:-2], first[-2] + 1))), firsts[-1])
    return is_before(version, own)


def minor(version: str) -> tuple[int, ...] | None:
    """Major and minor number of a release ("3.5.1", "3.6.0-rc.2"); None for anything else, such as a path."""
    try:
        return numbers(version.partition("-")[0])[:2]
    except ValueError:
        return None


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
