"""A workload played in virtual time against a store in memory: load, heal, settle, and the final phase."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fencepost.harness.generators import time_limit
from fencepost.harness.history import Event, History, PhaseEvent, PhaseName
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns


def play(
    workload: Workload[Any],
    session: Callable[[str], Any],
    *,
    nodes: Sequence[str],
    seed: int,
    load_s: float,
    system: str,
    options: Mapping[str, Any],
    beside: Callable[[Recorder], Coroutine[Any, Any, None]] | None = None,
    final_s: float = 10.0,
) -> History:
    """One run: `session` makes what a client talks to, by node; `beside` runs as long as the load and the end do.

    The workload's options are those for `system`, with `options` over them.
    """

    async def run() -> History:
        merged = workload_options(workload, registry.system(system), options)
        recorder = Recorder(None, clock_ns=virtual_clock_ns)
        events: list[Event] = []
        recorder.listeners.append(events.append)

        async def open_client(process: int, node: str) -> Client:
            await asyncio.sleep(0.001)
            return workload.client(session(node), merged, recorder.now_ns)

        clients = clients_of(workload, merged, nodes, open_client, op_timeout_s=3.0, open_timeout_s=0.5)
        interpreter = Interpreter(clients, recorder=recorder, seed=seed)
        also = None if beside is None else asyncio.ensure_future(beside(recorder))
        try:
            recorder.record(PhaseEvent, phase=PhaseName.MAIN)
            await interpreter.run(time_limit(round(load_s * 1e9), workload.generator(merged, len(nodes))))
            recorder.record(PhaseEvent, phase=PhaseName.HEAL)
            recorder.record(PhaseEvent, phase=PhaseName.SETTLE)
            await asyncio.sleep(0.5)
            recorder.record(PhaseEvent, phase=PhaseName.FINAL)
            await interpreter.run(time_limit(round(final_s * 1e9), workload.final_generator(merged, len(nodes))))
        finally:
            if also is not None:
                also.cancel()
            await interpreter.close()
        return History(events, source=f"fake {workload.name}, seed {seed}")

    return run_virtual(run())
