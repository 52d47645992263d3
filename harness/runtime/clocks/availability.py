"""Decides whether the clocks of nodes can be skewed on this machine; if they cannot, names the remedy."""

import os
import subprocess
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.clocks.memory import ClockError, Memory, mappings
from fencepost.harness.runtime.clocks.process import why_not_here
from fencepost.harness.runtime.linux.may_trace import NOBODY, PRIVILEGED, YAMA, yama_scope
from fencepost.harness.runtime.provider import Need, Placement

_YAMA: Final = YAMA
_END_S: Final = 5.0


def why_not(placement: Placement) -> Refusal | None:
    """Return why clocks cannot be skewed in this placement; None when they can."""
    here = why_not_here()
    if here is not None:
        return Refusal(here, "run on an x86-64 kernel whose vDSO has room")
    scope = yama_scope(_YAMA)
    if scope >= NOBODY:
        return Refusal("kernel.yama.ptrace_scope=3 forbids tracing to everybody", "set it to 2 or less and reboot")
    refused = placement.why_not(Need.TRACE)
    if refused is not None:
        return refused
    # Writing needs root of the namespace: this process is root inside the lab, but perhaps not out here.
    if scope < PRIVILEGED or os.geteuid() == 0:
        return _why_no_writing()
    return None


def _why_no_writing() -> Refusal | None:
    """Write one byte of a child's vDSO over itself; a hardened kernel refuses that (proc_mem.force_override)."""
    # The child's first line shows that it has begun its program; before that it may have no vDSO.
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
            return Refusal(
                f"this kernel forbids writing to the memory of processes: {error}",
                "boot with proc_mem.force_override=always",
            )
        finally:
            child.kill()
            child.wait(_END_S)
    return None
