"""Conducts one run: cluster up, phases, nemesis beside them, everything down again."""

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.history import DISK_FULL, STOPPED_EARLY
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter, new_event_loop
from fencepost.harness.plan.checked_plan import Prepared
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import clients_of
from fencepost.harness.runner.beside import Background, EarlyEnd, tell, tell_failure
from fencepost.harness.runner.faults import ScheduleFile, freezes_clients, schedule_of
from fencepost.harness.runner.health import HealthSampler
from fencepost.harness.runner.nemesis_view import cluster_of
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.phases import RunPhases
from fencepost.harness.runner.servers import Servers, open_servers

_CONNECT_TIMEOUT_S: Final = 2.0
_OPEN_TIMEOUT_S: Final = 2.5


def run_folder(folder: str) -> int:
    """Carry out what was prepared in `folder`; progress on stdout; returns the exit status of the process."""
    path = Path(folder)
    loop = new_event_loop()
    try:
        loop.run_until_complete(_conduct(path))
    except Exception as error:
        return tell_failure(error)
    finally:
        loop.close()
    tell("done")
    return 0


async def _conduct(folder: Path) -> None:
    prepared = Prepared.take(folder)
    checked, workers = prepared.checked, prepared.checked.request.workers
    end = EarlyEnd()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.ask, STOPPED_EARLY)
    async with AsyncExitStack() as stack:
        servers = await open_servers(
            folder, checked, prepared.artifacts, stack, on_disk_full=lambda: end.ask(DISK_FULL)
        )
        background = Background(servers.recorder, end)
        stack.push_async_callback(background.close)
        nodes = servers.runtime.nodes
        health = HealthSampler(servers.recorder, node_cpu={name: node.cpu_ns for name, node in nodes.items()})
        background.spawn(health.run())
        background.spawn(end.note(servers.recorder, checked.plan.deadline))
        observers = Observers(checked.system, nodes, servers.recorder)
        freezer = Freezer(_client_count(servers)) if freezes_clients(workers) else None
        interpreter = _interpreter(servers, observers, freezer)
        cluster = cluster_of(
            servers,
            observers,
            workers=workers,
            others=prepared.others,
            hurried=end.stop.is_set,
            freezer=freezer,
            interpreter=interpreter,
        )
        await servers.start(cluster, background, end.stop.is_set)
        await servers.prepare()
        observers.start()
        stack.push_async_callback(observers.close)
        stack.push_async_callback(interpreter.close)
        schedule_file = ScheduleFile(folder, servers.recorder.now_ns)
        stack.callback(schedule_file.close)
        conductor = Conductor(
            cluster=replace(cluster, artifacts=servers.artifacts),
            faults=registry.faults(),
            schedule_sink=schedule_file.write,
            keep_quorum=checked.keeps_quorum,
        )
        phases = RunPhases(
            servers,
            end,
            interpreter=interpreter,
            observers=observers,
            conductor=conductor,
            schedule_file=schedule_file,
        )
        background.spawn(phases.tell_ticks())
        background.spawn(phases.look())
        await phases.run(schedule_of(checked, workers))
        failure = observers.failed()
        if failure is not None:
            raise HarnessError(f"an observer failed: {failure!r}")
        await interpreter.close()
        await observers.close()
        # The history ends here: what tearing down does to the servers is no news of them.
        await background.close()
        await servers.recorder.close()
        tell("recorded")
        await servers.keep_data()


def _client_count(servers: Servers) -> int:
    checked = servers.checked
    return checked.workload.workers(checked.options, len(servers.client_nodes))


def _interpreter(servers: Servers, observers: Observers, freezer: Freezer | None) -> Interpreter:
    """What carries the load out, on clients that it opens itself."""
    checked, names = servers.checked, servers.client_nodes

    async def open_client(process: int, node: str) -> Client:
        place, options = servers.runtime.layout[node], checked.system_options
        client = await checked.system.open_client(
            place, checked.workload.protocol, connect_timeout_s=_CONNECT_TIMEOUT_S, options=options
        )
        return checked.workload.client(client, checked.options, servers.recorder.now_ns)

    clients = clients_of(
        checked.workload,
        checked.options,
        names,
        open_client,
        op_timeout_s=checked.plan.duration_ns("op_timeout") / 1e9,
        open_timeout_s=_OPEN_TIMEOUT_S,
        freezer=freezer,
    )
    return Interpreter(
        clients, recorder=servers.recorder, seed=checked.plan.seed, superseded=lambda: observers.superseded
    )
