"""How many runs fit: by processors, by memory, and by what their servers are."""

import os
from pathlib import Path

import pytest

from fencepost.campaigns.night import capacity
from fencepost.campaigns.night.capacity import free_memory_bytes, jobs_that_fit
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan


def _plan(system: str) -> CheckedPlan:
    workload = "metadata" if system in ("kraft", "kafka-zk", "kafka-bridge") else "register"
    return check_plan(Plan(system=system, workload=workload, nemesis="kill", seed=0))


@pytest.mark.parametrize(
    ("cores", "memory_gb", "systems", "jobs"),
    [
        (2, 24, ["etcd"], 4),
        (2, 24, ["etcd", "zookeeper"], 2),
        (16, 24, ["zookeeper"], 8),
        (2, 24, ["cassandra"], 2),
        (2, 24, ["etcd", "kraft"], 2),
        (2, 24, ["kafka-zk"], 2),
        (2, 24, ["kafka-bridge"], 2),
        (64, 4, ["etcd"], 4),
        (1, 0.1, ["zookeeper"], 1),
    ],
)
def test_jobs_fit_processors_and_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, memory_gb: float, systems: list[str], jobs: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(capacity, "free_memory_bytes", lambda: int(memory_gb * (1 << 30)))
    assert jobs_that_fit([_plan(system) for system in systems]) == jobs


def test_free_memory_is_what_the_kernel_says_is_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:   20000000 kB\n")
    assert free_memory_bytes(meminfo) == 20_000_000 * 1024
    assert free_memory_bytes() > 0
