"""Whether this machine allows tracing of servers, which skewed clocks and bad disks need."""

from pathlib import Path
from typing import Final

YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
#: Values of kernel.yama.ptrace_scope: from the first on only root may trace, from the second on nobody.
PRIVILEGED: Final = 2
NOBODY: Final = 3


def yama_scope(path: Path) -> int:
    """Read the setting; 0 when the kernel has none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
