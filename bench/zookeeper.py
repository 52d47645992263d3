"""Figures of ZooKeeper: how soon a cluster takes its first write, and what the client costs."""

import statistics

from bench.figure import Figure
from fencepost.harness.systems.zookeeper import ZOOKEEPER
from tests.lab_scenario import run_scenario

_INSIDE = "bench.zookeeper_inside"
_SESSIONS = 9
_SECONDS = 2.0


def run(repeats: int = 7) -> list[Figure]:
    archived = "archive" in ZOOKEEPER.releases.resolve(ZOOKEEPER.releases.default).paths
    starts = sorted(run_scenario(f"{_INSIDE}:first_write", timeout_s=90) for _ in range(repeats))
    costs = run_scenario(
        f"{_INSIDE}:costs",
        {"sessions": _SESSIONS, "seconds": _SECONDS, "repeats": repeats},
        timeout_s=90 + 4 * repeats * _SECONDS,
        uvloop=True,
    )
    start = Figure(
        "ZooKeeper from exec to the first acknowledged write",
        statistics.median(starts),
        "s",
        "at most 2.5 s",
        f"three nodes, {'with' if archived else 'without'} the start-up archive;"
        f" {starts[0]:.2f} to {starts[-1]:.2f} s in {repeats}",
    )
    return [start, *(_cost(kind, runs) for kind, runs in costs.items())]


def _cost(kind: str, runs: list[dict[str, float]]) -> Figure:
    rate = statistics.median(run["operations_per_s"] for run in runs)
    least = min(run["cpu_us"] for run in runs)
    return Figure(
        f"ZooKeeper client CPU per {kind}",
        statistics.median(run["cpu_us"] for run in runs),
        "us",
        "at most 30 us",
        f"{_SESSIONS} sessions on three real nodes, uvloop, the whole thread with its system calls;"
        f" least {least:.0f} us; {rate:.0f} operations/s",
    )
