"""Nodes that are `writer` programs of this machine, so that disk faults meet real system calls without a cluster."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fencepost.harness.runtime.node import NodeState, Place, ProcessEvidence
from tests.fakes.fakes_runtime import FakeNode, FakeRuntime

#: What SIGKILL may take; a tracer that holds a dying thread would hold it for minutes.
_GONE_S = 20.0
#: A few writes take so long only where the processor and the disk are both kept busy.
_WRITES_S = 40.0


class WriterNode(FakeNode):
    def __init__(self, name: str, folder: Path, mode: str) -> None:
        super().__init__(name, incarnation=-1, pid=None)
        self.state = NodeState.NEW
        self.folder, self.mode = folder, mode
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> Place:
        return Place(
            name=self.name, number=1, address="10.77.0.1", folder=self.folder, data=self.data, kept=self.folder
        )

    @property
    def told(self) -> list[int]:
        """What the program said that it had written, over all starts."""
        return [int(line) for line in (self.folder / "told").read_text().splitlines() if line]

    @property
    def written(self) -> int:
        """Lines in its file now."""
        return (self.data / "log").stat().st_size // 8

    async def start(self) -> None:
        self.process = self._spawn()
        self.pid, self.state = self.process.pid, NodeState.RUNNING
        self.incarnation += 1
        for hook in self.on_start:
            hook(self)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        script = Path(__file__).with_name("writer.py")
        with (self.folder / "told").open("ab") as told:
            return subprocess.Popen(
                [sys.executable, "-S", str(script), str(self.data), self.mode],
                stdout=told,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    async def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            deadline = time.monotonic() + _GONE_S
            while self.process.poll() is None:
                assert time.monotonic() < deadline, "a killed program is still there"
                await asyncio.sleep(0.002)
        self.look()

    def look(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            self.pid, self.state = None, NodeState.DEAD

    async def evidence(self) -> ProcessEvidence:
        self.look()
        return ProcessEvidence(self.state, str(self.state))

    async def writes(self, count: int = 20) -> None:
        """Wait until it has told so many lines more."""
        before = len(self.told)
        deadline = time.monotonic() + _WRITES_S
        while len(self.told) < before + count:
            assert time.monotonic() < deadline, "it writes nothing"
            await asyncio.sleep(0.01)


class Writers(FakeRuntime):
    """n1, n2, ... in these modes."""

    def __init__(self, folder: Path, *modes: str) -> None:
        super().__init__(0)
        self.writers = [WriterNode(f"n{i}", folder / f"n{i}", mode) for i, mode in enumerate(modes, 1)]
        self.nodes = {node.name: node for node in self.writers}

    async def __aenter__(self) -> "Writers":
        for node in self.writers:
            await node.start()
            await node.writes(5)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.writers:
            await node.kill()


def tracers() -> list[int]:
    """The straces that this process has as children."""
    found = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,stat=,comm="], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in found.splitlines() if line.endswith("strace") and "Z" not in line]
