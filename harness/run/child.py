"""Runs the runner as a child process: starts it, reads its messages, stops it in time.

Once the history is complete, the runner only keeps the nodes' data and takes the cluster down. It is judged meanwhile.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fencepost.harness.base.arrow_alone import keep_pandas_out
from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError
from fencepost.harness.base.signals import STOP_GRACE_S, StopRequest
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE

#: Gets each message of the runner.
Progress = Callable[[dict[str, Any]], None]


#: Modules that judging and reporting need. Importing them takes most of a second; the cluster settles meanwhile.
_JUDGES: Final = ("fencepost.harness.report.page", registry.DERIVE.partition(":")[0])


def _load_judges() -> None:
    """Import them now; an import error is raised later, when the module is needed."""
    with contextlib.suppress(ImportError):
        keep_pandas_out()
        for name in _JUDGES:
            importlib.import_module(name)


@dataclass(slots=True)
class Outcome:
    """How the child process ended."""

    finished: bool = False
    #: Whether the history is complete; a later failure does not affect it.
    recorded: bool = False
    error: FencepostError | None = None


class Child:
    """The child process: started, listened to, stopped in time."""

    def __init__(
        self,
        record: RunRecord,
        *,
        in_namespaces: bool,
        progress: Progress,
        stop: StopRequest,
    ) -> None:
        self.record, self.folder = record, record.folder
        self.progress, self.stop = progress, stop
        self.manner = [] if in_namespaces else ["--plain"]
        self.outcome = Outcome()
        self.timers: list[threading.Timer] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[Outcome]:
        """Run the child; the body begins when the history is complete, or the child has ended without.

        The child has ended when the context is left; it is killed when reading its messages fails.
        """
        with (self.folder / store.RUNNER_LOG).open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "fencepost.harness.runner", str(self.folder), *self.manner],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=source_tree(),
                # In a session of its own, so that Ctrl-C reaches it only once, through us.
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
                text=True,
            )
        try:
            with self.stop.on_request(self._stop):
                if self.stop.asked:
                    self._stop()
                if not self._listen(until_recorded=True):
                    self.rest()
                try:
                    yield self.outcome
                finally:
                    self.rest()
        finally:
            for timer in self.timers:
                timer.cancel()
            if self.child.poll() is None:
                self.child.kill()
                self.child.wait()
            if self.child.stdout is not None:
                self.child.stdout.close()

    def rest(self) -> None:
        """Wait until the child has ended; the outcome is whole then. Idempotent."""
        self._listen()
        self.child.wait()
        if not self.outcome.finished and self.outcome.error is None and not self.stop.asked:
            self.outcome.error = HarnessError(
                f"the runner ended with status {self.child.returncode} before the run was over",
                hint=f"its log is {self.folder / store.RUNNER_LOG}",
            )

    def _listen(self, *, until_recorded: bool = False) -> bool:
        """Hear the child until it ends, or until its history is complete; return whether it is."""
        assert self.child.stdout is not None
        while not (until_recorded and self.outcome.recorded):
            line = self.child.stdout.readline()
            if not line:
                break
            self._hear(line)
        return self.outcome.recorded

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        topic = message.get("topic")
        if topic == "facts":
            self.record.add(message["facts"])
            return
        if topic == "done":
            self.outcome.finished = True
        elif topic == "recorded":
            self.outcome.recorded = True
        elif topic == "error":
            kind = {254: MachineError}.get(message["exit_code"], HarnessError)
            self.outcome.error = kind(message["message"], hint=message["hint"])
        self.progress(message)
        if topic == "phase" and message["phase"] == "heal":
            _load_judges()

    def _stop(self) -> None:
        if self.stop.insisted:
            self._end()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGTERM)
        self._after(STOP_GRACE_S, self._end)

    def _end(self) -> None:
        # When the runner dies, servers, rules, mounts and namespaces go with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGKILL)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, action)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)
