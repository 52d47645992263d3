"""Whether this machine lets us trace servers at all, which skewed clocks and bad disks need."""

from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError

YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
#: Values of kernel.yama.ptrace_scope: from here on root only, and nobody at all.
PRIVILEGED: Final = 2
NOBODY: Final = 3


def yama_scope(path: Path) -> int:
    """0 where the kernel has no such setting."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def why_no_containers() -> str | None:
    """Why servers in containers cannot be traced from here, "reason; remedy", or None."""
    from fencepost.harness.runtime.containers.engine import engine

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
