"""Judges: pure functions, history in, verdict out; `native/` is the Rust core."""

from fencepost.checkers.objects.model import UNKNOWN, Model

__all__ = ["UNKNOWN", "Model"]
