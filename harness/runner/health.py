"""Samples the harness's own health: event loop lag, processor pressure, processor time of each node.

A verdict that depends on times means nothing where the harness itself was stalled. So a SampleEvent every 100 ms says
how late a 10 ms timer was at worst, and how long some task waited for a processor (/proc/pressure/cpu, where the kernel
has it).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fencepost.harness.history import SampleEvent
from fencepost.harness.results.recorder import Recorder

SAMPLE_INTERVAL_NS: Final = 100_000_000
TICK_S: Final = 0.01
_PRESSURE: Final = Path("/proc/pressure/cpu")


class HealthSampler:
    """Records samples while `run` runs. `node_cpu` returns, for each node, its processor time so far."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        node_cpu: Mapping[str, Callable[[], int]] = MappingProxyType({}),
        pressure: Path = _PRESSURE,
    ) -> None:
        self._recorder = recorder
        self._node_cpu = node_cpu
        self._pressure = pressure

    async def run(self) -> None:
        """Record samples until cancelled."""
        cpu, stall_ns = self._cpu_ns(), _stalled_ns(self._pressure)
        sampled_ns = ticked_ns = self._recorder.now_ns()
        lag_ns_max = 0
        while True:
            await asyncio.sleep(TICK_S)
            now_ns = self._recorder.now_ns()
            lag_ns_max = max(lag_ns_max, now_ns - ticked_ns - int(TICK_S * 1e9))
            if now_ns - sampled_ns >= SAMPLE_INTERVAL_NS:
                cpu_now, stall_now_ns = self._cpu_ns(), _stalled_ns(self._pressure)
                self._record(lag_ns_max, stall_ns, stall_now_ns, cpu, cpu_now)
                cpu, stall_ns, sampled_ns, lag_ns_max = cpu_now, stall_now_ns, now_ns, 0
            ticked_ns = self._recorder.now_ns()

    def _record(
        self, lag_ns_max: int, stall_ns: int | None, stall_now_ns: int | None, cpu: dict[str, int], now: dict[str, int]
    ) -> None:
        self._recorder.record(
            SampleEvent,
            loop_lag_ns_max=lag_ns_max,
            cpu_stall_ns=None if stall_ns is None or stall_now_ns is None else stall_now_ns - stall_ns,
            # A restarted node counts from 0.
            node_cpu_ns={node: at if at < cpu.get(node, 0) else at - cpu.get(node, 0) for node, at in now.items()},
        )

    def _cpu_ns(self) -> dict[str, int]:
        return {node: read() for node, read in self._node_cpu.items()}


def _stalled_ns(pressure: Path) -> int | None:
    """Return the total of the line "some avg10=... total=<microseconds>", in ns; None where the kernel has none."""
    with contextlib.suppress(OSError, ValueError):
        for line in pressure.read_text().splitlines():
            if line.startswith("some "):
                return int(line.rpartition("total=")[2]) * 1000
    return None
