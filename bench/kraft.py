"""Figures of Kafka with its own quorum: start, memory, what observing it costs, and how fast its workloads go."""

import statistics
from collections.abc import Mapping
from typing import Any, Final

from bench.figure import Figure
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.kafka.kraft import KRAFT
from fencepost.harness.systems.kafka.kraft.options import KraftOptions
from tests.lab_scenario import run_scenario

_INSIDE = "bench.kraft_inside"
_LOAD_S = 8.0
_QUIET_S = 10.0
#: As many appenders as three brokers have together; one broker is all that an append can wait for.
_ONE_BROKER: Final = {"appenders_per_node": 12, "min_isr": 1}


def run(repeats: int = 5) -> list[Figure]:
    archived = "archive" in KRAFT.releases.resolve(KRAFT.releases.default).paths
    one_broker, three_brokers = KRAFT.members(3, KraftOptions()), KRAFT.members(3, KraftOptions(brokers=3))
    starts = sorted(run_scenario(f"{_INSIDE}:first_write", nodes=one_broker, timeout_s=90) for _ in range(repeats))
    watched = run_scenario(
        f"{_INSIDE}:observers",
        {"seconds": _QUIET_S, "repeats": repeats},
        nodes=one_broker,
        timeout_s=90 + 3 * repeats * _QUIET_S,
        uvloop=True,
    )
    loads = {
        # What was appended before would be polled again, so the log has a new cluster each time.
        "metadata": _loads(one_broker, "metadata", repeats),
        "log": [load for _ in range(repeats) for load in _loads(one_broker, "log", 1, _ONE_BROKER)],
        "log, three brokers": [load for _ in range(repeats) for load in _loads(three_brokers, "log", 1)],
    }
    shares = sorted(watched["shares"])
    return [
        Figure(
            "KRaft from exec to the first acknowledged metadata write",
            statistics.median(starts),
            "s",
            "at most 4 s",
            f"three controllers and a broker, {'with' if archived else 'without'} the start-up archive;"
            f" {starts[0]:.2f} to {starts[-1]:.2f} s in {repeats}",
        ),
        Figure(
            "KRaft, resident memory of all servers",
            loads["metadata"][-1]["resident_mb"],
            "MB",
            "at most 900 MB",
            f"three controllers and a broker, summed, after {repeats * _LOAD_S:g} s of the metadata workload",
        ),
        Figure(
            "observing KRaft, share of one core",
            statistics.median(shares),
            "%",
            "at most 2 %",
            f"three controllers and a broker, idle; {watched['beliefs_per_s']:.0f} answers/s in the history; CPU of the"
            f" whole harness process with the observers less that without, {repeats} pairs of {_QUIET_S:g} s,"
            f" {shares[0]:.2f} to {shares[-1]:.2f}; {watched['cpu_us']:.0f} us an answer; load {watched['load']:.1f}",
        ),
        _rate("metadata", loads["metadata"], "at least 300/s", "three controllers and a broker"),
        _rate("log", loads["log"], "at least 3000/s", "three controllers and a broker, acks=all, 12 appenders"),
        _rate("log", loads["log, three brokers"], "-", "three controllers and three brokers, acks=all, min_isr 2"),
    ]


def _loads(
    nodes: tuple[Member, ...], workload: str, repeats: int, options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    args = {"workload": workload, "seconds": _LOAD_S, "repeats": repeats, "options": dict(options or {})}
    loads: list[dict[str, Any]] = run_scenario(
        f"{_INSIDE}:load", args, nodes=nodes, timeout_s=90 + 3 * repeats * _LOAD_S, uvloop=True
    )
    return loads


def _rate(name: str, loads: list[dict[str, Any]], target: str, where: str) -> Figure:
    rates = sorted(load["ok_per_s"] for load in loads)
    median = statistics.median(rates)
    ended = statistics.median(load["ended_per_s"] for load in loads)
    cpu_us = statistics.median(load["cpu_us"] for load in loads)
    return Figure(
        f"KRaft, {name} workload{', three brokers' if 'three brokers' in where else ''}",
        median,
        "ok operations/s",
        target,
        f"as fast as it goes, {where}, observed and recorded, uvloop, {len(loads)} runs of {_LOAD_S:g} s,"
        f" {rates[0]:.0f} to {rates[-1]:.0f}; {ended:.0f} ended in any way; harness CPU {cpu_us:.0f} us each;"
        f" load {loads[-1]['load']:.1f}",
    )
