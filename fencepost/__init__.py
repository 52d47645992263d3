"""A consistency test harness for the systems that keep other systems' metadata.

The four folders of the product stand at the top of the tree. The links beside this file give them one import name, so
that an installed fencepost claims no common name (`harness`, `checkers`) in somebody's environment: its wheel holds the
folders themselves under `fencepost`.

`fencepost.check` judges a history from Python; it is loaded when asked for, so its type stands in a stub.
"""

import importlib

__all__ = ["CheckedHistory", "UsageError", "check"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    of = "fencepost.harness.base.errors" if name == "UsageError" else "fencepost.harness.cli.check.in_python"
    return getattr(importlib.import_module(of), name)
