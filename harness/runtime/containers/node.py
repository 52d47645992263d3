"""A node whose server lives in a container: a new container at every start, on a volume that stays.

The engine is asked for everything that is done to a server, and told apart from what is seen of it: an exit counts as
ours only when the engine carried our signal out, a pause only when the kernel (or a processor time that stands still)
shows it. Where the engine's kernel is ours, that is looked at from here.
"""

import asyncio
import contextlib
import ipaddress
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import state as container_look
from fencepost.harness.runtime.containers.engine.calls import EngineCalls
from fencepost.harness.runtime.containers.engine.engine import EngineFacts, asking
from fencepost.harness.runtime.containers.engine.events import EngineEvents
from fencepost.harness.runtime.containers.engine.ownership import remove_container
from fencepost.harness.runtime.containers.log import LogFollower, tail
from fencepost.harness.runtime.linux import cgroup as container_cgroup
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Evidence, Exit, NodeSpec, NodeState, Place
from fencepost.harness.runtime.node_state import KnownNode

if TYPE_CHECKING:
    from docker import DockerClient

    from fencepost.harness.runtime.containers.data import Volume
    from fencepost.harness.runtime.containers.engine.fabric import Fabric
    from fencepost.harness.runtime.containers.making import Made, Making

P = ParamSpec("P")
T = TypeVar("T")

