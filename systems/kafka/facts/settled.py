"""Since when no fault was in force any more: what bounds on progress count from."""

from collections.abc import Iterable

from fencepost.harness.history import FaultSpan, History


def acting(history: History) -> list[FaultSpan]:
    """The faults that act on a node. A migration itself acts on none; its steps do, and are faults of their own."""
    return [fault for fault in history.faults if fault.nodes]


def undisturbed_since(faults: Iterable[FaultSpan], at_ns: int) -> int:
    """When the last fault that began before `at_ns` had ended; `at_ns` while one is in force. 0 without any."""
    ends = (at_ns if f.ended_ns is None else min(f.ended_ns, at_ns) for f in faults if f.began_ns < at_ns)
    return max(ends, default=0)
