"""Judges: pure functions, history in, verdict out; `native/` is the Rust core, `spark/` asks the same at any size."""