#: From the engine's answer to a kill until it tells of the exit.
_GONE_TIMEOUT_S: Final = 10.0
#: From the exit until the last line of the log was read: what a busy engine tells later than this is lost.
_LOG_TIMEOUT_S: Final = 10.0
#: From the first refusal of a pause until the engine is believed; less than what a fault has for its act.
_FREEZE_TIMEOUT_S: Final = 5.0
_FREEZE_AGAIN_S: Final = 0.2
#: Statuses above this are deaths by a signal, but for signals that programs turn into such a status by themselves.
_SIGNALLED: Final = 128
_OWN_STATUSES: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Habitat:
    """What all nodes of one cluster share."""

    client: "DockerClient"
    engine: EngineFacts
    prefix: str
    labels: Mapping[str, str]
    image: str
    of_ours: bool
    fabric: "Fabric"
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
        self._container = ""
        self._pid: int | None = None
        self._follower: LogFollower | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        #: The engine was asked to kill this incarnation. While it has not answered, an exit is held back.
        self._kill_sent = False
        self._kill_open = False
        self._held: int | None = None
        #: Start, kill, pause and resume wait for each other: no kill may miss a process that is just being born.
        self._changing = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._pid if self._is_up else None

    @property
    def container_id(self) -> str:
        """Of the container that was started last; empty before the first start."""
        return self._container

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
            await self._start()

    async def _start(self) -> None:
        from fencepost.harness.runtime.containers.making import Made, keep_copies

        self._habitat.events.refuse_if_gone()
        making, made = self._making(), Made()
        keep_copies(self._place.kept, self.spec.files)
        launching = self._habitat.calls.begin(self._launch, making, made, self._container)
        try:
            await asyncio.shield(launching)
        except asyncio.CancelledError:
            # The thread cannot be called back: what it still gives birth to must not live on unknown to us.
            self._clearing = asyncio.create_task(self._clear(launching, made))
            raise
        except HarnessError:
            self._clearing = asyncio.create_task(self._clear(launching, made))
            raise
        self._filled, self._is_wiped = True, False
        self._container = made.container_id
        self._pid = made.pid if self._is_ours(made) else None
        self._incarnation += 1
        self._state = NodeState.RUNNING
        self._kill_sent, self._held = False, None
        self._gone = asyncio.Event()
        self._follower = LogFollower(self._habitat.client, made.container_id, self.log)
        try:
            # One that ended at once has no network namespace any more; its exit is told below. The engine may not
            # know of it yet, but the kernel shows it where process numbers are this machine's.
            ended = made.ended or (self._pid is None and self._habitat.engine.may_enter)
            if not ended:
                await self._habitat.fabric.attach(self.name, made.container_id, self._pid)
            await self._tell_started(self)
        finally:
            self._habitat.events.watch(made.container_id, self._died)

    def _making(self) -> "Making":
        from fencepost.harness.runtime.containers.making import Making

        argv = self._wrapped_argv()
        habitat, number = self._habitat, self._launches
        self._launches += 1
        assert self._volume is not None, "given by realise"
        return Making(
            image=self.spec.image or habitat.image,
            of_ours=habitat.of_ours,
            name=f"{habitat.prefix}-{self.name}-{number}",
            labels=habitat.labels,
            argv=tuple(argv),
            environment=self.spec.environment,
            joining=self._joining(),
            volume=self._volume.name,
            files=self.spec.files,
            data_files=None if self._filled and not self._is_wiped else self.spec.data_files,
        )

    def _joining(self) -> Mapping[str, Any]:
        """The fabric's arguments. Podman draws a new hardware address at every start, which neighbours learn late.

        Docker derives it from the IPv4 address, so that it stays; the same is asked of Podman.
        """
        joining = self._habitat.fabric.joining(self.name)
        if self._habitat.engine.kind != "podman" or "network" not in joining:
            return joining
        octets = ipaddress.IPv4Address(self._place.address).packed
        return {**joining, "mac_address": (b"\x02\x42" + octets).hex(":")}

    def _launch(self, making: "Making", made: "Made", earlier: str) -> None:
        """Runs in a thread: the earlier container away, its data too where they were wiped, the new one up."""
        from fencepost.harness.runtime.containers.making import make_and_start

        self._remove(earlier)
        if self._is_wiped and self._volume is not None:
            self._volume.renew()
        with asking(f"node {self.name} cannot be started", hint=f"its command is: {' '.join(making.argv)[:300]}"):
            make_and_start(self._habitat.client, making, made)

    def _is_ours(self, made: "Made") -> bool:
        """Whether the process number that the engine tells means this process here."""
        return (
            self._habitat.engine.same_kernel
            and made.pid is not None
            and container_cgroup.belongs(made.pid, made.container_id)
        )

    def _remove(self, container_id: str) -> None:
        from docker.errors import NotFound

        if not container_id:
            return
        with asking(f"removing a container of node {self.name}", hint=f"docker rm -fv {container_id[:12]}"):
            try:
                remove_container(self._habitat.client, container_id)
            except NotFound:
                return

    async def _clear(self, launching: "asyncio.Future[None]", made: "Made") -> None:
        """Remove what a start that came to nothing gives birth to; what stays is found by its label at the close."""
        await asyncio.wait({launching})
        if made.container_id:
            await self._call(self._remove, made.container_id)

    async def _cleared(self) -> None:
        """Until nothing is left of a start that came to nothing: it would hold the node's name and address."""
        if self._clearing is not None:
            await asyncio.wait({self._clearing})

    # -- end --------------------------------------------------------------------------------------------------------

    def _died(self, status: int) -> None:
        """The engine told of the exit of this incarnation. Runs on the loop."""
        self._state = NodeState.DEAD
        self._held = status
        self._gone.set()
        if not self._kill_open:
            self._tell_exit()

    def _tell_exit(self) -> None:
        if self._held is None:
            return
        status, self._held = self._held, None
        self._last_exit = Exit(
            node=self.name,
            incarnation=self._incarnation,
            exit_status=exit_status(status),
            expected=self._kill_sent,
        )
        self._habitat.events.put(self._last_exit)

    async def stop(self, timeout_s: float) -> bool:
        async with self._changing:
            await self._cleared()
            if not self._is_up:
                return True
            if self._state is NodeState.PAUSED:
                # An engine that is told to signal a frozen container thaws it.
                await self._kill()
                return False
            self._kill_sent = self._kill_open = True
            try:
                # One that had ended already was not our doing.
                self._kill_sent = await self._call(self._send_stop)
            finally:
                self._kill_open = False
                self._tell_exit()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._gone.wait()
            ended = self._gone.is_set()
            await self._kill()
            await self._end_log()
            return ended

    def _send_stop(self) -> bool:
        """Runs in a thread: SIGTERM to the container's first process; False when it had ended before."""
        from docker.errors import APIError, NotFound

        api: Any = self._habitat.client.api
        with asking(f"stopping node {self.name}", hint=f"docker kill -s TERM {self._container[:12]}"):
            try:
                api.kill(self._container, "SIGTERM")
            except NotFound:
                return False
            except APIError as error:
                if not _is_over(str(error.explanation or error).lower()):
                    raise
                return False
        return True

    async def kill(self) -> None:
        async with self._changing:
            await self._cleared()
            await self._kill()

    async def _kill(self) -> None:
        if not self._is_up:
            return
        self._kill_sent = self._kill_open = True
        try:
            # One that had ended already was not our doing.
            self._kill_sent = await self._call(self._send_kill)
            await self._await_gone()
        finally:
            self._kill_open = False
            self._tell_exit()
        await self._end_log()

    def _send_kill(self) -> bool:
        """Runs in a thread: SIGKILL everything in the container; False when it had ended before."""
        from docker.errors import APIError, NotFound

        api: Any = self._habitat.client.api
        with asking(f"killing node {self.name}", hint=f"docker kill {self._container[:12]}"):
            if self._state is NodeState.PAUSED:
                self._signal_frozen()
            try:
                api.kill(self._container, "SIGKILL")
            except NotFound:
                return False
            except APIError as error:
                text = str(error.explanation or error).lower()
                if "paused" in text:
                    return self._thaw_and_kill(api)
                if not _is_over(text):
                    raise
                return False
        return True

    def _signal_frozen(self) -> None:
        """Before it is thawed, so that it never runs again. The container's other processes follow the first."""
        may = self._habitat.engine.may_enter
        if may and self._pid is not None and container_cgroup.belongs(self._pid, self._container):
            os.kill(self._pid, signal.SIGKILL)

    def _thaw_and_kill(self, api: Any) -> bool:
        """For an engine that does not kill what is frozen; Docker 20.10 and Podman 4.3 do."""
        from docker.errors import APIError

        api.unpause(self._container)
        try:
            api.kill(self._container, "SIGKILL")
        except APIError as error:
            # The signal that waited for the thaw was faster.
            if not _is_over(str(error.explanation or error).lower()):
                raise
        return True

    async def _await_gone(self) -> None:
        """Until the engine told of the exit; when it does not, it is asked."""
        try:
            async with asyncio.timeout(_GONE_TIMEOUT_S):
                while not self._gone.is_set():
                    self._habitat.events.refuse_if_gone()
                    waiting = asyncio.ensure_future(self._gone.wait())
                    await asyncio.wait({waiting}, timeout=0.5)
                    waiting.cancel()
        except TimeoutError:
            state = await self._call(container_look.state_of, self._habitat.client, self._container)
            if state.get("Running"):
                raise HarnessError(
                    f"processes of node {self.name} are still there {_GONE_TIMEOUT_S:g} s after SIGKILL",
                    hint=f"docker rm -fv {self._container[:12]}",
                ) from None
            self._habitat.events.settle(self._container, int(state.get("ExitCode", -1)))

    async def _end_log(self) -> None:
        follower = self._follower
        if follower is not None and not await self._call(follower.join, _LOG_TIMEOUT_S):
            follower.close()

    async def remove(self) -> None:
        """The container away, whatever it does; its volume stays. For the end of the cluster."""
        async with self._changing:
            await self._cleared()
            self._kill_sent = True
            await self._call(self._remove, self._container)
            self._state = NodeState.DEAD if self._container else self._state
            await self._end_log()

    def leave(self) -> None:
        """Let go of a container that cannot be removed, because its engine is gone."""
        if self._follower is not None:
            self._follower.close()

    # -- pause ------------------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        async with self._changing:
            if self._state is NodeState.RUNNING:
                # Taken for paused until the engine said otherwise: a cancelled call may still freeze it.
                self._state = NodeState.PAUSED
                if not await self._call(self._freeze, "pause") and self._state is NodeState.PAUSED:
                    self._state = NodeState.RUNNING

    async def resume(self) -> None:
        async with self._changing:
            if self._state is NodeState.PAUSED:
                await self._call(self._freeze, "unpause")
                if self._state is NodeState.PAUSED:
                    self._state = NodeState.RUNNING

    def _freeze(self, action: str) -> bool:
        """Runs in a thread. False when the container has ended, of which the engine tells by itself.

        The kernel does not always freeze a busy container at once ("unable to freeze"), so a refusal is not the end.
        """
        from docker.errors import APIError

        api: Any = self._habitat.client.api
        deadline = time.monotonic() + _FREEZE_TIMEOUT_S
        with asking(f"{action} of node {self.name}", hint="fencepost doctor says whether this engine can pause"):
            while True:
                try:
                    getattr(api, action)(self._container)
                except APIError as error:
                    text = str(error.explanation or error).lower()
                    if f"already {action}d" in text or (action == "unpause" and "not paused" in text):
                        return True
                    if _is_over(text):
                        return False
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_FREEZE_AGAIN_S)
                else:
                    return True

    # -- looking ----------------------------------------------------------------------------------------------------

    async def evidence(self) -> Evidence:
        if not self._container:
            return Evidence(NodeState.NEW, "no container yet")
        return await self._call(container_look.look, self._habitat.client, self._container, self._pid)

    def cpu_ns(self) -> int:
        return processes.cpu_ns(self._pid) if self._pid is not None and self._is_up else 0

    def log_tail(self, lines: int = 20) -> str:
        return tail(self.log, lines)


def exit_status(told: int) -> int:
    """An engine tells 137 of a process that died of signal 9, which is -9 here as in the lab."""
    number = told - _SIGNALLED
    return -number if 0 < number <= signal.NSIG and number not in _OWN_STATUSES else told


def _is_over(text: str) -> bool:
    """Whether an engine's refusal means that the container has ended: Docker's words and Podman's."""
    return any(words in text for words in ("is not running", "not running", "can only kill running", "no such"))
