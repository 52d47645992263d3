"""One measured figure, a line of the table of `make bench`."""

from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured figure: a median unless `note` says otherwise; `target` says in words what was wanted."""

    name: str
    value: float
    unit: str
    target: str
    note: str


def peak_mb() -> float:
    """Return this process's peak resident memory in MB; `ru_maxrss` would include the parent's at the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024
