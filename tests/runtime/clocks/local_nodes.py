"""Nodes that are plain processes of this machine, for tests of faults that act on processes but need no cluster."""

import asyncio
import os
import signal
import subprocess
import time
from typing import Any

from fencepost.harness.runtime.node import NodeState, ProcessEvidence
from tests.fakes.fakes_runtime import FakeNode, FakeRuntime, KeptRecords
from tests.runtime.clocks.programs import Asked


class LocalNode(FakeNode):
    """Runs `argv`, a program that answers questions, in a session of its own, as a node of the lab does."""

    def __init__(self, name: str, argv: tuple[str, ...]) -> None:
        super().__init__(name, incarnation=-1, pid=None)
        self.argv = argv
        self.asked: Asked | None = None

    async def start(self) -> None:
        argv = self.argv
        for wrap in self.wrap_argv:
            argv = tuple(wrap(argv))
        self.asked = Asked(*argv, wait=False)
        self.pid = self.asked.pid
        self.state = NodeState.RUNNING
        self.incarnation += 1
        for hook in self.on_start:
            waiting = hook(self)
            if waiting is not None:
                await waiting

    async def kill(self) -> None:
        if self.asked is not None:
            os.killpg(self.asked.pid, signal.SIGKILL)
            self.asked.close()
        self.asked, self.pid, self.state = None, None, NodeState.DEAD

    async def evidence(self) -> ProcessEvidence:
        return ProcessEvidence(self.state, str(self.state))

    async def ask(self) -> dict[str, Any]:
        """In a thread: a server behind its gate answers only once the daemon, which this loop hears, has opened it."""
        assert self.asked is not None
        answer: dict[str, Any] = await asyncio.to_thread(self.asked.ask)
        return answer


class LocalRuntime(FakeRuntime):
    def __init__(self, *argv: str, count: int = 2) -> None:
        super().__init__(0)
        self.nodes = {f"n{i}": LocalNode(f"n{i}", argv) for i in range(1, count + 1)}

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.kill()


class TimedRecords(KeptRecords):
    """Stamped with this machine's monotonic clock, as a run's are."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def record(self, cls: Any, **fields: Any) -> Any:
        event = cls(index=len(self.events), time_ns=self.now_ns(), **fields)
        self.events.append(event)
        return event


def daemons() -> list[int]:
    """The daemons that this process has as children."""
    found = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "clocks.clock_daemon" in line]
