"""A node whose server lives in a container: a new container at every start, on a volume that stays.

What the engine says it did is one thing, and what is seen is another. A pause counts only when the kernel shows it, or
a processor time that stands still; an exit counts as ours only when the engine carried our signal out (`exits`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import state as container_look
from fencepost.harness.runtime.containers.container import Container
from fencepost.harness.runtime.containers.engine.calls import EngineCalls
from fencepost.harness.runtime.containers.engine.engine import EngineFacts, asking
from fencepost.harness.runtime.containers.engine.events import EngineEvents
from fencepost.harness.runtime.containers.exits import ExitWatch
from fencepost.harness.runtime.containers.log import ContainerLog, tail
from fencepost.harness.runtime.linux import cgroup, processes
from fencepost.harness.runtime.node import Exit, NodeSpec, NodeState, Place, ProcessEvidence
from fencepost.harness.runtime.node_state import KnownNode

if TYPE_CHECKING:
    from docker import DockerClient

    from fencepost.harness.runtime.containers.data import Volume
    from fencepost.harness.runtime.containers.making import ClusterMaking, MadeContainers
    from fencepost.harness.runtime.containers.rules.by_sidecar import SidecarFabric

P = ParamSpec("P")
T = TypeVar("T")

#: From the engine's answer to a kill until the engine reports the exit.
_GONE_TIMEOUT_S: Final = 10.0
#: From the exit until the last line of the log was read. What a busy engine sends later is lost.
_LOG_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Habitat:
    """What all nodes of one cluster share."""

    client: "DockerClient"
    engine: EngineFacts
    prefix: str
    labels: Mapping[str, str]
    image: str
    of_ours: bool
    fabric: "SidecarFabric"
    events: EngineEvents
    calls: EngineCalls


class ContainerNode(KnownNode):
    """One server of the cluster; see `harness.runtime.node.Node`."""

    def __init__(self, place: Place, habitat: Habitat) -> None:
        super().__init__(place)
        self._habitat = habitat
        self._volume: Volume | None = None
        self._launches = 0
        #: Whether the volume holds what the spec's `data_files` begin with; and whether it is to be emptied first.
        self._filled = False
        self._is_wiped = False
        self._container: Container | None = None
        self._follower: ContainerLog | None = None
        self._under_way: asyncio.Future[Any] | None = None
        self._exits = ExitWatch(self.name, self._report)
        #: Start, kill, pause and resume wait for each other: no kill may miss a process that is just being born.
        self._changing = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._container.pid if self._container is not None and self._is_up else None

    @property
    def container_id(self) -> str:
        """The id of the container that was started last; empty before the first start."""
        return self._container.id if self._container is not None else ""

    def realise(self, spec: NodeSpec, volume: "Volume") -> None:
        """Take the spec; its files are put into each container before it starts. Copies are kept for people."""
        from fencepost.harness.runtime.containers.making import keep_copies

        self._spec, self._volume = spec, volume
        self._place.kept.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        keep_copies(self._place.kept, spec.files)
        keep_copies(self._place.kept / "data", spec.data_files)

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._habitat.events.refuse_if_gone()
        return await self._habitat.calls(function, *args, **kwargs)

    async def _change(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._habitat.events.refuse_if_gone()
        self._under_way = changing = self._habitat.calls.begin(function, *args, **kwargs)
        return await asyncio.shield(changing)

    async def wipe(self) -> None:
        """The next start does it: a volume cannot be removed while a container, ended or not, refers to it."""
        async with self._changing:
            self._refuse_to_wipe()
            self._is_wiped = True

    # -- start ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        async with self._changing:
            if self._is_up:
                raise HarnessError(f"node {self.name} is {self._state} already")
            await self._cleared()
            await self._tell_starting(self)
            await self._start()

    async def _start(self) -> None:
        from fencepost.harness.runtime.containers.making import MadeContainers, keep_copies

        self._habitat.events.refuse_if_gone()
        making, made = self._making(), MadeContainers()
        keep_copies(self._place.kept, self.spec.files)
        launching = self._habitat.calls.begin(self._launch, making, made)
        try:
            await asyncio.shield(launching)
        except (asyncio.CancelledError, HarnessError):
            # The thread cannot be called back: what it still gives birth to must not live on unknown to us.
            self._under_way = asyncio.create_task(self._clear(launching, made))
            raise
        self._filled, self._is_wiped = True, False
        pid = made.pid if self._is_on_this_machine(made) else None
        self._container = Container(self._habitat.client, self.name, made.container_id, pid)
        self._incarnation += 1
        self._state = NodeState.RUNNING
        self._exits.begin(self._incarnation)
        self._follower = ContainerLog(self._habitat.client, made.container_id, self.log)
        try:
            await self._tell_started(self)
        finally:
            self._habitat.events.watch(made.container_id, self._died)

    def _making(self) -> "ClusterMaking":
        from fencepost.harness.runtime.containers.making import ClusterMaking

        argv = self._wrapped_argv()
        habitat, number = self._habitat, self._launches
        self._launches += 1
        assert self._volume is not None, "given by realise"
        return ClusterMaking(
            image=self.spec.image or habitat.image,
            of_ours=habitat.of_ours,
            name=f"{habitat.prefix}-{self.name}-{number}",
            labels=habitat.labels,
            argv=tuple(argv),
            environment=self.spec.environment,
            joining=habitat.fabric.joining(self.name),
            volume=self._volume.name,
            files=self.spec.files,
            data_files=None if self._filled and not self._is_wiped else self.spec.data_files,
        )

    def _launch(self, making: "ClusterMaking", made: "MadeContainers") -> None:
        """Remove the earlier container, and its data where they were wiped; make the new one. Runs in a thread."""
        from fencepost.harness.runtime.containers.making import make_and_start

        if self._container is not None:
            self._container.remove()
        if self._is_wiped and self._volume is not None:
            self._volume.renew()
        with asking(f"node {self.name} cannot be started", hint=f"its command is: {' '.join(making.argv)[:300]}"):
            make_and_start(self._habitat.client, making, made)

    def _is_on_this_machine(self, made: "MadeContainers") -> bool:
        """Whether the process number that the engine tells means the same process here."""
        return self._habitat.engine.same_kernel and made.pid is not None and cgroup.belongs(made.pid, made.container_id)

    async def _clear(self, launching: "asyncio.Future[None]", made: "MadeContainers") -> None:
        """Remove what a failed start still makes; what stays is found by its label when the cluster is closed."""
        await asyncio.wait({launching})
        if made.container_id:
            await self._call(Container(self._habitat.client, self.name, made.container_id, None).remove)

    async def _cleared(self) -> None:
        """Wait for what was given up: a start holds the node's name and address, a freeze could come after its thaw."""
        if self._under_way is not None:
            await asyncio.wait({self._under_way})

    # -- end --------------------------------------------------------------------------------------------------------

    def _died(self, status: int) -> None:
        """Note the exit that the engine reports. Runs on the event loop."""
        self._state = NodeState.DEAD
        self._exits.ended(status)

    def _report(self, exit_: Exit) -> None:
        self._last_exit = exit_
        self._habitat.events.put(exit_)

    async def stop(self, timeout_s: float) -> bool:
        async with self._changing:
            await self._cleared()
            if not self._is_up or self._container is None:
                return True
            if self._state is NodeState.PAUSED:
                # An engine that is told to signal a frozen container thaws it.
                await self._kill()
                return False
            with self._exits.signalling():
                self._exits.is_ours = await self._call(self._container.terminate)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._exits.gone.wait()
            ended = self._exits.gone.is_set()
            await self._kill()
            await self._end_log()
            return ended

    async def kill(self) -> None:
        async with self._changing:
            await self._cleared()
            await self._kill()

    async def _kill(self) -> None:
        container = self._container
        if not self._is_up or container is None:
            return
        is_frozen, may_signal = self._state is NodeState.PAUSED, self._habitat.engine.may_enter
        with self._exits.signalling():
            self._exits.is_ours = await self._change(container.kill, is_frozen=is_frozen, may_signal=may_signal)
            await self._await_gone(container)
        await self._end_log()

    async def _await_gone(self, container: Container) -> None:
        """Wait until the engine reports the exit; ask for the state when no report comes."""
        try:
            async with asyncio.timeout(_GONE_TIMEOUT_S):
                while not self._exits.gone.is_set():
                    self._habitat.events.refuse_if_gone()
                    waiting = asyncio.ensure_future(self._exits.gone.wait())
                    await asyncio.wait({waiting}, timeout=0.5)
                    waiting.cancel()
        except TimeoutError:
            state = await self._call(container_look.state_of, self._habitat.client, container.id)
            if state.get("Running"):
                raise HarnessError(
                    f"processes of node {self.name} are still there {_GONE_TIMEOUT_S:g} s after SIGKILL",
                    hint=f"docker rm -fv {container.id[:12]}",
                ) from None
            self._habitat.events.settle(container.id, int(state.get("ExitCode", -1)))

    async def _end_log(self) -> None:
        follower = self._follower
        if follower is not None and not await self._call(follower.join, _LOG_TIMEOUT_S):
            follower.close()

    async def remove(self) -> None:
        """Remove the container whatever its state; its volume stays. Called when the cluster is closed."""
        async with self._changing:
            await self._cleared()
            self._exits.is_ours = True
            if self._container is not None:
                await self._call(self._container.remove)
                self._state = NodeState.DEAD
            await self._end_log()

    def leave(self) -> None:
        """Let go of a container that cannot be removed, because its engine is gone."""
        if self._follower is not None:
            self._follower.close()

    # -- pause ------------------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        async with self._changing:
            await self._cleared()
            if self._state is NodeState.RUNNING and self._container is not None:
                # Counts as paused until the engine says otherwise: a cancelled call may still freeze it.
                self._state = NodeState.PAUSED
                if not await self._change(self._container.freeze) and self._state is NodeState.PAUSED:
                    self._state = NodeState.RUNNING

    async def resume(self) -> None:
        async with self._changing:
            await self._cleared()
            if self._state is NodeState.PAUSED and self._container is not None:
                await self._change(self._container.thaw)
                if self._state is NodeState.PAUSED:
                    self._state = NodeState.RUNNING

    # -- looking ----------------------------------------------------------------------------------------------------

    async def evidence(self) -> ProcessEvidence:
        if self._container is None:
            return ProcessEvidence(NodeState.NEW, "no container yet")
        return await self._call(container_look.look, self._habitat.client, self._container.id, self._container.pid)

    def cpu_ns(self) -> int:
        return processes.cpu_ns(self.pid) if self.pid is not None else 0

    def log_tail(self, lines: int = 20) -> str:
        return tail(self.log, lines)
