"""The clocks of a cluster's nodes: armed, set, read back, let go; and armed again when a node is restarted meanwhile.

A node's settings are kept here and written to each of its processes by this process; the keeper, which arms newcomers,
is told beforehand. A newcomer that was armed with earlier settings all the same gets the present ones when it is told.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from fencepost.harness.runtime.clocks import gate
from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks.daemon_client import Keeping, proc_number
from fencepost.harness.runtime.clocks.memory import ClockError, Gone, Unfinished
from fencepost.harness.runtime.clocks.messages import Armed, Failed, How, WaitsState
from fencepost.harness.runtime.clocks.process import ClockedProcess
from fencepost.harness.runtime.clocks.process_tree import ProcessTree
from fencepost.harness.runtime.clocks.setting import Settings
from fencepost.harness.runtime.linux.cgroup import is_frozen
from fencepost.harness.runtime.node import Node

#: No server may stay behind its gate for longer.
_RESTART_S: Final = 5.0
_POLL_S: Final = 0.005
#: For a process that has just begun, or its keeper, to have their turn of the processor.
_SETTLE_S: Final = 3.0


@dataclass(slots=True)
class KeptNode:
    """One node whose clocks were touched. `in_force`: a restarted server gets the settings again."""

    node: Node
    settings: Settings = field(default_factory=Settings)
    in_force: bool = False
    processes: dict[int, ClockedProcess] = field(default_factory=dict)
    armed: dict[int, Armed] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)
    tree: ProcessTree | None = None
    gated: bool = False
    #: Who armed them, and so knows whom to disarm.
    keeping: Keeping | None = None

    @property
    def name(self) -> str:
        return self.node.name

    def forget(self) -> None:
        """Its processes have ended."""
        for process in self.processes.values():
            process.close()
        self.processes, self.armed, self.tree, self.keeping = {}, {}, None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read back from all processes of a node: how many there are, and what is wrong, in words.

    `coming` have just begun: they are armed within milliseconds, or a failure is told.
    """

    processes: int
    wrong: tuple[str, ...]
    how: str = ""
    coming: tuple[int, ...] = ()


