"""How many runs fit on this machine side by side: by its processors and by its free memory.

A run waits most of its time (for answers, for time-outs, for the end of a fault), so there may be more runs than
processors. That they do not disturb each other is not assumed: each run's own figures say so, and a disturbed one is
made again alone. Measured on two processors: of 24 runs of etcd, four at a time, of 6 of ZooKeeper and 4 of Kafka, two
at a time, all were judged.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fencepost.harness.plan.checked_plan import CheckedPlan

#: Processors that a run keeps busy, and memory that it takes with its servers.
_CORES_EACH: Final = 0.5
_MEMORY_EACH_BYTES: Final = 700 << 20
#: Of a run whose servers are Java programs.
_JAVA_CORES_EACH: Final = 1.0
_JAVA_MEMORY_EACH_BYTES: Final = 2200 << 20
#: The rest is for the system and for what else runs.
_MEMORY_SHARE: Final = 0.8


def jobs_that_fit(plans: Iterable[CheckedPlan]) -> int:
    """How many runs of these plans may be in flight at a time; at least one."""
    java = any(checked.system.profile.java for checked in plans)
    cores_each = _JAVA_CORES_EACH if java else _CORES_EACH
    memory_each = _JAVA_MEMORY_EACH_BYTES if java else _MEMORY_EACH_BYTES
    cores = len(os.sched_getaffinity(0))
    return max(1, min(int(cores / cores_each), int(_MEMORY_SHARE * free_memory_bytes() / memory_each)))


def free_memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """What a new program may take without swapping."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
