"""Which containers of a run ended, as the engine tells it; and that it still tells anything.

The engine's stream of events is followed in a thread: an exit is known within some tens of milliseconds, with its
status. Beside it the containers are listed every second, so that an engine that hangs is noticed, and an event that
was lost too. An engine that is gone is one failure, told to whoever waits for the next exit, never a hang.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.engine.calls import EngineCalls
from fencepost.harness.runtime.containers.engine.engine import asking, close_stream
from fencepost.harness.runtime.containers.engine.ownership import RUN_LABEL, SWEEP_COMMAND
from fencepost.harness.runtime.node import Exit

if TYPE_CHECKING:
    from docker import DockerClient

_LOOK_INTERVAL_S: Final = 1.0
#: Longer than a busy engine ever needed to list containers, shorter than anybody wants to wait for a dead one.
_LOOK_TIMEOUT_S: Final = 15.0
#: States in which no process of a container is left.
_ENDED: Final = ("exited", "dead", "stopped")

Died = Callable[[int], None]


class EngineEvents:
    """The exits of the containers of one run. Made and closed on the event loop, where all callbacks run too."""

    def __init__(self, client: "DockerClient", run_id: str, calls: EngineCalls) -> None:
        self._client, self._run_id, self._calls = client, run_id, calls
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, Died] = {}
        #: Statuses of containers that nobody watches (yet).
        self._untold: dict[str, int] = {}
        #: Ended at the last look, but not told of.
        self._suspected: set[str] = set()
        self._exits: asyncio.Queue[Exit | None] = asyncio.Queue()
        self._failure: HarnessError | None = None
        self._stream: Any = None
        self._closed = False
        self._follower = threading.Thread(target=self._follow, name="engine-events", daemon=True)
        self._follower.start()
        self._looking = asyncio.create_task(self._look())

    def watch(self, container_id: str, died: Died) -> None:
        """Call `died` with the exit status once this container has ended; at once when it has already."""
        if container_id in self._untold:
            died(self._untold.pop(container_id))
        else:
            self._watched[container_id] = died

    def settle(self, container_id: str, status: int) -> None:
        """Whoever knows by other means that a container ended says so; what the stream tells later is ignored."""
        died = self._watched.pop(container_id, None)
        if died is not None:
            died(status)

    def put(self, gone: Exit) -> None:
        self._exits.put_nowait(gone)

    async def next(self) -> Exit:
        """The next exit; raises HarnessError when the engine is gone, now and for ever."""
        if self._failure is None:
            gone = await self._exits.get()
            if gone is not None:
                return gone
        assert self._failure is not None
        raise self._failure

    @property
    def failure(self) -> HarnessError | None:
        return self._failure

    def refuse_if_gone(self) -> None:
        """Raise the failure, when there is one: nobody waits for an engine that is known to be gone."""
        if self._failure is not None:
            raise self._failure

    def fail(self, reason: str) -> None:
        if self._failure is None and not self._closed:
            self._failure = HarnessError(
                f"the container engine stopped answering during the run: {reason}",
                hint=f"start it again; then remove what is left of this run: {SWEEP_COMMAND}",
            )
            self._exits.put_nowait(None)

    async def close(self) -> None:
        self._closed = True
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)
        self._close_stream()
        await asyncio.to_thread(self._follower.join, 2.0)

    def _close_stream(self) -> None:
        if self._stream is not None:
            close_stream(self._stream)

    # -- in the thread ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        reason = "its stream of events ended"
        try:
            filters = {"label": f"{RUN_LABEL}={self._run_id}", "type": "container"}
            self._stream = self._client.api.events(filters=filters, decode=True)
            if self._closed:
                self._close_stream()
            for event in self._stream:
                # Podman's own word is "died", on its Docker socket "die"; an exec's end is another word.
                if event.get("Action", event.get("status")) in ("die", "died"):
                    self._tell(event)
        except Exception as error:
            reason = f"{reason}: {error}"
        self._on_loop(self.fail, reason)

    def _tell(self, event: dict[str, Any]) -> None:
        actor = event.get("Actor") or {}
        container_id = str(actor.get("ID") or event.get("id"))
        attributes = actor.get("Attributes") or {}
        reported = attributes.get("exitCode", attributes.get("containerExitCode"))
        status = int(reported) if reported is not None else self._status_of(container_id)
        self._on_loop(self._died, container_id, status)

    def _status_of(self, container_id: str) -> int:
        with asking(f"asking how container {container_id[:12]} ended"):
            return int(self._client.api.inspect_container(container_id)["State"]["ExitCode"])

    def _on_loop(self, function: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(function, *args)

    # -- on the loop ------------------------------------------------------------------------------------------------

    def _died(self, container_id: str, status: int) -> None:
        died = self._watched.pop(container_id, None)
        if died is None:
            self._untold[container_id] = status
        else:
            died(status)

    async def _look(self) -> None:
        while self._failure is None:
            await asyncio.sleep(_LOOK_INTERVAL_S)
            try:
                async with asyncio.timeout(_LOOK_TIMEOUT_S):
                    await self._look_once()
            except TimeoutError:
                self.fail(f"no answer within {_LOOK_TIMEOUT_S:g} s")
            except HarnessError as error:
                self.fail(error.message)

    async def _look_once(self) -> None:
        """Find containers that ended without an event: those seen ended twice in a row and still watched."""
        states = await self._calls(self._states)
        ended = {id_ for id_ in self._watched if states.get(id_, "exited") in _ENDED}
        for container_id in ended & self._suspected:
            gone = container_id not in states
            status = -1 if gone else await self._calls(self._status_of, container_id)
            self.settle(container_id, status)
        self._suspected = ended

    def _states(self) -> dict[str, str]:
        with asking("looking after the containers"):
            rows = self._client.api.containers(all=True, filters={"label": f"{RUN_LABEL}={self._run_id}"})
        return {row["Id"]: str(row.get("State", "")).lower() for row in rows}
