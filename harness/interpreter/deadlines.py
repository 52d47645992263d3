"""One deadline queue for all workers: at most one deadline per slot, one timer for all.

An `asyncio.timeout` for each operation makes and cancels a timer, and the event loop keeps the cancelled ones. Here,
setting or clearing a deadline is one dictionary write. The timer is set to the earliest deadline known at that moment.
When it fires, all slots are scanned (one for each worker) and it is set again.
"""

import asyncio
from collections.abc import Callable


class Deadlines:
    """Call `expired(slot)` once for each slot whose deadline passed without being cleared."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[int], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._due_s: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = float("inf")

    def set(self, slot: int, timeout_s: float) -> None:
        """Set the slot's deadline to `timeout_s` from now."""
        due_s = self._loop.time() + timeout_s
        self._due_s[slot] = due_s
        if due_s < self._timer_s:
            self._arm(due_s)

    def clear(self, slot: int) -> None:
        """Forget the slot's deadline, if it has one."""
        self._due_s.pop(slot, None)

    def close(self) -> None:
        self._due_s.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_s = float("inf")

    def _arm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = due_s
        self._timer = self._loop.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_s = None, float("inf")
        now_s = self._loop.time()
        # A loop with coarse timers may fire a little early; half a millisecond is not worth another round.
        overdue = [slot for slot, due_s in self._due_s.items() if due_s <= now_s + 0.0005]
        for slot in overdue:
            del self._due_s[slot]
        if self._due_s:
            self._arm(min(self._due_s.values()))
        for slot in overdue:
            self._expired(slot)
