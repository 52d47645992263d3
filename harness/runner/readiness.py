"""Waits for servers: polls a condition until it holds or its deadline has passed.

A server that ended before it was ready is reported at once, with the end of its log. So is one that is late, and one
whose log says that it will never serve although it lives on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from fencepost.harness.base.errors import NodeNotReady
from fencepost.harness.contract.logs import Failed, LogReader
from fencepost.harness.contract.system import System
from fencepost.harness.history import NodeChange, NodeEvent
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runtime.node import Layout, Node, NodeState, death_of
from fencepost.harness.runtime.server_log import LogFollower

_POLL_S: Final = 0.02
_LOG_LINES: Final = 12
#: Remedies, for each way in which a server can fail to become ready.
_LACKS: Final = "choose another release, a folder with all that this one needs, or other settings of the server (--set)"
_LATE: Final = "the machine may be too busy for so many servers: end what else runs, or use fewer --nodes"
_ENDED: Final = "its log says why; -O sets options, --set sets settings of the server, --version chooses a release"


async def await_ready(system: System, node: Node, recorder: Recorder) -> None:
    """Wait until the present process of `node` serves, and record that.

    Raises:
        NodeNotReady: the process ended, was replaced by another one, or was late; with the end of its log.
    """
    incarnation = node.incarnation
    deadline_s = node.spec.ready_timeout_s
    # What an earlier process wrote is not this one's.
    log = LogFollower(node.log, from_end=incarnation > 0)
    reader = None if system.logs is None else LogReader(system.logs)
    fatal: list[str] = []

    def alive() -> bool:
        if reader is not None:
            events = (event for line in log.lines() for event in reader.read(line))
            fatal.extend(event.why for event in events if isinstance(event, Failed))
        return not fatal and node.incarnation == incarnation and node.state is not NodeState.DEAD

    if await _until(lambda: system.ready(node), deadline_s, alive):
        recorder.record(NodeEvent, node=node.name, change=NodeChange.READY, incarnation=incarnation, pid=node.pid)
        return
    late = f"is not ready after {deadline_s:g} s"
    became = f"will never be ready: {fatal[0]}" if fatal else late if alive() else "ended before it was ready"
    remedy = _LACKS if fatal else _LATE if alive() else _ENDED
    raise NodeNotReady(
        f"{node.name} {became}; the end of its log:\n{node.log_tail(_LOG_LINES)}",
        hint=f"{remedy}; its whole log is {node.log}",
    )


def refuse_dead(nodes: Iterable[Node]) -> None:
    """Raise NodeNotReady for the first node whose server ended by itself: how, and the end of its log."""
    for node in nodes:
        death = death_of(node)
        if death is not None:
            raise NodeNotReady(
                f"{death} before it was ready; the end of its log:\n{node.log_tail(_LOG_LINES)}",
                hint=f"{_ENDED}; its whole log is {node.log}",
            )


async def await_healthy(
    system: System, layout: Layout, *, deadline_s: float, relevant: Callable[[], bool] = lambda: True
) -> str | None:
    """Wait until the whole cluster is healthy; return None, or what is still wrong at the deadline.

    Gives up before the deadline once `relevant` no longer holds.
    """
    wrong: str | None = "not asked yet"

    async def healthy() -> bool:
        nonlocal wrong
        wrong = await system.healthy(layout)
        return wrong is None

    await _until(healthy, deadline_s, relevant)
    return wrong


async def _until(condition: Callable[[], Awaitable[bool]], deadline_s: float, relevant: Callable[[], bool]) -> bool:
    """Poll a condition until it holds or the deadline has passed; an exception means no."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    while relevant() and loop.time() < deadline:
        try:
            async with asyncio.timeout(max(deadline - loop.time(), 0.01)):
                if await condition():
                    return True
        except Exception:  # noqa: S110  # not ready is what a refused or broken attempt means
            pass
        await asyncio.sleep(_POLL_S)
    return False
