"""What the runs of one command share: signals and progress; both given back at the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost.harness.base.stop_request import StopRequest
from fencepost.harness.cli.output.progress import Progress
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import execute

#: Hears what a run does, as `harness.run.child.Progress`.
Hears = Callable[[dict[str, Any]], None]


class Session:
    """Entered by a command that makes or judges runs."""

    progress: Progress
    stop: StopRequest

    def __enter__(self) -> "Session":
        self.progress = Progress()
        self.stop = StopRequest()
        self.stop.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        self.stop.uninstall()
        # Also when it came after the verdict was said: who insists has one exit code.
        self.stop.check()

    def execute(self, checked: CheckedPlan, results: Path, hear: Hears | None = None) -> Result:
        """Carry out one plan; raises as `harness.run.execute`. `hear` gets every message of its progress, too."""

        def progress(message: dict[str, Any]) -> None:
            if hear is not None:
                hear(message)
            self.progress(message)

        try:
            return execute(checked, results, progress=progress, stop=self.stop)
        finally:
            self.progress.close()

    def stopped(self) -> bool:
        """Whether somebody asked to end."""
        return self.stop.asked
