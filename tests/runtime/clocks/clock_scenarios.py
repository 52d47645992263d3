"""What the tests of clocks do inside the lab with nodes that only print the time, standard library alone."""

# Blocking file calls and short polls are harmless here: nothing else runs on these loops.
# ruff: noqa: ASYNC240

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from fencepost.harness.runtime.clocks.node_clocks import ClockedNode, NodeClocks
from fencepost.harness.runtime.clocks.setting import ClockSetting, Settings
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.lab.node import LabNode
from fencepost.harness.runtime.linux import namespaces
from fencepost.harness.runtime.node import NodeSpec

#: Its first line is its first reading; a child is there as well.
PRINTER = """
import time
print(time.time_ns(), time.monotonic_ns(), flush=True)
import os
if not os.fork():
    time.sleep(600)
while True:
    time.sleep(0.01)
    print(time.time_ns(), time.monotonic_ns(), flush=True)
"""
_DEADLINE_S = 40.0
S = 10**9


async def skewed(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """n1's wall clock two hours ahead, restarted in between; then healed. `outer_proc`: by the /proc from outside."""
    if args["outer_proc"]:
        # What lies below is the /proc that the lab was entered with.
        namespaces.unmount("/proc")
    argv = (sys.executable, "-S", "-E", "-c", PRINTER)
    await lab.realise([NodeSpec(name=name, argv=argv, listeners={}) for name in lab.nodes])
    for node in lab.nodes.values():
        await node.start()
    n1, n2 = lab.nodes["n1"], lab.nodes["n2"]
    restarted: list[ClockedNode] = []
    clocks = NodeClocks(restarted.append)
    found: dict[str, Any] = {"before": await _ahead_s(n1), "uid": os.geteuid()}
    try:
        kept = await clocks.arm(n1)
        clocks.guard(kept)
        clocks.set(kept, Settings(wall=ClockSetting(offset_ns=7200 * S)))
        found["during"], found["other"] = await _ahead_s(n1), await _ahead_s(n2)
        found["failures"] = [failed.why for failed in kept.failures]
        found["reading"] = _reading(clocks, kept)
        await n1.kill()
        size = n1.log.stat().st_size
        await n1.start()
        async with asyncio.timeout(_DEADLINE_S):
            while not restarted or clocks.read_back(kept).processes < 2 or clocks.read_back(kept).coming:
                await asyncio.sleep(0.01)
        found["first_line"] = _ahead_of(await _line(n1.log, size))
        found["again"] = await _ahead_s(n1)
        found["restarted"] = _reading(clocks, kept)
        await clocks.unguard(kept)
        clocks.set(kept, Settings())
        found["release"] = await clocks.release(kept)
        found["after"] = await _ahead_s(n1)
        found["wraps"] = len(n1.wrap_argv)
    finally:
        await clocks.close()
    return found


def _reading(clocks: NodeClocks, kept: ClockedNode) -> list[Any]:
    reading = clocks.read_back(kept)
    return [reading.processes, list(reading.wrong)]


async def _ahead_s(node: LabNode) -> int:
    """What the wall clock of the line that is written next shows, less true time, in tens of seconds."""
    return _ahead_of(await _line(node.log, node.log.stat().st_size if node.log.exists() else 0, skip=1))


def _ahead_of(line: str) -> int:
    """How much later its wall clock was than ours at that moment, whenever it is read: its other clock is right."""
    wall, monotonic = map(int, line.split())
    return round((wall - monotonic - (time.time_ns() - time.monotonic_ns())) / S / 10)


async def _line(log: Path, since: int, skip: int = 0) -> str:
    """The first whole line behind byte `since`, or one of those behind it."""
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            if log.exists():
                lines = log.read_bytes()[since:].decode().split("\n")[:-1]
                if len(lines) > skip:
                    return lines[skip]
            await asyncio.sleep(0.01)
