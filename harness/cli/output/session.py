"""What the runs of one command share: signals and progress; both given back at the end."""

from pathlib import Path

from fencepost.harness.base.stop_request import StopRequest
from fencepost.harness.cli.output.progress import Progress
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import execute


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

    def execute(self, checked: CheckedPlan, results: Path) -> Result:
        """Carry out one plan; raises as `harness.run.execute`."""
        try:
            return execute(checked, results, progress=self.progress, stop=self.stop)
        finally:
            self.progress.close()

    def stopped(self) -> bool:
        """Whether somebody asked to end."""
        return self.stop.asked
