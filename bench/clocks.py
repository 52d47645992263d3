"""Figures of skewed clocks: what arming, changing and reading them costs, and a minute of etcd at full load."""

import os
import statistics

from bench.figure import Figure
from tests.lab_scenario import run_scenario
from tests.runtime.clocks.programs import built, running

INSIDE = "bench.clocks_inside"
_CALLS = 9
_SOAK_S = 60.0


def run(repeats: int = 1000) -> list[Figure]:
    costs = _costs()
    etcd = run_scenario(f"{INSIDE}:changes", {"system": "etcd", "repeats": repeats}, timeout_s=90, uvloop=True)
    jvm = run_scenario(f"{INSIDE}:changes", {"system": "zookeeper", "repeats": repeats}, timeout_s=90, uvloop=True)
    soak = run_scenario(f"{INSIDE}:soak", {"seconds": _SOAK_S}, timeout_s=_SOAK_S + 90, uvloop=True)
    extra_ns = max(costs["armed"][clock] - costs["plain"][clock] for clock in ("wall", "monotonic"))
    return [
        Figure(
            "clocks: change of an armed server",
            max(etcd["change_ms"], jvm["change_ms"]),
            "ms",
            "at most 0.2 ms",
            f"both clocks of one node, from the call to the last write; etcd {etcd['change_ms']:.3f} "
            f"(p99 {etcd['change_ms_p99']:.3f}), ZooKeeper {jvm['change_ms']:.3f} (p99 {jvm['change_ms_p99']:.3f}) of "
            f"{repeats}; load {etcd['load']:.1f}",
        ),
        Figure(
            "clocks: an armed call's extra cost",
            extra_ns,
            "ns",
            "at most 15 ns",
            f"clock_gettime by offset, rate and strobe: {costs['armed']['wall']:.1f} ns (wall), "
            f"{costs['armed']['monotonic']:.1f} ns (monotonic); not armed {costs['plain']['wall']:.1f} and "
            f"{costs['plain']['monotonic']:.1f}; the least of 40 rounds of 20000, median of {_CALLS} programs each; "
            f"load {os.getloadavg()[0]:.1f}",
        ),
        Figure(
            "clocks: arming a running server",
            jvm["arm_ms"],
            "ms",
            "-",
            f"ZooKeeper, {jvm['threads']} threads, its waits included; etcd, {etcd['threads']} threads: "
            f"{etcd['arm_ms']:.2f}; the keeper's own time, median of {jvm['arms']}; disarming {jvm['release_ms']:.2f} "
            f"and {etcd['release_ms']:.2f} ms as seen from the harness; load {jvm['load']:.1f}",
        ),
        Figure(
            "clocks: one node's inject",
            jvm["inject_ms"],
            "ms",
            "-",
            f"the whole fault with its proofs and the start of its keeper, ZooKeeper; etcd {etcd['inject_ms']:.1f}; "
            f"heal {jvm['heal_ms']:.1f} and {etcd['heal_ms']:.1f}; medians of {jvm['faults']}; load {jvm['load']:.1f}",
        ),
        Figure(
            "clocks: soak of etcd under strobe and drift",
            soak["errors"],
            "errors",
            "none",
            f"{_SOAK_S:g} s at full load, {soak['operations']} operations, terms seen {soak['terms']}; one node's wall "
            f"clock set to +-120 s every 10 ms ({soak['changes']} changes), one strobing by an hour every 10 ms, one "
            f"at 0.95 of its rate; load {soak['load']:.1f}{'; first ' if soak['errors'] else ''}{soak['first_error']}",
        ),
        Figure(
            "clocks: the machine's own clock meanwhile",
            soak["host_us"],
            "us",
            "none",
            f"its wall clock moved so much against CLOCK_MONOTONIC_RAW in {_SOAK_S:g} s of that soak, and "
            f"{soak['idle_us']:.1f} us in the {soak['idle_s']:g} s before it, without any fault",
        ),
    ]


def _costs() -> dict[str, dict[str, float]]:
    """Return ns per call, by clock. Plain and armed programs take turns, so that the machine is the same for both."""
    from fencepost.harness.runtime.clocks.process import ClockedProcess
    from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings

    full = ClockSetting(
        base_ns=1, offset_ns=10**9, extra_rate=RATE_ONE // 20, period_ns=10**7, delta_ns=10**9, length_ns=2**62
    )
    costs: dict[str, list[dict[str, float]]] = {"plain": [], "armed": []}
    with built() as program:
        for _ in range(_CALLS):
            for kind, rounds in costs.items():
                with running(str(program), "cost") as child:
                    if kind == "armed":
                        process = ClockedProcess(child.pid)
                        process.arm(Settings(full, full))
                        process.close()
                    rounds.append(child.ask())
    return {
        kind: {clock: statistics.median(each[clock] for each in rounds) for clock in ("wall", "monotonic")}
        for kind, rounds in costs.items()
    }
