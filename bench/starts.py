"""How soon a cluster of Consul or NATS takes its first write."""

import os
import statistics
from typing import Final

from bench.figure import Figure
from tests.lab_scenario import run_scenario

_INSIDE: Final = "bench.starts_inside"
#: Name, system, what was wanted.
_SYSTEMS: Final = (("Consul", "consul", "at most 2.5 s"), ("NATS", "nats", "at most 1.3 s"))


def run(repeats: int = 5) -> list[Figure]:
    return [_figure(name, system, target, repeats) for name, system, target in _SYSTEMS]


def _figure(name: str, system: str, target: str, repeats: int) -> Figure:
    starts = sorted(run_scenario(f"{_INSIDE}:first_write", {"system": system}, timeout_s=90) for _ in range(repeats))
    return Figure(
        f"{name} from exec to the first acknowledged write",
        statistics.median(starts),
        "s",
        target,
        f"three nodes, lab; {starts[0]:.2f} to {starts[-1]:.2f} s in {repeats}; load {os.getloadavg()[0]:.1f}",
    )
