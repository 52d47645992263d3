"""Judges: pure functions, history in, verdict out; `native/` is the Rust core, `spark/` asks the same at any size."""

from fencepost.checkers.objects.user_model import UNKNOWN, Model

__all__ = ["UNKNOWN", "Model"]
