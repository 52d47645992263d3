from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.check.in_python import CheckedHistory, check
from fencepost.harness.testing.one_run import FinishedRun, run

__all__ = ["CheckedHistory", "FinishedRun", "UsageError", "check", "run"]
