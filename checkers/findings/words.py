"""Times, positions and operations in words, the same in the sentences of every checker."""

from fencepost.harness.history import Operation


def seconds(ns: int) -> str:
    """A time of the run, as the report's axis shows it; to the nanosecond where a file counts in small numbers."""
    return f"{ns} ns" if ns < 1_000_000 else f"{ns / 1e9:.6f} s"


def duration(ns: int) -> str:
    """A length of time as a person says it: "4 ms", "5.2 s"."""
    if ns >= 1_000_000_000:
        return f"{ns / 1e9:.1f} s"
    if ns >= 1_000_000:
        return f"{ns / 1e6:.0f} ms" if ns >= 10_000_000 else f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e3:.0f} µs"


def shown(position: int | None) -> str:
    """A position in a store's order; those of two parts, as a zxid, are read in hexadecimal."""
    if position is None:
        return "unknown"
    return f"{position:#x}" if position >= 1 << 32 else str(position)


def by(op: Operation) -> str:
    """Who asked for an operation, and where it begins in the history: "by process 3 on n1 (event 17)"."""
    return f"by process {op.process} on {op.node} (event {op.invoke_index})"


def describe(op: Operation) -> str:
    """Which operation, so that it can be found in the history."""
    what = "" if op.value is None else f" of {op.value!r:.80}"
    on = f" of {op.key}" if op.key is not None else ""
    return f"{op.f}{what}{on} {by(op)}"
