"""Figures of slow and lossy links in the lab: how soon they are in force, and what they then do."""

from bench.figure import Figure
from tests.lab_scenario import run_scenario

INSIDE = "bench.links_inside"
_TIMEOUT_S = 60.0


def run() -> list[Figure]:
    commits = run_scenario(f"{INSIDE}:commits", {"commits": 300}, timeout_s=_TIMEOUT_S, uvloop=True)
    trips = run_scenario(f"{INSIDE}:round_trips", {"trips": 60}, timeout_s=_TIMEOUT_S, uvloop=True)
    kept = run_scenario(f"{INSIDE}:kept", {}, timeout_s=_TIMEOUT_S, uvloop=True)
    return [
        Figure(
            "commit of slow links of one node",
            commits["apply_ms"],
            "ms",
            "at most 1 ms",
            f"3 nodes, 4 links, call of apply() to its return, prepared before; p99 {commits['apply_ms_p99']:.3f} ms; "
            f"its healing {commits['heal_ms']:.3f} (p99 {commits['heal_ms_p99']:.3f}) ms; "
            f"preparing, once a run, {commits['prepare_ms']:.0f} ms; packets held by {commits['means']}",
        ),
        Figure(
            "round trip over links of 10 ms latency",
            trips["slow_ms"],
            "ms",
            "20 to 25 ms",
            f"TCP, both directions; {trips['slow_ms_least']:.2f} to p90 {trips['slow_ms_p90']:.2f} ms of 60; "
            f"without the fault {trips['free_ms']:.3f} ms; with a latency of zero, so the queue alone, "
            f"{trips['queue_ms']:.3f} ms",
        ),
        Figure(
            "stream over a link of 64 KB/s",
            kept["rate_kb_s"],
            "KB/s",
            "at most 64 KB/s",
            f"TCP payload, 200 KB; without the fault {kept['free_mb_s']:.0f} MB/s, through the queue unshaped "
            f"{kept['queue_mb_s']:.1f} MB/s; of a loss of 10 % asked for {kept['lost']:.1%} of {kept['sent']} "
            "datagrams were lost",
        ),
    ]
