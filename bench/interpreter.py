"""Speed of the interpreter: the register workload's own generator, validated and recorded, against a fake in memory.

What is measured is the harness alone: the fake client returns at once, or after giving the loop one turn.
"""

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.figure import Figure
from fencepost.harness.generators import Generator, Offer, draws, limit
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Clients
from fencepost.harness.interpreter.interpreter import Interpreter, new_event_loop
from fencepost.harness.results.reader import read_history
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.results.run_folder import HISTORY_LINES
from fencepost.workloads.register import RegisterOptions, RegisterWorkload

OPERATIONS: Final = 200_000
_NODES: Final = 3


class InMemory:
    """A register per key, shared by all clients; every call gives the loop one turn, as any real client does."""

    def __init__(self, store: dict[str | None, Any]) -> None:
        self._store = store

    async def invoke(self, offer: Offer) -> Completion:
        await asyncio.sleep(0)
        store = self._store
        if offer.f == "read":
            return Completion(Outcome.OK, store.get(offer.key), position=1, value_position=1, epoch=1)
        if offer.f == "write":
            store[offer.key] = offer.value
            return Completion(Outcome.OK, offer.value, position=1, value_position=1, epoch=1)
        old, new = offer.value
        if store.get(offer.key) != old:
            return Completion(Outcome.FAIL, error="cas-mismatch")
        store[offer.key] = new
        return Completion(Outcome.OK, offer.value, position=1, value_position=1, epoch=1)

    async def close(self) -> None:
        return


def register_generator() -> tuple[Generator, int]:
    """The register workload as it is, but for its rate and without the readers that seldom act."""
    workload = RegisterWorkload()
    options = RegisterOptions(rate=1e12, seldom_per_node=0, active_per_node=4)
    return workload.generator(options, _NODES), workload.workers(options, _NODES)


def plain_generator() -> tuple[Generator, int]:
    """Writes only, drawn as cheaply as can be: what the interpreter costs without a workload."""
    return draws(lambda worker, i, draw: Offer("write", "r1", i)), 4 * _NODES


async def _measure(make: Callable[[], tuple[Generator, int]], folder: Path) -> tuple[float, float]:
    """Operations per second, by the clock and by processor time."""
    recorder = Recorder(folder / HISTORY_LINES)
    recorder.start()
    generator, workers = make()
    store: dict[str | None, Any] = {}

    async def open_client(process: int, node: str) -> InMemory:
        return InMemory(store)

    clients = Clients(
        open=open_client,
        nodes=tuple(f"n{worker % _NODES + 1}" for worker in range(workers)),
        op_timeouts_s=(5.0,) * workers,
        open_timeout_s=1.0,
    )
    interpreter = Interpreter(clients, recorder=recorder, seed=1)
    gc.collect()
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    await interpreter.run(limit(OPERATIONS, generator))
    await recorder.close()
    wall_s, spent_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    await interpreter.close()
    return OPERATIONS / wall_s, OPERATIONS / spent_s


def measure(make: Callable[[], tuple[Generator, int]]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=new_event_loop) as runner:
        speeds = runner.run(_measure(make, Path(name)))
        assert len(read_history(Path(name)).events) == 2 * OPERATIONS
        return speeds


def baseline() -> float:
    """Bare coroutine turns per second of the same loop: what this machine gives right now."""

    async def turns() -> float:
        begun_s = time.perf_counter()
        for _ in range(OPERATIONS):
            await asyncio.sleep(0)
        return OPERATIONS / (time.perf_counter() - begun_s)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(turns())


def run(repeats: int = 5) -> list[Figure]:
    figures = []
    for name, make, target in (
        ("interpreter, register workload", register_generator, "at least 50000/s"),
        ("interpreter, bare generator", plain_generator, "-"),
    ):
        load = os.getloadavg()[0]
        speeds = [measure(make) for _ in range(repeats)]
        turns = statistics.median(baseline() for _ in range(3))
        figures.append(
            Figure(
                name,
                statistics.median(wall for wall, _ in speeds),
                "operations/s",
                target,
                f"validated and recorded to a file until fsync, 12 workers, {OPERATIONS} operations, median of "
                f"{repeats} ({min(w for w, _ in speeds):.0f} to {max(w for w, _ in speeds):.0f}); per processor second "
                f"{statistics.median(cpu for _, cpu in speeds):.0f}; "
                f"baseline {turns:.0f} loop turns/s; load {load:.1f}",
            )
        )
    return figures
