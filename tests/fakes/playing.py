"""A workload played in virtual time against a store in memory: load, heal, settle, and the final phase."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import Any

import pytest

from fencepost.harness.base.options import Options
from fencepost.harness.generators import time_limit
from fencepost.harness.history import Event, History, PhaseEvent, PhaseName
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Validity, Verdict
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns

#: What runs in a run beside its workload: faults, and what nodes say of themselves.
Beside = Callable[[Recorder], Coroutine[Any, Any, None]]


def play(
    workload: Workload[Any],
    session: Callable[[str], Any],
    *,
    nodes: Sequence[str],
    seed: int,
    load_s: float,
    options: Options | Mapping[str, Any],
    system: str = "",
    begin: Callable[[Recorder], None] | None = None,
    beside: Sequence[Beside] = (),
    disturb: Beside | None = None,
    warm_up_s: float = 0.0,
    settle_s: float = 0.5,
    final_s: float | None = 10.0,
    open_s: float = 0.001,
    op_timeout_s: float = 3.0,
) -> History:
    """One run: `session` makes what a client talks to, by node.

    `begin` comes first, `beside` runs as long as the load and the end do, and the load's end waits for `disturb`.
    `options` are all of the workload's, or what differs from those for `system`. Without `final_s` the final phase
    ends when its generator does.
    """

    async def run() -> History:
        if isinstance(options, Options):
            merged = options
        else:
            merged = workload_options(workload, registry.system(system), options)
        recorder = Recorder(None, clock_ns=virtual_clock_ns)
        events: list[Event] = []
        recorder.listeners.append(events.append)

        async def open_client(process: int, node: str) -> Client:
            if open_s:
                await asyncio.sleep(open_s)
            return workload.client(session(node), merged, recorder.now_ns)

        if begin is not None:
            begin(recorder)
        clients = clients_of(workload, merged, nodes, open_client, op_timeout_s=op_timeout_s, open_timeout_s=0.5)
        interpreter = Interpreter(clients, recorder=recorder, seed=seed)
        also = [asyncio.ensure_future(task(recorder)) for task in beside]
        try:
            if warm_up_s:
                recorder.record(PhaseEvent, phase=PhaseName.WARM_UP)
                await interpreter.run(time_limit(round(warm_up_s * 1e9), workload.generator(merged, len(nodes))))
            recorder.record(PhaseEvent, phase=PhaseName.MAIN)
            faults = None if disturb is None else asyncio.ensure_future(disturb(recorder))
            await interpreter.run(time_limit(round(load_s * 1e9), workload.generator(merged, len(nodes))))
            if faults is not None:
                await faults
            recorder.record(PhaseEvent, phase=PhaseName.HEAL)
            recorder.record(PhaseEvent, phase=PhaseName.SETTLE)
            await asyncio.sleep(settle_s)
            recorder.record(PhaseEvent, phase=PhaseName.FINAL)
            final = workload.final_generator(merged, len(nodes))
            await interpreter.run(final if final_s is None else time_limit(round(final_s * 1e9), final))
        finally:
            for task in also:
                task.cancel()
            await interpreter.close()
        return History(events, source=f"fake {workload.name}, seed {seed}")

    return run_virtual(run())


def assert_found_within_ten_seeds(bug: tuple[str, str | Set[str]], judged: Callable[[int], Sequence[Verdict]]) -> None:
    """Fail unless `judged` breaks a guarantee by the anomaly of `bug` with one of ten seeds, and shows why.

    `bug`: what it does, and one anomaly or several, by name or as checker:name.
    """
    about, wanted = bug
    names = {wanted} if isinstance(wanted, str) else wanted
    seen = []
    for seed in range(10):
        broken = [v for v in judged(seed) if v.validity is Validity.INVALID]
        found = {of + name for v in broken for name in v.anomalies for of in ("", f"{v.checker}:")}
        seen.append(found)
        if names & found:
            assert all(v.witnesses and v.witnesses[0].steps for v in broken)
            return
    pytest.fail(f"{about}: wanted {wanted}, ten seeds gave {seen}")
