"""The part of KRaft's figures that is measured inside the lab."""

import asyncio
import cProfile
import os
import pstats
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.options import Options
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.generators import time_limit
from fencepost.harness.history import Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.kafka.client.client import open_node
from fencepost.harness.systems.kafka.kraft import KRAFT
from fencepost.harness.systems.kafka.kraft.configuration import CONTROLLER
from fencepost.harness.systems.kafka.kraft.options import KraftOptions
from fencepost.harness.systems.kafka.names import CLIENT_PORT
from fencepost.harness.systems.kafka.wire.values import ALL_BROKERS

_START_S: Final = 60.0
#: A pace that no server keeps up with.
_UNBOUNDED: Final = 100_000.0
_PROFILED_ROWS: Final = 45


async def first_write(lab: Lab, args: dict[str, Any]) -> float:
    """Return the seconds from the first server's exec to the first acknowledged change of metadata."""
    await _realise(lab, KraftOptions())
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for node in lab.nodes.values():
            group.create_task(node.start())
    controllers = [place for place in lab.layout.values() if CONTROLLER in place.roles]
    async with asyncio.timeout(_START_S):
        while True:
            for place in controllers:
                with suppress(Definite, Indefinite):
                    controller = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=1.0)
                    try:
                        async with asyncio.timeout(2.0):
                            await controller.alter_config(ALL_BROKERS, "message.max.bytes", "1000000")
                        return time.monotonic() - began
                    finally:
                        controller.close()
            await asyncio.sleep(0.005)


async def observers(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Return the per cent of one core that observing an idle cluster takes: with observers less without."""
    await _up(lab, KraftOptions())
    shares: list[float] = []
    beliefs = 0
    for number in range(args["repeats"]):
        path = Path(lab.layout["n1"].kept) / f"observed-{number}"
        recorder = Recorder(path)
        recorder.start()
        without_s = await _idle_cpu_s(args["seconds"])
        watching = Observers(KRAFT, lab.nodes, recorder)
        watching.start()
        with_s = await _idle_cpu_s(args["seconds"])
        await watching.close()
        await recorder.close()
        beliefs += path.read_bytes().count(b"\n")
        shares.append((with_s - without_s) / args["seconds"] * 100)
    per_s = beliefs / (args["repeats"] * args["seconds"])
    return {
        "shares": shares,
        "beliefs_per_s": per_s,
        "cpu_us": sum(shares) / len(shares) / 100 / per_s * 1e6,
        "load": os.getloadavg()[0],
    }


async def _idle_cpu_s(seconds: float) -> float:
    """Return the CPU time of this whole process, the recorder's thread included, while it does nothing else."""
    began = time.process_time()
    await asyncio.sleep(seconds)
    return time.process_time() - began


async def load(lab: Lab, args: dict[str, Any]) -> list[dict[str, float]]:
    """Run a workload at full speed, observed and recorded as in a run, `repeats` times for `seconds`.

    With `profile` the functions that took most are printed.
    """
    workload = registry.workload(args["workload"])
    system_options = KRAFT.profile.parse_options(workload.system_options(KRAFT))
    options = workload_options(workload, KRAFT, {"rate": _UNBOUNDED, **args.get("options", {})})
    await _up(lab, system_options)
    names = workload.nodes(tuple(Member(place.name, place.roles) for place in lab.layout.values()))
    client = await KRAFT.open_client(lab.layout[names[-1]], connect_timeout_s=5.0)
    await KRAFT.prepare(client, workload.keys(options))
    await client.close()
    profile = cProfile.Profile() if args.get("profile") else None
    if profile is not None:
        profile.enable()
    loads = [await _load(lab, workload, options, names, number, args["seconds"]) for number in range(args["repeats"])]
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILED_ROWS)
    return loads


async def _load(
    lab: Lab, workload: Any, options: Options, names: tuple[str, ...], number: int, seconds: float
) -> dict[str, float]:
    recorder = Recorder(Path(lab.layout["n1"].kept) / f"history-{number}")
    recorder.start()

    async def open_client(process: int, node: str) -> Client:
        session = await KRAFT.open_client(lab.layout[node], connect_timeout_s=2.0)
        client: Client = workload.client(session, options, recorder.now_ns)
        return client

    interpreter = Interpreter(
        clients_of(workload, options, names, open_client, op_timeout_s=12.0, open_timeout_s=2.5),
        recorder=recorder,
        seed=number,
    )
    watching = Observers(KRAFT, lab.nodes, recorder)
    watching.start()
    cpu, began = time.process_time(), time.monotonic()
    await interpreter.run(time_limit(round(seconds * 1e9), workload.generator(options, len(names))))
    cpu, took = time.process_time() - cpu, time.monotonic() - began
    await interpreter.close()
    await watching.close()
    await recorder.close()
    return {
        "ok_per_s": interpreter.counts[Outcome.OK] / took,
        "ended_per_s": interpreter.completed / took,
        "cpu_us": cpu / interpreter.completed * 1e6,
        "resident_mb": sum(_resident_mb(node.pid) for node in lab.nodes.values()),
        "load": os.getloadavg()[0],
    }


async def _realise(lab: Lab, options: KraftOptions) -> None:
    await lab.realise(KRAFT.specs(lab.layout, KRAFT.releases.resolve(KRAFT.releases.default), options))


async def _up(lab: Lab, options: KraftOptions) -> None:
    await _realise(lab, options)
    for node in lab.nodes.values():
        await node.start()
    async with asyncio.timeout(_START_S):
        while await KRAFT.healthy(lab.layout) is not None:
            await asyncio.sleep(0.05)


def _resident_mb(pid: int | None) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6