class NodeClocks:
    """All nodes of one cluster.

    `on_change` is called once a restarted node is armed again or cannot be, and when a newcomer of one cannot be.
    """

    def __init__(self, on_change: Callable[[KeptNode], None]) -> None:
        self._on_change = on_change
        self._keeping: Keeping | None = None
        #: Keepers that ended by themselves, or are no longer needed, to be waited for.
        self._ended: list[Keeping] = []
        self._nodes: dict[str, KeptNode] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}

    def of(self, node: Node) -> KeptNode:
        """What is kept of this node; from now on its restarts are noticed."""
        if node.name not in self._nodes:
            self._nodes[node.name] = KeptNode(node)
            node.on_start.append(self._started)
        return self._nodes[node.name]

    async def arm(self, node: Node) -> KeptNode:
        """Arm all processes of a running node with what it has; what failed stands in `failures`. Raises ClockError."""
        kept = self.of(node)
        kept.failures = []
        first = proc_number(node.pid) if node.pid is not None else None
        if first is None:
            raise ClockError(f"{node.name} has no process here")
        if is_frozen(first):
            raise ClockError(f"{node.name} is frozen, and what is frozen cannot be armed")
        if kept.tree is None or kept.tree.first != first:
            kept.forget()
            kept.tree = ProcessTree(first)
        kept.keeping = self._keeper()
        await kept.keeping.keep(node.name, first, kept.settings)
        await self._settled(kept)
        return kept

    def set(self, kept: KeptNode, settings: Settings) -> None:
        """Put the settings in force in every armed process, now. Those that have ended are forgotten."""
        kept.settings = settings
        for pid, process in list(kept.processes.items()):
            try:
                process.set(settings)
            except Gone:
                _drop(kept, pid)
        if kept.tree is not None:
            self._keeper().change(kept.name, settings)

    def guard(self, kept: KeptNode) -> None:
        """From now on a restarted server gets the settings too, where possible before its first instruction."""
        kept.in_force = True
        kept.gated = kept.tree is not None and _shares_files(kept.tree.first) and gate.has_shell()
        if kept.gated and gate.through_gate not in kept.node.wrap_argv:
            kept.node.wrap_argv.append(gate.through_gate)

    async def unguard(self, kept: KeptNode) -> None:
        """From now on a restarted server has true clocks; one that is being armed now is waited for."""
        kept.in_force = False
        if gate.through_gate in kept.node.wrap_argv:
            kept.node.wrap_argv.remove(gate.through_gate)
        restart = self._restarts.get(kept.name)
        if restart is not None:
            await asyncio.wait({restart}, timeout=_RESTART_S)

    def read_back(self, kept: KeptNode) -> Reading:
        """Ask every process that the node has now."""
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
                    wrong.append(f"process {pid} is armed no more")
                elif process.settings() != kept.settings:
                    wrong.append(f"process {pid} has other settings: {process.settings()}")
            except Gone:
                # It has ended since, or begun another program.
                coming.append(pid)
            except ClockError as error:
                wrong.append(f"process {pid}: {error}")
        states = sorted({_words(kept.armed[pid]) for pid in members if pid in kept.armed})
        return Reading(processes=len(members), wrong=tuple(wrong), how=", ".join(states), coming=tuple(coming))

    def untranslated(self, kept: KeptNode) -> list[str]:
        """Why timed waits of its processes do not keep to its clocks, for those processes that need it."""
        return [f"process {pid}: {armed.why}" for pid, armed in kept.armed.items() if armed.waits is WaitsState.FAILED]

    async def release(self, kept: KeptNode) -> list[str]:
        """Give all its processes their own clocks back; what could not be, in words, and is kept for another try.

        Raises ClockError.
        """
        if kept.tree is not None and is_frozen(kept.tree.first):
            raise ClockError("it is frozen: its clocks show what they should, by clock functions of ours")
        before = len(kept.failures)
        if kept.tree is not None:
            keeper = self._keeper()
            if kept.keeping is not keeper:
                # The one that armed them has ended, so this one has to find them first.
                kept.keeping = keeper
                await keeper.keep(kept.name, kept.tree.first, kept.settings)
            await keeper.release(kept.name)
            kept.keeping = None
        wrong = [f"process {failed.pid}: {failed.why}" for failed in kept.failures[before:] if not failed.ended]
        for pid, process in kept.processes.items():
            try:
                if not process.is_original():
                    wrong.append(f"process {pid} still has clock functions of ours")
            except Gone:
                continue
        if not wrong:
            kept.forget()
        return wrong

    async def close(self) -> None:
        """End the keeper and forget all nodes; armed processes stay as they are. Idempotent."""
        for task in self._restarts.values():
            task.cancel()
        await asyncio.gather(*self._restarts.values(), return_exceptions=True)
        for kept in self._nodes.values():
            kept.forget()
            if self._started in kept.node.on_start:
                kept.node.on_start.remove(self._started)
            if gate.through_gate in kept.node.wrap_argv:
                kept.node.wrap_argv.remove(gate.through_gate)
        self._nodes.clear()
        await self.rest()

    async def rest(self) -> None:
        """End the keeper while no node has anything left to keep."""
        if all(kept.tree is None and not kept.in_force for kept in self._nodes.values()):
            self._keeper_ended()
        while self._ended:
            await self._ended.pop().close()

    # -- what the keeper tells ----------------------------------------------------------------------------------------

    def _keeper(self) -> Keeping:
        if self._keeping is None:
            self._keeping = Keeping(self._reported, self._keeper_ended)
        return self._keeping

    def _keeper_ended(self) -> None:
        if self._keeping is not None:
            self._ended.append(self._keeping)
            self._keeping = None

    def _reported(self, report: Armed | Failed) -> None:
        kept = self._nodes.get(report.node)
        if kept is None:
            return
        if isinstance(report, Failed):
            kept.failures.append(report)
            if kept.in_force and not report.ended and kept.name not in self._restarts:
                # A newcomer keeps true time: what was said of the node's clocks holds no more.
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
                # It began another program since, of which the keeper tells next.
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
        """Right after a start; the server is behind its gate, or has just begun. The start waits for the arming."""
        kept = self._nodes[node.name]
        had = kept.tree is not None
        kept.forget()
        if kept.in_force:
            first = proc_number(node.pid) if node.pid is not None else None
            kept.failures = []
            kept.tree = ProcessTree(first) if first is not None else None
            restart = asyncio.get_running_loop().create_task(self._arm_again(kept, first))
            self._restarts[node.name] = restart
            # Whoever waits for the start may stop waiting; no server may stay behind its gate for that.
            return asyncio.shield(restart)
        if had:
            # The new process has true clocks; the keeper has nothing to keep.
            kept.settings = Settings()
            self._on_change(kept)
        return None

    async def _arm_again(self, kept: KeptNode, first: int | None) -> None:
        try:
            if first is None:
                raise ClockError("it ended at once")
            async with asyncio.timeout(_RESTART_S):
                kept.keeping = self._keeper()
                if kept.gated:
                    await kept.keeping.keep_through_gate(kept.name, first, kept.settings)
                else:
                    await kept.keeping.keep(kept.name, first, kept.settings)
            await self._settled(kept)
        except (ClockError, TimeoutError) as error:
            kept.failures.append(Failed(node=kept.name, pid=first or 0, why=str(error) or "not armed in time"))
            if kept.tree is not None:
                await _open_gates(kept.tree)
        finally:
            self._restarts.pop(kept.name, None)
        self._on_change(kept)

    async def _settled(self, kept: KeptNode) -> None:
        """Until what the server itself starts at once (a start script's Java, a tracer's program) is armed as well."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_S
        while self.read_back(kept).coming and loop.time() < deadline:
            await asyncio.sleep(_POLL_S)


async def _open_gates(tree: ProcessTree) -> None:
    """Let every server of the tree out of its gate, whatever else went wrong."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + tracing.DEADLINE_S
    while loop.time() < deadline:
        gates = [pid for pid in tree.members() if gate.is_gate(pid)]
        if not gates:
            return
        for pid in gates:
            if gate.is_shut(pid):
                os.kill(tracing.number_here(pid), signal.SIGCONT)
        await asyncio.sleep(_POLL_S)


def _drop(kept: KeptNode, pid: int) -> None:
    process = kept.processes.pop(pid, None)
    if process is not None:
        process.close()
    kept.armed.pop(pid, None)


def _failure(kept: KeptNode, pid: int) -> str | None:
    return next((failed.why for failed in reversed(kept.failures) if failed.pid == pid), None)


def _words(armed: Armed) -> str:
    waits = "" if armed.waits is WaitsState.UNNEEDED else f", waits {armed.waits}"
    return f"armed {armed.how}{waits}"


def _shares_files(pid: int) -> bool:
    """Whether the process sees the files that we see: it is in no container."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return False


__all__ = ["How", "KeptNode", "NodeClocks", "Reading"]
