"""Starts servers again that a fault ended, and proves that they run; waits for what servers do."""

import asyncio
from collections.abc import Callable
from typing import Final

from fencepost.harness.faults.kind import Cluster, Proof
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.node import Node, NodeState

_ASK_S: Final = 2.0


async def started_again(nodes: list[Node]) -> Proof:
    """Start the nodes that are down; return the proof that all of them run."""
    for node in nodes:
        if node.state in (NodeState.DEAD, NodeState.NEW):
            await node.start()
    down = [node.name for node in nodes if (await node.evidence()).state is not NodeState.RUNNING]
    if down:
        return Proof(FaultOutcome.INDETERMINATE, f"not running after the restart: {', '.join(down)}")
    return Proof(FaultOutcome.HEALED, f"running as process {', '.join(str(node.pid) for node in nodes)}")


async def is_ready(node: Node, cluster: Cluster) -> bool:
    """Ask once, briefly, whether the node serves; an exception means no."""
    try:
        async with asyncio.timeout(_ASK_S):
            return await cluster.system.ready(node)
    except Exception:
        return False


async def until(condition: Callable[[], bool], within_s: float, *, look_s: float = 0.05) -> None:
    """Wait until the condition holds or the time is over."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while not condition() and loop.time() < end_s:
        await asyncio.sleep(min(look_s, max(end_s - loop.time(), 0.0)))
