"""The part of etcd's figures that is measured inside the lab."""

import asyncio
import os
import time
from typing import Any, Final, cast

from fencepost.harness.coordination import Definite, Indefinite, Interface, KeyValue
from fencepost.harness.generators import time_limit
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plugins.workload import clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.systems.etcd.system import ETCD
from fencepost.workloads.register import RegisterWorkload

_TICK_S: Final = 0.005
_START_S: Final = 20.0


async def first_write(lab: Lab, args: dict[str, Any]) -> float:
    """Return the seconds from the first server's exec to the first acknowledged write."""
    await lab.realise(ETCD.specs(lab.layout, ETCD.releases.resolve(ETCD.releases.default), ETCD.profile.options()))
    began = time.monotonic()
    for node in lab.nodes.values():
        await node.start()
    async with asyncio.timeout(_START_S):
        while True:
            try:
                client = cast(
                    KeyValue, await ETCD.open_client(lab.layout["n1"], Interface.STORAGE, connect_timeout_s=1.0)
                )
            except Definite:
                await asyncio.sleep(0.005)
                continue
            try:
                await client.write("k", b"v")
                return time.monotonic() - began
            except (Definite, Indefinite):
                continue
            finally:
                await client.close()


async def load(lab: Lab, args: dict[str, Any]) -> list[dict[str, float]]:
    """Run the register workload at full speed with `workers` workers, `repeats` times for `seconds`."""
    await first_write(lab, args)
    async with asyncio.timeout(_START_S):
        while await ETCD.healthy(lab.layout) is not None:
            await asyncio.sleep(0.05)
    return [await _load(lab, args["workers"], args["seconds"]) for _ in range(args["repeats"])]


async def _load(lab: Lab, workers: int, seconds: float) -> dict[str, float]:
    per_node = -(-workers // len(lab.nodes))
    lags: list[float] = []
    ticking = asyncio.create_task(_tick(lags))
    cost = await run_register(lab, seconds, {"rate": 1e6, "active_per_node": per_node, "seldom_per_node": 0})
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    lags.sort()
    return {**cost, "lag_ms_p99": lags[len(lags) * 99 // 100] * 1e3, "load": os.getloadavg()[0]}


async def run_register(lab: Lab, seconds: float, changed: dict[str, Any]) -> dict[str, float]:
    """Run the register workload with some options changed; return what an operation costs the harness."""
    workload = RegisterWorkload()
    names = list(lab.nodes)
    options = workload_options(workload, ETCD, changed)

    async def open_client(process: int, node: str) -> Client:
        session = await ETCD.open_client(lab.layout[node], workload.protocol, connect_timeout_s=2.0)
        return workload.client(cast(KeyValue, session), options, time.monotonic_ns)

    interpreter = Interpreter(
        clients_of(workload, options, names, open_client, op_timeout_s=5.0, open_timeout_s=2.5),
        recorder=Recorder(None),
        seed=1,
    )
    cpu, loop_cpu, began = time.process_time(), time.thread_time(), time.monotonic()
    await interpreter.run(time_limit(round(seconds * 1e9), workload.generator(options, len(names))))
    cpu, loop_cpu, took = time.process_time() - cpu, time.thread_time() - loop_cpu, time.monotonic() - began
    completed = interpreter.completed
    await interpreter.close()
    return {
        "operations_per_s": completed / took,
        "cpu_us": cpu / completed * 1e6,
        "loop_thread_cpu_us": loop_cpu / completed * 1e6,
    }


async def _tick(lags: list[float]) -> None:
    """Record how late a timer of 5 ms is, each time."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _TICK_S
        await asyncio.sleep(_TICK_S)
        lags.append(loop.time() - due)
