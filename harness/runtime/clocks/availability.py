"""Whether clocks of a runtime's nodes can be skewed on this machine, and the remedy where they cannot."""

import os
import subprocess
from pathlib import Path
from typing import Final

from harness.errors import MachineError
from harness.runtime.clocks.memory import ClockError, Memory, mappings
from harness.runtime.clocks.process import why_not_here
from harness.runtime.provider import Setting

_YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_NOBODY: Final = 3
_PRIVILEGED: Final = 2
_END_S: Final = 5.0


def why_not(setting: Setting) -> str | None:
    """ "reason; remedy", or None."""
    here = why_not_here()
    if here is not None:
        return f"{here}; run on an x86-64 kernel whose vDSO has room"
    scope = _yama()
    if scope >= _NOBODY:
        return "kernel.yama.ptrace_scope=3 lets nobody trace a process; set it to 2 or less and start the machine anew"
    if setting.runtime == "containers":
        refused = _why_no_containers()
        if refused is not None:
            return refused
    # In the lab we are root of our namespace, which this asks for; out here we may not be.
    if scope < _PRIVILEGED or os.geteuid() == 0:
        return _why_no_writing()
    return None


def _yama() -> int:
    try:
        return int(_YAMA.read_text())
    except (OSError, ValueError):
        return 0


def _why_no_containers() -> str | None:
    from harness.runtime import engine

    try:
        client = engine.connect()
    except MachineError as error:
        return f"{error.message}; {error.hint}"
    try:
        facts = engine.facts(client)
    finally:
        client.close()
    if not facts.same_kernel:
        return "the engine's containers run on another kernel than this one; use --runtime lab"
    if not facts.may_enter:
        return "containers' processes may be traced by root only; run as root with a local engine, or use --runtime lab"
    return None


def _why_no_writing() -> str | None:
    """Write one byte of a child's vDSO over itself: a hardened kernel refuses that (proc_mem.force_override)."""
    # Its first line says that it has begun its program: before, it may have no vDSO.
    command = ["/bin/sh", "-c", "echo; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            memory = Memory(child.pid)
            try:
                at = next(m.start for m in mappings(child.pid) if m.path == "[vdso]")
                memory.write(at, memory.read(at, 1))
            finally:
                memory.close()
        except (ClockError, StopIteration) as error:
            return f"memory of processes cannot be written here: {error}; boot with proc_mem.force_override=always"
        finally:
            child.kill()
            child.wait(_END_S)
    return None
