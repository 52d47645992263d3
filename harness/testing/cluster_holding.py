"""Holds a cluster for a test: starts it, answers requests one after the other, heals and stops it at the end."""

import asyncio
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import FencepostError, HarnessError, first_failure
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import STOPPED_EARLY, FaultOutcome
from fencepost.harness.plan.checked_plan import CheckedPlan, Prepared
from fencepost.harness.plugins import registry
from fencepost.harness.runner.beside import Background, EarlyEnd
from fencepost.harness.runner.nemesis_view import cluster_of
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.servers import open_servers
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.testing.cluster_messages import (
    Execute,
    Executed,
    Heal,
    Healed,
    Inject,
    Injected,
    Leads,
    Ready,
    Reply,
    Request,
    RequestRefused,
    WhoLeads,
    serving,
)
from fencepost.harness.testing.relay import Relay

_LOOK_S: Final = 0.02
#: A longer request is a defect of this program.
_LINE_MAX: Final = 1 << 20


def hold(folder: str, sockets: Sequence[int]) -> int:
    """Hold the cluster of the plan in `folder` until stdin ends; returns the exit status of the process."""
    try:
        with asyncio.Runner() as runner:
            runner.run(_hold(Path(folder), sockets))
    except Exception as error:
        if not isinstance(error, FencepostError):
            traceback.print_exc()
        failure = first_failure(error)
        _say(_refused(failure))
        return int(failure.exit_code)
    return 0


async def _hold(folder: Path, sockets: Sequence[int]) -> None:
    prepared = Prepared.take(folder)
    checked, workers = prepared.checked, prepared.checked.request.workers
    end = EarlyEnd()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.ask, STOPPED_EARLY)
    async with AsyncExitStack() as stack:
        servers = await open_servers(
            folder, checked, prepared.artifacts, stack, on_disk_full=lambda: end.ask("disk-full")
        )
        background = Background(servers.recorder, end)
        stack.push_async_callback(background.close)
        observers = Observers(checked.system, servers.runtime.nodes, servers.recorder)
        cluster = cluster_of(servers, observers, workers=workers, others=prepared.others, hurried=end.stop.is_set)
        await servers.start(cluster, background, end.stop.is_set)
        observers.start()
        stack.push_async_callback(observers.close)
        conductor = Conductor(
            cluster=replace(cluster, artifacts=servers.artifacts),
            faults=registry.faults(),
            schedule_sink=lambda row: None,
        )
        stack.push_async_callback(conductor.heal_all)
        port = checked.system.profile.listeners[CLIENT]
        inside = {name: servers.runtime.layout[name].dial(port) for name in serving(checked.members)}
        for descriptor, target in zip(sockets, inside.values(), strict=False):
            relay = Relay(socket.socket(fileno=descriptor), target)
            await relay.open()
            stack.push_async_callback(relay.close)
        _say(Ready(servers.artifacts.version, inside))
        await _Requests(checked, conductor, observers, servers.recorder.now_ns, end).serve()


class _Requests:
    """Answers what comes on stdin."""

    def __init__(
        self, checked: CheckedPlan, conductor: Conductor, observers: Observers, now_ns: Callable[[], int], end: EarlyEnd
    ) -> None:
        self._checked, self._conductor, self._observers, self._end = checked, conductor, observers, end
        self._now_ns = now_ns
        self._count = 0

    async def serve(self) -> None:
        """Answer until stdin ends or the process is asked to end."""
        lines = asyncio.StreamReader(limit=_LINE_MAX)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        stopping = asyncio.create_task(self._end.stop.wait())
        while True:
            reading = asyncio.create_task(lines.readline())
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() or not reading.result():
                reading.cancel()
                stopping.cancel()
                return
            try:
                _say(await self._answer(msgspec.json.decode(reading.result(), type=Request)))
            except FencepostError as error:
                _say(_refused(error))

    async def _answer(self, request: Request) -> Reply:
        failure = self._observers.failed()
        if failure is not None:
            raise HarnessError(f"an observer failed: {failure!r}")
        match request:
            case Inject():
                return await self._inject(request)
            case Heal():
                proof = await self._conductor.heal(request.fault_id, self._end.stop)
                return Healed(proof.outcome is FaultOutcome.HEALED, proof.text)
            case WhoLeads():
                return await self._leader(request)
            case Execute():
                return await _execute(request)

    async def _inject(self, request: Inject) -> Injected:
        (spec,) = parse_faults(request.fault, registry.faults(), self._checked.placement)
        entry = ScheduledFault(spec=spec, inject_ns=0, duration_ns=0, draw_seed=request.seed, number=self._count)
        self._count += 1
        injected = await self._conductor.inject(entry, self._end.stop)
        return Injected(
            injected.fault_id,
            injected.nodes,
            installed=injected.proof.outcome is FaultOutcome.INSTALLED,
            skipped=injected.skipped,
            proof=injected.proof.text,
        )

    async def _leader(self, request: WhoLeads) -> Leads:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + request.timeout_s
        # A node that was killed a moment ago may have said before that it leads.
        since_ns = self._now_ns()
        while True:
            node, epoch = self._observers.leader(since_ns)
            if node not in (None, request.other_than):
                return Leads(node, epoch)
            if loop.time() > ends_s or self._end.stop.is_set():
                return Leads(None, None)
            await asyncio.sleep(_LOOK_S)


async def _execute(request: Execute) -> Executed:
    try:
        child = await asyncio.create_subprocess_exec(
            *request.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise HarnessError(f"{request.argv[0]}: {error.strerror}", hint="give a program that is installed") from None
    talking = asyncio.create_task(child.communicate())
    done, _ = await asyncio.wait({talking}, timeout=request.timeout_s)
    if not done:
        child.kill()
    stdout, stderr = await talking
    return Executed(
        child.returncode if done else None, stdout.decode(errors="replace"), stderr.decode(errors="replace")
    )


def _refused(error: FencepostError) -> RequestRefused:
    return RequestRefused(error.message, error.hint, int(error.exit_code))


def _say(reply: Reply) -> None:
    sys.stdout.write(msgspec.json.encode(reply).decode() + "\n")
    sys.stdout.flush()
