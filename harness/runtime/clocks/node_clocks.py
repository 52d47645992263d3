"""The clocks of a cluster's nodes: arms, sets, reads back and releases them; arms a restarted node again.

This process stores the settings of each node and writes them to the node's processes. The clock daemon, which arms new
processes, gets them first. If it armed a new process with earlier settings, that process gets the present ones when
the daemon reports it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fencepost.harness.runtime.clocks import gate
from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks.daemon_client import DaemonClient, proc_number
from fencepost.harness.runtime.clocks.memory import ClockError, Gone, Unfinished
from fencepost.harness.runtime.clocks.messages import Armed, How, NotArmed, WaitsState
from fencepost.harness.runtime.clocks.process import ClockedProcess
from fencepost.harness.runtime.clocks.process_tree import ProcessTree
from fencepost.harness.runtime.clocks.setting import Settings
from fencepost.harness.runtime.linux.cgroup import is_frozen
from fencepost.harness.runtime.node import Node

#: The longest time that a server may stay behind its gate.
_RESTART_S: Final = 5.0
_POLL_S: Final = 0.005
#: How long a gate's shell may need until it stops itself, and then executes the server, on a busy machine.
_OPEN_S: Final = 30.0
#: The longest wait until new processes are armed, even on a busy machine.
_SETTLE_S: Final = 3.0


@dataclass(slots=True)
class ClockedNode:
    """One node whose clocks were changed. With `in_force` a restarted server gets the settings again."""

    node: Node
    settings: Settings = field(default_factory=Settings)
    in_force: bool = False
    processes: dict[int, ClockedProcess] = field(default_factory=dict)
    armed: dict[int, Armed] = field(default_factory=dict)
    failures: list[NotArmed] = field(default_factory=list)
    tree: ProcessTree | None = None
    #: Whether the command of the start that is going on was put behind a gate.
    is_gated: bool = False
    #: The daemon that armed the processes, and that can therefore disarm them.
    armed_by: DaemonClient | None = None

    @property
    def name(self) -> str:
        return self.node.name

    def through_gate(self, argv: tuple[str, ...]) -> Sequence[str]:
        """Put the command of a start behind a gate; for `Node.wrap_argv`."""
        self.is_gated = True
        return gate.through_gate(argv)

    def forget(self) -> None:
        """Forget the processes, which have ended."""
        for process in self.processes.values():
            process.close()
        self.processes, self.armed, self.tree, self.armed_by = {}, {}, None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReadings:
    """The settings read back from all processes of a node: their number, and a sentence for each fault.

    `coming` counts processes that have just begun: within milliseconds they are armed or reported as failures.
    """

    processes: int
    wrong: tuple[str, ...]
    how: str = ""
    coming: tuple[int, ...] = ()


class NodeClocks:
    """The clocks of all nodes of one cluster.

    It calls `on_change` when a restarted node was armed again or could not be armed, and when one of a node's new
    processes could not be armed.
    """

    def __init__(self, on_change: Callable[[ClockedNode], None]) -> None:
        self._on_change = on_change
        self._client: DaemonClient | None = None
        #: Daemons that ended by themselves, or are no longer needed, and that must still be waited for.
        self._ended: list[DaemonClient] = []
        self._nodes: dict[str, ClockedNode] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}

    def of(self, node: Node) -> ClockedNode:
        """Return the state of this node's clocks, and notice its restarts from now on."""
        if node.name not in self._nodes:
            self._nodes[node.name] = ClockedNode(node)
            node.on_start.append(self._started)
        return self._nodes[node.name]

    async def arm(self, node: Node) -> ClockedNode:
        """Arm all processes of a running node with its settings; `failures` lists what failed. Raises ClockError."""
        kept = self.of(node)
        kept.failures = []
        first = proc_number(node.pid) if node.pid is not None else None
        if first is None:
            raise ClockError(f"{node.name} has no process on this machine")
        if is_frozen(first):
            raise ClockError(f"{node.name} is frozen, and its clocks cannot be changed until it is thawed")
        if kept.tree is None or kept.tree.first != first:
            kept.forget()
            kept.tree = ProcessTree(first)
        kept.armed_by = self._daemon()
        await kept.armed_by.arm(node.name, first, kept.settings)
        await self._settled(kept)
        return kept

    def set(self, kept: ClockedNode, settings: Settings) -> None:
        """Write the settings to every armed process now; forget processes that have ended."""
        kept.settings = settings
        for pid, process in list(kept.processes.items()):
            try:
                process.set(settings)
            except Gone:
                _drop(kept, pid)
        if kept.tree is not None:
            self._daemon().change(kept.name, settings)

    def guard(self, kept: ClockedNode) -> None:
        """Also give the settings to a restarted server, if possible before its first instruction."""
        kept.in_force = True
        may_gate = kept.tree is not None and _shares_files(kept.tree.first) and gate.has_shell()
        if may_gate and kept.through_gate not in kept.node.wrap_argv:
            kept.node.wrap_argv.append(kept.through_gate)

    async def unguard(self, kept: ClockedNode) -> None:
        """Give a restarted server true clocks from now on; wait for a server that is just being armed."""
        kept.in_force = False
        if kept.through_gate in kept.node.wrap_argv:
            kept.node.wrap_argv.remove(kept.through_gate)
        restart = self._restarts.get(kept.name)
        if restart is not None:
            await asyncio.wait({restart}, timeout=_RESTART_S)

    def read_back(self, kept: ClockedNode) -> ClockReadings:
        """Read the settings back from every process that the node has now."""
        wrong: list[str] = []
        coming: list[int] = []
        members = kept.tree.members() if kept.tree is not None else []
        for pid in members:
            process = kept.processes.get(pid)
            try:
                if process is None:
                    why = _failure(kept, pid)
                    if why is None:
                        coming.append(pid)
                    else:
                        wrong.append(f"process {pid} is not armed: {why}")
                elif not process.is_armed:
                    wrong.append(f"process {pid} is no longer armed")
                elif process.settings() != kept.settings:
                    wrong.append(f"process {pid} has other settings: {process.settings()}")
            except Gone:
                # The process has ended by now, or begun another program.
                coming.append(pid)
            except ClockError as error:
                wrong.append(f"process {pid}: {error}")
        states = sorted({_armed_text(kept.armed[pid]) for pid in members if pid in kept.armed})
        return ClockReadings(processes=len(members), wrong=tuple(wrong), how=", ".join(states), coming=tuple(coming))

    def untranslated(self, kept: ClockedNode) -> list[str]:
        """Return why timed waits do not follow the clocks, for the processes whose waits must be translated."""
        return [f"process {pid}: {armed.why}" for pid, armed in kept.armed.items() if armed.waits is WaitsState.FAILED]

    async def release(self, kept: ClockedNode) -> list[str]:
        """Give all processes of the node their own clocks back; return the failures, which can be tried again.

        Raises ClockError.
        """
        if kept.tree is not None and is_frozen(kept.tree.first):
            raise ClockError("it is frozen: its clocks show true time, but still through fencepost's functions")
        before = len(kept.failures)
        if kept.tree is not None:
            daemon = self._daemon()
            if kept.armed_by is not daemon:
                # The daemon that armed the processes has ended, so the new one must find them first.
                kept.armed_by = daemon
                await daemon.arm(kept.name, kept.tree.first, kept.settings)
            await daemon.release(kept.name)
            kept.armed_by = None
        wrong = [f"process {failed.pid}: {failed.why}" for failed in kept.failures[before:] if not failed.ended]
        for pid, process in kept.processes.items():
            try:
                if not process.is_original():
                    wrong.append(f"process {pid} still has fencepost's clock functions")
            except Gone:
                continue
        if not wrong:
            kept.forget()
        return wrong

    async def close(self) -> None:
        """End the clock daemon and forget all nodes; armed processes stay as they are. Idempotent."""
        for task in self._restarts.values():
            task.cancel()
        await asyncio.gather(*self._restarts.values(), return_exceptions=True)
        for kept in self._nodes.values():
            kept.forget()
            if self._started in kept.node.on_start:
                kept.node.on_start.remove(self._started)
            if kept.through_gate in kept.node.wrap_argv:
                kept.node.wrap_argv.remove(kept.through_gate)
        self._nodes.clear()
        await self.rest()

    async def rest(self) -> None:
        """End the clock daemon when no node needs it any more."""
        if all(kept.tree is None and not kept.in_force for kept in self._nodes.values()):
            self._daemon_ended()
        while self._ended:
            await self._ended.pop().close()

    # -- reports of the clock daemon ----------------------------------------------------------------------------------

    def _daemon(self) -> DaemonClient:
        if self._client is None:
            self._client = DaemonClient(self._reported, self._daemon_ended)
        return self._client

    def _daemon_ended(self) -> None:
        if self._client is not None:
            self._ended.append(self._client)
            self._client = None

    def _reported(self, report: Armed | NotArmed) -> None:
        kept = self._nodes.get(report.node)
        if kept is None:
            return
        if isinstance(report, NotArmed):
            kept.failures.append(report)
            if kept.in_force and not report.ended and kept.name not in self._restarts:
                # A new process keeps true time, so earlier statements on the node's clocks no longer hold.
                self._on_change(kept)
            return
        try:
            process = kept.processes.get(report.pid)
            if process is None or not process.is_same() or not process.is_armed:
                _drop(kept, report.pid)
                process = kept.processes[report.pid] = ClockedProcess(report.pid)
            elif report.waits is WaitsState.TRANSLATED:
                process.find_waits()
            if not process.is_armed:
                # It has begun another program by now, which the clock daemon reports next.
                _drop(kept, report.pid)
                return
            if process.settings() != kept.settings or report.waits is WaitsState.TRANSLATED:
                process.set(kept.settings)
        except (Gone, Unfinished):
            _drop(kept, report.pid)
            return
        kept.armed[report.pid] = report

    # -- restarts -----------------------------------------------------------------------------------------------------

    def _started(self, node: Node) -> Awaitable[None] | None:
        """Arm a server that was just started, with or without a gate; the start waits for this."""
        kept = self._nodes[node.name]
        was_armed = kept.tree is not None
        kept.forget()
        first = proc_number(node.pid) if node.pid is not None else None
        gated, kept.is_gated = kept.is_gated, False
        if kept.in_force:
            kept.failures = []
            kept.tree = ProcessTree(first) if first is not None else None
            begins = self._arm_again(kept, first, gated=gated)
        else:
            if was_armed:
                # The new process has true clocks; the clock daemon has nothing to do.
                kept.settings = Settings()
                self._on_change(kept)
            if not gated or first is None:
                return None
            # The fault was healed after the command had been put behind a gate.
            begins = self._let_out(kept, first)
        restart = self._restarts[node.name] = asyncio.get_running_loop().create_task(begins)
        # A cancelled start must not leave the server behind its gate.
        return asyncio.shield(restart)

    async def _arm_again(self, kept: ClockedNode, first: int | None, *, gated: bool) -> None:
        try:
            if first is None:
                raise ClockError("it ended at once")
            async with asyncio.timeout(_RESTART_S):
                kept.armed_by = self._daemon()
                if gated:
                    await kept.armed_by.arm_through_gate(kept.name, first, kept.settings)
                else:
                    await kept.armed_by.arm(kept.name, first, kept.settings)
            await self._settled(kept)
        except (ClockError, TimeoutError) as error:
            kept.failures.append(NotArmed(node=kept.name, pid=first or 0, why=str(error) or "not armed in time"))
            if kept.tree is not None:
                await _open_gates(kept.tree)
        finally:
            self._restarts.pop(kept.name, None)
        self._on_change(kept)

    async def _let_out(self, kept: ClockedNode, first: int) -> None:
        try:
            await _open_gates(ProcessTree(first), come_within_s=_RESTART_S)
        finally:
            self._restarts.pop(kept.name, None)

    async def _settled(self, kept: ClockedNode) -> None:
        """Wait until the processes that the server starts at once (as the Java of a start script) are armed too."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_S
        while self.read_back(kept).coming and loop.time() < deadline:
            await asyncio.sleep(_POLL_S)


async def _open_gates(tree: ProcessTree, *, come_within_s: float = 0.0) -> None:
    """Open the gates of all processes of the tree, even if other steps failed; gates may still come for so long."""
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), False
    while loop.time() < began + _OPEN_S and (members := tree.members()):
        gates = [pid for pid in members if gate.is_gate(pid)]
        seen = seen or bool(gates)
        if not gates and (seen or loop.time() >= began + come_within_s):
            return
        for pid in gates:
            if gate.is_shut(pid):
                os.kill(tracing.number_here(pid), signal.SIGCONT)
        await asyncio.sleep(_POLL_S)


def _drop(kept: ClockedNode, pid: int) -> None:
    process = kept.processes.pop(pid, None)
    if process is not None:
        process.close()
    kept.armed.pop(pid, None)


def _failure(kept: ClockedNode, pid: int) -> str | None:
    return next((failed.why for failed in reversed(kept.failures) if failed.pid == pid), None)


def _armed_text(armed: Armed) -> str:
    waits = "" if armed.waits is WaitsState.UNNEEDED else f", waits {armed.waits}"
    return f"armed {armed.how}{waits}"


def _shares_files(pid: int) -> bool:
    """Say whether the process has the same file system as this one, and so is not in a container."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return False


__all__ = ["ClockReadings", "ClockedNode", "How", "NodeClocks"]
