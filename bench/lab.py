"""Figures of the lab: entering it, and how nearly at once a fault takes hold on all links."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench.figure import Figure
from tests.lab_scenario import ROOT, run_scenario

INSIDE = "bench.lab_inside"
_TIMEOUT_S = 60.0


def run(repeats: int = 7) -> list[Figure]:
    entered = [_enter() for _ in range(repeats)]
    bare = statistics.median(_start([sys.executable, "-S", "-c", "pass"]) for _ in range(repeats))
    program = statistics.median(_start(["/bin/true"]) for _ in range(max(repeats, 20)))
    cuts = [cut for _ in range(repeats) for cut in run_scenario(f"{INSIDE}:cuts", {"cuts": 20}, timeout_s=_TIMEOUT_S)]
    spreads = sorted(cut["spread_ms"] for cut in cuts)
    gaps = statistics.median(cut["round_ms"] for cut in cuts)
    commits = run_scenario(f"{INSIDE}:commits", {"commits": 1000}, timeout_s=_TIMEOUT_S)
    return [
        Figure(
            "entering the lab to all links probed",
            statistics.median(entered),
            "s",
            "at most 0.15 s",
            "3 nodes, from the call of enter() in a started interpreter to the probe matrix of all 12 links; "
            f"{min(entered):.3f} to {max(entered):.3f} s in {repeats}; an empty interpreter starts in {bare:.3f} s",
        ),
        Figure(
            "first to last link of a whole-cluster partition",
            statistics.median(spreads),
            "ms",
            "at most 1 ms",
            f"upper bound by numbered datagrams, one on each of the 6 links every {gaps:.3f} ms: from the earliest "
            "last one that arrived to the latest first one that did not; "
            # On a busy machine the time between two datagrams is mostly that of other processes; numbers are not.
            f"the links' last numbers differ by {max(cut['numbers'] for cut in cuts):.0f} at most; "
            f"p90 {spreads[len(spreads) * 9 // 10]:.3f}, largest {spreads[-1]:.3f} ms of {len(spreads)} cuts",
        ),
        Figure(
            "commit of a whole-cluster split",
            commits["split_ms"],
            "ms",
            "-",
            f"3 nodes cut off from each other, call of apply() to its return; p99 {commits['split_ms_p99']:.3f} ms; "
            f"starting any program (/bin/true) takes {program * 1e3:.2f} ms, a tool per node needs several",
        ),
        Figure(
            "commit of its healing",
            commits["heal_ms"],
            "ms",
            "-",
            f"call of withdraw() to its return; p99 {commits['heal_ms_p99']:.3f} ms",
        ),
    ]


def _enter() -> float:
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        ended = subprocess.run(
            [sys.executable, "-m", "bench.lab_entry", folder],
            cwd=ROOT,
            env={**os.environ, "FENCEPOST_PARENT": str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    return float(ended.stdout)


def _start(argv: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, check=True, timeout=_TIMEOUT_S)
    return time.perf_counter() - begun
