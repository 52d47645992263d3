"""A cluster in the lab under the conductor, its faults injected and healed one by one by whoever plays a scene.

`plain` is a cluster of small programs (`server`) with a leader in name only: all faults of processes, links, clocks and
disks act on it as on any other, and it starts in milliseconds. Else a system of the registry, written to all the time.
"""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Keys, prepare
from fencepost.harness.coordination.client_gate import Freezer, create_connection
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import Cluster, FaultSpec, Resolved, Skip, View
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import Event, FaultAction, FaultEvent, FaultOutcome, FaultStage
from fencepost.harness.plugins import registry
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.readiness import await_healthy
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node, NodeSpec, NodeState, Place
from fencepost.harness.runtime.provider import Placement
from tests.fakes.profile import NoParts

PLAIN: Final = "plain"
_DEADLINE_S: Final = 30.0
_WRITE_S: Final = 2.0


@dataclass(slots=True)
class Acted:
    """A fault that was injected, or tried; `outcomes` of the injection and of every healing so far."""

    fault_id: int
    spec: FaultSpec
    resolved: Resolved
    told: Any
    outcomes: list[tuple[FaultOutcome, str]]

    @property
    def healed(self) -> bool:
        return self.outcomes[-1][0] is FaultOutcome.HEALED


class Plain(NoParts):
    """As much of a system as faults ask for: it serves when it runs, and hands its leadership over."""

    profile: Final = Profile(name=PLAIN, options=SystemOptions, interfaces=frozenset(), reads={}, listeners={})
    releases: Final = SimpleNamespace(default="")

    def __init__(self) -> None:
        self.leader = "n1"
        self.moves = 0

    async def ready(self, node: Node) -> bool:
        return node.state is NodeState.RUNNING

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        self.leader, self.moves = to.name, self.moves + 1


