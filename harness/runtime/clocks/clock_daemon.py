"""The clock daemon: a process of one thread that arms and disarms the processes of nodes, and watches for new ones.

It is a separate process for three reasons: a tracer must be one thread; every `waitpid` of the tracer sees the stops of
its traced processes; and holding a process must not delay the harness. It ends when its socket closes or its parent
ends. When it ends, the kernel releases every process that it holds.
"""

import os
import select
import signal
import socket
import sys
import time
from typing import Final

from fencepost.harness.runtime.clocks import gate, waits
from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks.memory import ClockError, Gone, Unfinished
from fencepost.harness.runtime.clocks.messages import (
    Arm,
    Armed,
    ClockChange,
    ClockDone,
    ClockRelease,
    How,
    Message,
    NotArmed,
    WaitsState,
    decode,
    encode,
)
from fencepost.harness.runtime.clocks.process import ClockedProcess
from fencepost.harness.runtime.clocks.process_tree import ProcessTree
from fencepost.harness.runtime.linux import namespaces

#: The time between two searches for new processes.
SCAN_S: Final = 0.01
_GATE_POLL_S: Final = 0.0005
#: A process that is not behind its gate after this time was continued by another program.
_GATE_COMES_S: Final = 30.0
#: How long a request waits for processes that are just beginning a program, or ending.
_UNFINISHED_S: Final = 0.5


class _Node:
    """One node: its settings, and its armed processes."""

    def __init__(self, request: Arm) -> None:
        self.name = request.node
        self.settings = request.settings
        self.tree = ProcessTree(request.pid)
        self.processes: dict[int, ClockedProcess] = {}
        self.pending: set[int] = set()
        self.refused: dict[int, str] = {}
        #: Whether its server is still behind a gate, whether the gate was seen, and until when it may appear.
        self.is_gated = request.through_gate
        self.gate_was_seen = False
        self.gate_until = time.monotonic() + _GATE_COMES_S
        #: Processes that ended, or began another program, while they were being armed. The next scan shows which.
        self.unfinished: dict[int, str] = {}

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


