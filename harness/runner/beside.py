"""What goes on beside the phases: the wish to end, and tasks of which one that fails ends the run early."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from fencepost.harness.history import HARNESS_ERROR, STOPPED_EARLY, NodeChange, NodeEvent, NoteEvent
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.telling import tell
from fencepost.harness.runtime.node import Exit, Runtime

#: After a stop by hand everything, the verdict included, has ten seconds; settling gets this share of them.
_STOPPED_SETTLE_S = 2.5


class EarlyEnd:
    """Whether the run is to end before its time, by what, and since when. `stop` is set once it is."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self._since_s: float | None = None
        self._by: str | None = None

    def ask(self, topic: str) -> None:
        """No new operations; what is left of the run is cut short, but for the healing."""
        if not self.stop.is_set():
            tell(topic)
            self._by = topic
            self._since_s = asyncio.get_running_loop().time()
            self.stop.set()

    def may_settle(self) -> bool:
        """Until the settle phase's deadline, or for a short while after a stop by hand."""
        return self._since_s is None or asyncio.get_running_loop().time() - self._since_s < _STOPPED_SETTLE_S

    async def note(self, recorder: Recorder, deadline: str) -> None:
        """Record a stop that was asked for, also when it came before there was a recorder; others record themselves."""
        await self.stop.wait()
        if self._by == STOPPED_EARLY:
            by = f"Ctrl-C, SIGTERM, SIGHUP or --deadline {deadline}" if deadline else "Ctrl-C, SIGTERM or SIGHUP"
            recorder.record(NoteEvent, topic=STOPPED_EARLY, text=f"asked to stop by {by}")


class Background:
    """Tasks of ours; one that throws ends the run early, with everything kept and judged."""

    def __init__(self, recorder: Recorder, end: EarlyEnd) -> None:
        self._recorder, self._end = recorder, end
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin it now."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """End them all. Idempotent."""
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
    """Record every server process that ends, until cancelled; `on_death` hears of those that nobody of ours ended."""
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
