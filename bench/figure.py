"""One line of docs/benchmarks.md."""

from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured: a median unless `note` says otherwise; `target` is what was wanted, in words."""

    name: str
    value: float
    unit: str
    target: str
    note: str


def peak_mb() -> float:
    """This process's peak resident memory; `ru_maxrss` would count what the parent had before it started us."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024
