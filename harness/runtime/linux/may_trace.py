"""Whether this machine lets us trace servers at all, which skewed clocks and bad disks need."""

from pathlib import Path
from typing import Final

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
