"""Figures of tracing: what strace costs a cluster of etcd while it is attached, and what a filter would save."""

import statistics

from bench.figure import Figure
from tests.lab_scenario import run_scenario

INSIDE = "bench.tracing_inside"
_WORKERS = 9
_SECONDS = 2.0


def run(repeats: int = 3) -> list[Figure]:
    rates: dict[str, float] = {}
    loads: dict[str, float] = {}
    for how in ("untraced", "attached", "seccomp"):
        measured = run_scenario(
            f"{INSIDE}:load",
            {"how": how, "workers": _WORKERS, "seconds": _SECONDS, "repeats": repeats},
            timeout_s=60 + repeats * _SECONDS * 2,
            uvloop=True,
        )
        rates[how] = statistics.median(load["operations_per_s"] for load in measured)
        loads[how] = measured[-1]["load"]
    base = f"{rates['untraced']:.0f} operations/s untraced (load {loads['untraced']:.1f}), {_WORKERS} workers"
    return [
        Figure(
            f"etcd under strace, {name}",
            rates[how] / rates["untraced"],
            "of the untraced rate",
            "no target",
            f"all three nodes traced for fsync and fdatasync: {rates[how]:.0f} operations/s (load {loads[how]:.1f}) "
            f"against {base}, {repeats} runs of {_SECONDS:g} s each",
        )
        for how, name in (("attached", "attached as faults do"), ("seccomp", "with --seccomp-bpf from its start"))
    ]
