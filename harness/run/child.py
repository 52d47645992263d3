"""The runner as a child process: started, listened to, stopped in time."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.base.stop_request import STOP_GRACE_S, StopRequest
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE

#: Hears what a run does, one message for each line of the runner.
Progress = Callable[[dict[str, Any]], None]


#: What judging and reporting begin with: most of a second, which is spent while the cluster settles.
_JUDGES: Final = ("fencepost.harness.report.page.html", "pandas", registry.DERIVE.partition(":")[0])


def _load_judges() -> None:
    """Import them now; what cannot be imported is told when it is needed."""
    with contextlib.suppress(ImportError):
        for name in _JUDGES:
            importlib.import_module(name)


@dataclass(slots=True)
class Outcome:
    """How the child process ended, as the outer process has it."""

    finished: bool = False
    #: The history is complete; what fails from here on costs it nothing.
    recorded: bool = False
    error: FencepostError | None = None


class Child:
    """The child process: started, listened to, stopped in time."""

    def __init__(
        self,
        folder: Path,
        *,
        in_namespaces: bool,
        progress: Progress,
        stop: StopRequest,
    ) -> None:
        self.folder, self.progress, self.stop = folder, progress, stop
        self.manner = [] if in_namespaces else ["--plain"]
        self.outcome = Outcome()
        self.timers: list[threading.Timer] = []

    def run(self) -> Outcome:
        """Until it has ended; kills it when listening fails."""
        with (self.folder / store.RUNNER_LOG).open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "fencepost.harness.runner", str(self.folder), *self.manner],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=source_tree(),
                # In a session of its own, so that Ctrl-C reaches it once and through us.
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
                text=True,
            )
        try:
            with self.stop.on_request(self._stop):
                if self.stop.asked:
                    self._stop()
                assert self.child.stdout is not None
                for line in self.child.stdout:
                    self._hear(line)
                self.child.wait()
        finally:
            for timer in self.timers:
                timer.cancel()
            if self.child.poll() is None:
                self.child.kill()
                self.child.wait()
        if not self.outcome.finished and self.outcome.error is None and not self.stop.asked:
            self.outcome.error = HarnessError(
                f"the runner ended with status {self.child.returncode} before the run was over",
                hint=f"its log is {self.folder / store.RUNNER_LOG}",
            )
        return self.outcome

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        topic = message.get("topic")
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
        # The runner's death takes servers, rules, mounts and namespaces with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGKILL)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, action)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)
