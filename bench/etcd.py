"""Figures of etcd: how soon a cluster takes its first write, and what an operation costs the harness."""

import statistics

from bench.figure import Figure
from tests.lab_scenario import run_scenario

INSIDE = "bench.etcd_inside"
_WORKERS = 9
_SECONDS = 3.0


def run(repeats: int = 7) -> list[Figure]:
    starts = sorted(run_scenario(f"{INSIDE}:first_write", timeout_s=60) for _ in range(repeats))
    loads = run_scenario(
        f"{INSIDE}:load",
        {"workers": _WORKERS, "seconds": _SECONDS, "repeats": repeats},
        timeout_s=60 + repeats * _SECONDS * 2,
        uvloop=True,
    )

    def median(name: str) -> float:
        return float(statistics.median(load[name] for load in loads))

    how = (
        f"register workload, {_WORKERS} workers, three nodes, uvloop, {repeats} runs of {_SECONDS:g} s at "
        f"{median('operations_per_s'):.0f} operations/s; load {loads[-1]['load']:.1f}"
    )
    return [
        Figure(
            "etcd from exec to the first acknowledged write",
            statistics.median(starts),
            "s",
            "at most 1 s",
            f"three nodes, default election time-out; {starts[0]:.2f} to {starts[-1]:.2f} s in {repeats}",
        ),
        Figure(
            "harness CPU per operation on etcd",
            median("cpu_us"),
            "us",
            "at most 100 us",
            f"all threads, interpreter and client; the event loop's own thread {median('loop_thread_cpu_us'):.0f} us, "
            f"least of all runs {min(load['cpu_us'] for load in loads):.0f} us; {how}",
        ),
        Figure("loop lag on etcd, p99", median("lag_ms_p99"), "ms", "at most 5 ms", f"a timer of 5 ms; {how}"),
    ]
