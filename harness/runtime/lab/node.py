"""A node of the lab: one thread that lives in the node's network namespace, and the process group that it starts.

A thread that has called `unshare(CLONE_NEWNET)` *is* the node: its sockets and its child processes belong to its
namespace, with no helper binary and no code between fork and exec. The event loop notices exits by pidfd, so no thread
waits and no signal handler is needed.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.linux import namespaces, processes
from fencepost.harness.runtime.node import Exit, NodeSpec, NodeState, Place, ProcessEvidence
from fencepost.harness.runtime.node_state import KnownNode

P = ParamSpec("P")
T = TypeVar("T")

#: No process can resist SIGKILL: a group that still exists after this time hangs in the kernel.
_KILL_TIMEOUT_S = 10.0


class NamespaceThread:
    """One thread in its own network (and host name) namespace; `call` runs functions there."""

    def __init__(self, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._entered = self._executor.submit(self._enter, name)

    @staticmethod
    def _enter(name: str) -> tuple[int, int]:
        namespaces.unshare(namespaces.NEWNET | namespaces.NEWUTS)
        socket.sethostname(name)
        fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return fd, os.fstat(fd).st_ino

    @property
    def namespace_fd(self) -> int:
        """Return the descriptor that keeps the namespace alive and identifies it to the kernel."""
        return self._entered.result()[0]

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "concurrent.futures.Future[T]":
        return self._executor.submit(lambda: self._checked(function, *args, **kwargs))

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self.submit(function, *args, **kwargs).result()

    def _checked(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        # No fault would reach a server in the wrong namespace, and the run would look healthy.
        if os.stat("/proc/thread-self/ns/net").st_ino != self._entered.result()[1]:
            raise HarnessError("a node's thread is not in the node's network namespace")
        return function(*args, **kwargs)

    def close(self) -> None:
        self._executor.shutdown()
        if self._entered.exception() is None:
            os.close(self._entered.result()[0])


class LabNode(KnownNode):
    """One server of the lab; see `harness.runtime.node.Node`."""

    def __init__(self, place: Place, thread: NamespaceThread, exits: "asyncio.Queue[Exit]") -> None:
        super().__init__(place)
        self.thread = thread
        self._exits = exits
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._group_in_proc = 0
        self._killing = False
        self._gone = asyncio.Event()
        #: Start and kill wait for each other, so that no kill misses a process that is just starting.
        self._changing = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._is_up else None

    def realise(self, spec: NodeSpec) -> None:
        """Store the spec and write its files; the data directory exists already."""
        self._spec = spec
        _write_files(self._place.folder, spec.files)
        _write_files(self._place.data, spec.data_files)

    async def wipe(self) -> None:
        async with self._changing:
            self._refuse_to_wipe()
            # A process that outlived its crashed parent could still write.
            await self._kill()
            await asyncio.to_thread(_empty, self._place.data)
            _write_files(self._place.data, self.spec.data_files)

    async def start(self) -> None:
        async with self._changing:
            if self._is_up:
                raise HarnessError(f"node {self.name} is {self._state} already")
            # A child that outlived its crashed parent would hold the ports.
            await self._kill()
            await self._tell_starting(self)
            await self._start()
            await self._tell_started(self)

    async def _start(self) -> None:
        spec = self.spec
        _write_files(self._place.folder, spec.files)
        argv = self._wrapped_argv()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self._place.folder),
            **spec.environment,
        }
        spawning = self.thread.submit(self._spawn, argv, environment)
        try:
            process = await asyncio.shield(asyncio.wrap_future(spawning))
        except asyncio.CancelledError:
            # The thread cannot be stopped, and a process that it still starts must not live on unnoticed. The thread
            # ends it before anything else, or the next start would find its ports in use.
            self.thread.submit(_end_at_birth, spawning)
            raise
        self._process = process
        self._incarnation += 1
        self._state = NodeState.RUNNING
        self._killing = False
        self._gone = asyncio.Event()
        self._pidfd = os.pidfd_open(process.pid)
        # A process that has ended is a zombie until we reap it, so its number is still valid.
        self._group_in_proc = processes.number_in_proc(self._pidfd) or process.pid
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _spawn(self, argv: Sequence[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        """Start the process, in the node's thread; the thread opens the log, so a cancelled caller cannot close it."""
        try:
            with self.log.open("ab") as log:
                # Its own session makes the server and its children one process group.
                return subprocess.Popen(
                    argv,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._place.folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise HarnessError(
                f"node {self.name} cannot be started: {argv[0]}: {error.strerror}",
                hint="check that the program exists and is executable",
            ) from error

    def _reap(self) -> None:
        """Reap the server, whose pidfd became readable, and report its end."""
        process = self._process
        if process is None or not self._is_up:
            return
        exit_status = process.poll()
        if exit_status is None:
            return
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._state = NodeState.DEAD
        self._last_exit = Exit(
            node=self.name, incarnation=self._incarnation, exit_status=exit_status, expected=self._killing
        )
        self._exits.put_nowait(self._last_exit)
        self._gone.set()

    async def stop(self, timeout_s: float) -> bool:
        async with self._changing:
            # This stop did not cause an exit that happened before it but was not yet reported.
            self._reap()
            if self._state is NodeState.RUNNING and self._process is not None:
                self._killing = True
                processes.signal_group(self._process.pid, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await self._gone.wait()
            ended = not self._is_up
            await self._kill()
            return ended

    async def kill(self) -> None:
        async with self._changing:
            await self._kill()

    async def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        # An exit that we have not been told of yet was not our doing.
        self._reap()
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        if self._is_up:
            self._killing = True
            processes.signal_group(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_TIMEOUT_S):
                    await self._gone.wait()
        # The leader's number names the group until its last member is gone; only then may the kernel reuse it.
        while processes.group_members(self._group_in_proc):
            processes.signal_group(process.pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise HarnessError(f"processes of node {self.name} still exist {_KILL_TIMEOUT_S:g} s after SIGKILL")
            await asyncio.sleep(0.001)

    async def pause(self) -> None:
        if self._is_up and self._process is not None:
            processes.signal_group(self._process.pid, signal.SIGSTOP)
            self._state = NodeState.PAUSED

    async def resume(self) -> None:
        if self._state is NodeState.PAUSED and self._process is not None:
            processes.signal_group(self._process.pid, signal.SIGCONT)
            self._state = NodeState.RUNNING

    async def evidence(self) -> ProcessEvidence:
        """Read the state of every thread of every process of the group from the kernel."""
        states = list(self.thread_states().values())
        if not states:
            return ProcessEvidence(NodeState.NEW if self._process is None else NodeState.DEAD, "no thread left")
        halted = sum(state in "Tt" for state in states)
        state = NodeState.PAUSED if halted == len(states) else NodeState.RUNNING
        return ProcessEvidence(state, f"{halted} of {len(states)} threads stopped")

    def thread_states(self) -> dict[int, str]:
        """Return the state letter ("R", "S", "T", ...) of every thread of the node; empty when none is left."""
        return processes.thread_states(self._group_in_proc) if self._process is not None else {}

    def cpu_ns(self) -> int:
        return processes.cpu_ns(self._process.pid) if self._process is not None and self._is_up else 0

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the log; read no more than its last 64 KiB."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - (64 << 10)))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def _end_at_birth(spawned: "concurrent.futures.Future[subprocess.Popen[bytes]]") -> None:
    """End a process that was started for a cancelled caller; runs in the node's thread, right after the start."""
    if not spawned.cancelled() and spawned.exception() is None:
        process = spawned.result()
        process.kill()
        process.wait(_KILL_TIMEOUT_S)


def _empty(folder: Path) -> None:
    """Empty a folder, but keep the folder itself, which is a mount."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below `folder`; refuse a path that leaves it."""
    for relative, content in files.items():
        path = folder / relative
        if not path.resolve().is_relative_to(folder.resolve()):
            raise HarnessError(f"the file {relative!r} of a node's spec lies outside {folder}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
