"""What happens beside the phases: requests to stop, and background tasks whose failure ends the run early."""

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from fencepost.harness.base.errors import FencepostError, first_failure
from fencepost.harness.history import HARNESS_ERROR, STOPPED_EARLY, NodeChange, NodeEvent, NoteEvent
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runtime.node import Exit, Runtime


def tell(topic: str, **fields: object) -> None:
    """Write one line of progress to stdout; after a closed pipe, to stderr."""
    try:
        sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = sys.stderr


def tell_failure(error: Exception) -> int:
    """Tell what ended this process; the log gets the traceback of a defect. Return the exit status."""
    if not isinstance(error, FencepostError):
        traceback.print_exception(error)
    failure = first_failure(error)
    tell("error", message=failure.message, hint=failure.hint, exit_code=int(failure.exit_code))
    return int(failure.exit_code)


#: After a stop by hand everything must end within ten seconds, the verdict included; settling gets this share.
_STOPPED_SETTLE_S = 2.5


class EarlyEnd:
    """Whether the run is to end early, why, and since when. `stop` is set once it is."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self._since_s: float | None = None
        self._by: str | None = None

    def ask(self, topic: str) -> None:
        """Begin no new operations; shorten the rest of the run, except the healing."""
        if not self.stop.is_set():
            tell(topic)
            self._by = topic
            self._since_s = asyncio.get_running_loop().time()
            self.stop.set()

    def may_settle(self) -> bool:
        """Whether settling may go on: up to its deadline, or for a short while after a stop by hand."""
        return self._since_s is None or asyncio.get_running_loop().time() - self._since_s < _STOPPED_SETTLE_S

    async def note(self, recorder: Recorder, deadline: str) -> None:
        """Record a stop by hand, even one from before there was a recorder. Other causes record themselves."""
        await self.stop.wait()
        if self._by == STOPPED_EARLY:
            by = f"Ctrl-C, SIGTERM, SIGHUP or --deadline {deadline}" if deadline else "Ctrl-C, SIGTERM or SIGHUP"
            recorder.record(NoteEvent, topic=STOPPED_EARLY, text=f"asked to stop by {by}")


class Background:
    """Background tasks. An exception in one ends the run early; what was recorded is kept and judged."""

    def __init__(self, recorder: Recorder, end: EarlyEnd) -> None:
        self._recorder, self._end = recorder, end
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task now."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Cancel all tasks and wait for them. Idempotent."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            traceback.print_exception(error)
            self._recorder.record(NoteEvent, topic=HARNESS_ERROR, text=f"{type(error).__name__}: {error}")
            self._end.ask(HARNESS_ERROR)


async def record_exits(runtime: Runtime, recorder: Recorder, on_death: Callable[[Exit], None]) -> None:
    """Record every end of a server process, until cancelled; call `on_death` when the harness did not cause it."""
    while True:
        gone = await runtime.next_exit()
        recorder.record(
            NodeEvent,
            node=gone.node,
            change=NodeChange.EXITED,
            incarnation=gone.incarnation,
            exit_status=gone.exit_status,
            expected=gone.expected,
        )
        if not gone.expected:
            on_death(gone)