class Stage:
    """Made by `open`; `close` it."""

    def __init__(self, lab: Lab, system: str) -> None:
        self.lab, self.is_plain = lab, system == PLAIN
        self.system = cast(System, Plain()) if self.is_plain else registry.system(system)
        self.faults = registry.faults()
        self.freezer = Freezer(len(lab.nodes))
        self.recorder = Recorder(None)
        self.observers: Observers | None = None
        self.acknowledged = 0
        self.mounts_before = mounts()
        self._events: list[FaultEvent] = []
        self._undo = contextlib.AsyncExitStack()
        self._count = 0
        self.recorder.listeners.append(self._heard)
        options = self.system.profile.options()
        self.placement = Placement(
            nodes=len(lab.nodes), system=self.system, system_options=options, version=self.system.releases.default
        )
        self.cluster = Cluster(
            runtime=lab,
            system=self.system,
            artifacts=Artifacts(version="", paths={}, sha256={}),
            options=options,
            records=self.recorder,
            view=self.view,
            folder=Path(next(iter(lab.layout.values())).kept).parent,
            clients=self.freezer,
        )
        self.conductor: Conductor

    @classmethod
    async def open(cls, lab: Lab, system: str) -> "Stage":
        stage = cls(lab, system)
        try:
            await stage._start()
        except BaseException:
            await stage.close()
            raise
        return stage

    async def close(self) -> None:
        await self._undo.aclose()

    async def _start(self) -> None:
        if self.is_plain:
            program = str(Path(__file__).with_name("server.py"))
            await self.lab.realise(
                NodeSpec(name=name, argv=(sys.executable, "-S", program, str(place.data)), listeners={})
                for name, place in self.lab.layout.items()
            )
        else:
            artifacts = self.system.releases.resolve(self.system.releases.default)
            self.cluster = replace(self.cluster, artifacts=artifacts, changes_members=True)
            await self.lab.realise(self.cluster.specs().values())
        for node in self.lab.nodes.values():
            await node.start()
        self.conductor = Conductor(
            cluster=self.cluster, faults=self.faults, schedule_sink=lambda row: None, keep_quorum=False
        )
        if not self.is_plain:
            await self.healthy()
            await self._prepare()
            self.observers = Observers(self.system, self.lab.nodes, self.recorder)
            self.observers.start()
            self._undo.push_async_callback(self.observers.close)
        port = 0
        if self.is_plain:
            echo = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
            self._undo.callback(echo.close)
            port = echo.sockets[0].getsockname()[1]
        writers = [
            asyncio.create_task(self._write(number, name, port), name="writer")
            for number, name in enumerate(self.lab.nodes)
        ]
        self._undo.push_async_callback(_cancelled, writers)
        await self.written()

    async def _prepare(self) -> None:
        place = next(iter(self.lab.layout.values()))
        client = await self.system.open_client(place, Interface.STORAGE, connect_timeout_s=5.0)
        try:
            await prepare(client, Keys(("s",)))
        finally:
            await client.close()

    # -- what faults are asked of -------------------------------------------------------------------------------------

    def view(self) -> View:
        leader, epoch = self._leader()
        return View(
            nodes=tuple(self.lab.nodes),
            leader=leader,
            epoch=epoch,
            members=self.placement.cluster,
            bound_ns=1_200_000_000,
            clients=len(self.freezer.gates),
            busy_clients=self.freezer.connected,
        )

    def _leader(self) -> tuple[str | None, int | None]:
        if self.observers is not None:
            return self.observers.leader()
        plain = cast(Plain, self.system)
        return plain.leader, plain.moves + sum(node.incarnation for node in self.lab.nodes.values())

    async def healthy(self) -> None:
        """Every server runs; a real cluster serves as a whole."""
        if self.is_plain:
            states = {name: node.state for name, node in self.lab.nodes.items()}
            assert set(states.values()) == {NodeState.RUNNING}, states
            return
        wrong = await await_healthy(self.system, self.lab.layout, deadline_s=_DEADLINE_S)
        assert wrong is None, wrong

    async def led(self) -> None:
        """Wait until somebody is known to lead."""
        async with asyncio.timeout(_DEADLINE_S):
            while self.view().leader is None:
                await asyncio.sleep(0.01)

    async def written(self, count: int = 3) -> None:
        """Wait until so many more writes of clients were acknowledged."""
        wanted = self.acknowledged + count
        async with asyncio.timeout(_DEADLINE_S):
            while self.acknowledged < wanted:
                await asyncio.sleep(0.005)

    async def _write(self, number: int, name: str, port: int) -> None:
        """One worker: element after element through its gate, on a new connection after every error."""
        self.freezer.gates[number].enter()
        element = number
        while True:
            # Whatever goes wrong under a fault: only what was acknowledged counts.
            with suppress(Exception):
                if port:
                    await self._ask_for_ever(port)
                client: Any = await self.system.open_client(
                    self.lab.layout[name], Interface.STORAGE, connect_timeout_s=1.0
                )
                try:
                    while True:
                        element += len(self.lab.nodes)
                        async with asyncio.timeout(_WRITE_S):
                            await client.add("s", element)
                        self.acknowledged += 1
                finally:
                    await client.close()
            await asyncio.sleep(0.02)

    async def _ask_for_ever(self, port: int) -> None:
        asked = await create_connection(_Asking, "127.0.0.1", port)
        try:
            while True:
                before = asked.answers
                asked.transport.write(b"?")
                async with asyncio.timeout(_WRITE_S):
                    while asked.answers == before:
                        await asyncio.sleep(0.005)
                self.acknowledged += 1
        finally:
            asked.transport.abort()

    # -- faults -------------------------------------------------------------------------------------------------------

    def parsed(self, text: str) -> FaultSpec | str:
        """The spec, or why there is none on such a cluster or machine."""
        try:
            (spec,) = parse_faults(text, self.faults, self.placement)
        except UsageError as error:
            return error.message
        refusal = self.faults[spec.fault].unavailable(self.placement)
        return spec if refusal is None else str(refusal)

    def obstacle(self, spec: FaultSpec, seed: int) -> str | None:
        """Why the conductor would not inject it now."""
        fault = self.faults[spec.fault]
        resolved = fault.choose(spec, self.view(), random.Random(seed))
        if isinstance(resolved, Skip):
            return resolved.why
        entry = ScheduledFault(spec=spec, inject_ns=0, duration_ns=1, draw_seed=seed)
        return self.conductor._obstacle(fault, entry, resolved, self.view())

    async def inject(self, spec: FaultSpec, seed: int, *, cancel_after_s: float | None = None) -> Acted | None:
        """As the conductor does it; None when it skipped it, or was cancelled before it began."""
        entry = ScheduledFault(spec=spec, inject_ns=0, duration_ns=1, draw_seed=seed, number=self._count)
        self._count += 1
        before, known = len(self._events), set(self.conductor._active)
        injecting = asyncio.create_task(self.conductor.inject(entry, asyncio.Event()))
        if cancel_after_s is not None:
            await asyncio.sleep(cancel_after_s)
            injecting.cancel()
        await asyncio.wait([injecting])
        if not injecting.cancelled():
            injecting.result()
        new = set(self.conductor._active) - known
        if not new:
            return None
        (fault_id,) = new
        told = self.conductor._active[fault_id]
        assert told.act is not None
        acted = Acted(fault_id, spec, told.act.resolved, told, [])
        self._note(acted, before, FaultAction.INJECT)
        return acted

    async def heal(self, acted: Acted) -> None:
        """As the conductor does it; also once more."""
        before = len(self._events)
        self.conductor._active.setdefault(acted.fault_id, acted.told)
        await self.conductor._heal(acted.fault_id)
        self.conductor._active.pop(acted.fault_id)
        self._note(acted, before, FaultAction.HEAL)

    def _heard(self, event: Event) -> None:
        if isinstance(event, FaultEvent):
            self._events.append(event)

    def _note(self, acted: Acted, since: int, action: FaultAction) -> None:
        for event in self._events[since:]:
            if (event.fault_id, event.action, event.stage) == (acted.fault_id, action, FaultStage.END):
                acted.outcomes.append((event.outcome, event.proof or event.why or ""))

    # -- what is no fault of ours -------------------------------------------------------------------------------------

    async def dies(self, node: str) -> None:
        """Its server is killed, by nobody whom the harness knows."""
        lab_node = self.lab.nodes[node]
        if lab_node.pid is not None:
            processes.signal_group(lab_node.pid, signal.SIGKILL)
            async with asyncio.timeout(_DEADLINE_S):
                while lab_node.state is not NodeState.DEAD:
                    await asyncio.sleep(0.002)

    async def starts_anew(self, node: str) -> None:
        await self.lab.nodes[node].kill()
        await self.lab.nodes[node].start()


def mounts() -> dict[str, str]:
    """What is mounted in here, by number."""
    lines = [line.split(maxsplit=3) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {number: what for number, _, _, what in lines}


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class _Asking(asyncio.Protocol):
    def __init__(self) -> None:
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.answers += len(data)


async def _cancelled(tasks: "Sequence[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