class ClockDaemon:
    """Serves the requests of one socket until it closes."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._nodes: dict[str, _Node] = {}

    def serve(self) -> None:
        rest = b""
        while True:
            timeout_s = SCAN_S if self._nodes else None
            readable, _, _ = select.select([self._channel], [], [], timeout_s)
            if readable:
                data = self._channel.recv(1 << 16)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._obey(decode(line))
            for node in list(self._nodes.values()):
                self._scan(node, How.NEWCOMER)
                if node.tree.is_over:
                    node.close()
                    del self._nodes[node.name]

    def _obey(self, request: Message) -> None:
        match request:
            case Arm():
                self._arm_node(request)
            case ClockChange():
                if request.node in self._nodes:
                    self._nodes[request.node].settings = request.settings
            case ClockRelease():
                self._release(request)
            case _:
                raise ValueError(f"a {type(request).__name__} is not a request")

    def _tell(self, report: Armed | NotArmed | ClockDone) -> None:
        self._channel.sendall(encode(report))

    # -- arming -------------------------------------------------------------------------------------------------------

    def _arm_node(self, request: Arm) -> None:
        known = self._nodes.get(request.node)
        if known is None or known.tree.first != request.pid or known.tree.is_over:
            if known is not None:
                known.close()
            known = self._nodes[request.node] = _Node(request)
        known.settings = request.settings
        self._open_gate(known)
        known.refused = {}
        deadline = time.monotonic() + _UNFINISHED_S
        self._scan(known, How.LIVE)
        while known.unfinished and time.monotonic() < deadline:
            time.sleep(_GATE_POLL_S)
            self._scan(known, How.LIVE)
        self._tell(ClockDone(id=request.id))

    def _open_gate(self, node: _Node) -> None:
        """Let the gate execute its server, and arm the server before its first instruction; see `gate`.

        A later `_scan` handles a gate that is not shut in time because its shell got no processor time.
        """
        deadline = time.monotonic() + tracing.DEADLINE_S
        while node.is_gated and time.monotonic() < deadline:
            self._look_at_gate(node)
            time.sleep(_GATE_POLL_S)

    def _look_at_gate(self, node: _Node) -> None:
        members = node.tree.members()
        gates = [pid for pid in members if gate.is_gate(pid)]
        if not gates and (not members or node.gate_was_seen or time.monotonic() > node.gate_until):
            node.is_gated = False
            return
        node.gate_was_seen = node.gate_was_seen or bool(gates)
        shut = next((pid for pid in gates if gate.is_shut(pid)), None)
        if shut is not None and not _is_traced(shut):
            node.is_gated = False
            self._arm_at_exec(node, shut)
        elif shut is not None:
            # Its tracer also follows it into its program, and a scan arms it there. The tracer's stops look like its
            # own stop, so it may have to be continued again.
            _let_run(shut)

    def _arm_at_exec(self, node: _Node, pid: int) -> None:
        began = time.monotonic()
        try:
            with tracing.AtExec(pid) as hold:
                process = ClockedProcess(pid)
                try:
                    process.arm(node.settings, lambda _: _Nested(hold))
                except BaseException:
                    process.close()
                    raise
            self._took_hold(node, process, How.EXEC, began)
        except (ClockError, OSError) as error:
            self._refuse(node, pid, error)
            _let_run(pid)

    def _scan(self, node: _Node, how: How) -> None:
        """Arm every process that is not armed; forget those that ended or run another program."""
        for pid, process in list(node.processes.items()):
            if not process.is_same():
                process.close()
                del node.processes[pid]
                node.pending.discard(pid)
        if node.is_gated:
            self._look_at_gate(node)
        members = node.tree.members()
        for pid in node.unfinished.keys() - members:
            self._tell(NotArmed(node=node.name, pid=pid, why=node.unfinished.pop(pid), ended=True))
        for pid in members:
            if pid not in node.processes and pid not in node.refused and not (node.is_gated and gate.is_gate(pid)):
                self._arm(node, pid, how)
        for pid in list(node.pending):
            self._finish(node, pid)
        node.refused = {pid: why for pid, why in node.refused.items() if pid in members}

    def _arm(self, node: _Node, pid: int, how: How) -> None:
        began = time.monotonic()
        try:
            process = ClockedProcess(pid)
        except (ClockError, OSError) as error:
            self._refuse(node, pid, error)
            return
        try:
            inherited = process.is_armed
            process.arm(node.settings)
        except (ClockError, OSError) as error:
            process.close()
            self._refuse(node, pid, error)
            return
        self._took_hold(node, process, How.INHERITED if inherited else how, began)

    def _took_hold(self, node: _Node, process: ClockedProcess, how: How, began: float) -> None:
        node.processes[process.pid] = process
        node.unfinished.pop(process.pid, None)
        state, why = self._translate(process)
        if state is WaitsState.PENDING:
            node.pending.add(process.pid)
        took_ms = (time.monotonic() - began) * 1e3
        self._tell(Armed(node=node.name, pid=process.pid, how=how, waits=state, took_ms=took_ms, why=why))

    def _translate(self, process: ClockedProcess) -> tuple[WaitsState, str]:
        try:
            if not waits.have_come(process.pid):
                return (WaitsState.PENDING if waits.may_come(process.pid) else WaitsState.UNNEEDED), ""
            process.translate_waits()
        except (ClockError, OSError) as error:
            return WaitsState.FAILED, str(error)
        return WaitsState.TRANSLATED, ""

    def _finish(self, node: _Node, pid: int) -> None:
        """Translate the waits of a process that was armed before it loaded its C library, once it has loaded it."""
        began = time.monotonic()
        state, why = self._translate(node.processes[pid])
        if state is not WaitsState.PENDING:
            node.pending.discard(pid)
            took_ms = (time.monotonic() - began) * 1e3
            self._tell(Armed(node=node.name, pid=pid, how=How.EXEC, waits=state, took_ms=took_ms, why=why))

    def _refuse(self, node: _Node, pid: int, error: Exception) -> None:
        if isinstance(error, tracing.StuckThread):
            # Only the end of this process releases a thread that did not stop.
            self._tell(NotArmed(node=node.name, pid=pid, why=str(error)))
            raise error
        if isinstance(error, Gone | Unfinished):
            node.unfinished[pid] = str(error)
            return
        node.refused[pid] = str(error)
        self._tell(NotArmed(node=node.name, pid=pid, why=str(error)))

    # -- disarming ----------------------------------------------------------------------------------------------------

    def _release(self, request: ClockRelease) -> None:
        node = self._nodes.pop(request.node, None)
        if node is not None:
            if node.gate_was_seen:
                # From now on nothing watches the gate.
                self._open_gate(node)
            for pid, process in node.processes.items():
                try:
                    process.disarm()
                except Gone:
                    continue
                except (ClockError, OSError) as error:
                    self._tell(NotArmed(node=node.name, pid=pid, why=str(error)))
                    if isinstance(error, tracing.StuckThread):
                        raise
            node.close()
        self._tell(ClockDone(id=request.id))


class _Nested:
    """A context for a process that is already held."""

    def __init__(self, hold: tracing.AtExec) -> None:
        self.threads = hold.threads

    def __enter__(self) -> "_Nested":
        return self

    def __exit__(self, *_: object) -> None:
        return


def _is_traced(pid: int) -> bool:
    try:
        return tracing.tracer_of(pid) != 0
    except Gone:
        return False


def _let_run(pid: int) -> None:
    """Continue a process that is behind its gate: no server may stay there, whatever failed."""
    try:
        if gate.is_gate(pid):
            os.kill(tracing.number_here(pid), signal.SIGCONT)
    except (Gone, ProcessLookupError):
        return


def main() -> None:
    namespaces.die_with_parent()
    # The harness handles a terminal's Ctrl-C: it heals first and then closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        ClockDaemon(channel).serve()


if __name__ == "__main__":
    main()
