from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.check.in_python import CheckedHistory, check

__all__ = ["CheckedHistory", "UsageError", "check"]
