"""Samples the harness's own health: event loop lag, processor pressure, processor time of each node.

A verdict that depends on times means nothing where the harness itself was stalled. So a SampleEvent every 100 ms says
how late a 10 ms timer was at worst, how long some task waited for a processor (/proc/pressure/cpu, where the kernel
has it), and how long the timer's own thread did: a lag that is such a wait was caused by other work on the machine.
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
#: Of this thread: processor time, time in which it could run and waited for a processor, both in ns, and time slices.
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


class HealthSampler:
    """Records samples while `run` runs. `node_cpu` returns, for each node, its processor time so far."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        node_cpu: Mapping[str, Callable[[], int]] = MappingProxyType({}),
        pressure: Path = _PRESSURE,
        scheduled: Path = _SCHEDULED,
    ) -> None:
        self._recorder = recorder
        self._node_cpu = node_cpu
        self._pressure = pressure
        self._scheduled = scheduled

    async def run(self) -> None:
        """Record samples until cancelled."""
        cpu, stall_ns, waited_ns = self._cpu_ns(), _stalled_ns(self._pressure), _waited_ns(self._scheduled)
        sampled_ns = ticked_ns = self._recorder.now_ns()
        lag_ns_max = 0
        while True:
            await asyncio.sleep(TICK_S)
            now_ns = self._recorder.now_ns()
            lag_ns_max = max(lag_ns_max, now_ns - ticked_ns - int(TICK_S * 1e9))
            if now_ns - sampled_ns >= SAMPLE_INTERVAL_NS:
                cpu_now, stall_now_ns = self._cpu_ns(), _stalled_ns(self._pressure)
                waited_now_ns = _waited_ns(self._scheduled)
                self._recorder.record(
                    SampleEvent,
                    loop_lag_ns_max=lag_ns_max,
                    cpu_stall_ns=_since(stall_ns, stall_now_ns),
                    loop_waited_ns=_since(waited_ns, waited_now_ns),
                    # A restarted node counts from 0.
                    node_cpu_ns={
                        node: at - before if (before := cpu.get(node, 0)) <= at else at for node, at in cpu_now.items()
                    },
                )
                cpu, stall_ns, waited_ns = cpu_now, stall_now_ns, waited_now_ns
                sampled_ns, lag_ns_max = now_ns, 0
            ticked_ns = self._recorder.now_ns()

    def _cpu_ns(self) -> dict[str, int]:
        return {node: read() for node, read in self._node_cpu.items()}


def _stalled_ns(pressure: Path) -> int | None:
    """Return the total of the line "some avg10=... total=<microseconds>", in ns; None where the kernel has none."""
    with contextlib.suppress(OSError, ValueError):
        for line in pressure.read_text().splitlines():
            if line.startswith("some "):
                return int(line.rpartition("total=")[2]) * 1000
    return None


def _waited_ns(scheduled: Path) -> int | None:
    """Return how long this thread has waited for a processor so far; None where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(scheduled.read_text().split()[1])
    return None


def _since(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before
