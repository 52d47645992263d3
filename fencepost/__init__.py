"""A consistency test harness for the systems that keep other systems' metadata.

The four folders of the product stand at the top of the tree. The links beside this file give them one import name, so
that an installed fencepost claims no common name (`harness`, `checkers`) in somebody's environment: its wheel holds the
folders themselves under `fencepost`.

`fencepost.check` judges a history from Python, `fencepost.run` carries out a plan. Both are loaded when asked for, so
their types stand in a stub.
"""

import importlib

#: The module of each name.
_OF = {
    "CheckedHistory": "fencepost.harness.cli.check.in_python",
    "FinishedRun": "fencepost.harness.testing.one_run",
    "UsageError": "fencepost.harness.base.errors",
    "check": "fencepost.harness.cli.check.in_python",
    "run": "fencepost.harness.testing.one_run",
}
__all__ = ["CheckedHistory", "FinishedRun", "UsageError", "check", "run"]


def __getattr__(name: str) -> object:
    if name not in _OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OF[name]), name)
