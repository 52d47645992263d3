"""An event loop whose time jumps: what waits for a timer waits no real time, so that half a minute takes milliseconds.

Only `loop.time()` is virtual; it moves when every task waits and a timer is next. A loop on which nothing can happen
any more raises instead of hanging.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: Threads (a recorder that closes) may still report within this much real time.
_REAL_WAIT_S = 30.0


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._calls = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Only threads make anything ready, and they are few: to look each time takes a tenth of a run.
        self._calls += 1
        ready = super().select(0) if timeout is None or self._calls % 16 == 0 else []
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = super().select(_REAL_WAIT_S)
            if not ready:
                raise RuntimeError("nothing can happen any more: every task waits, and no timer is set")
            return ready
        self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def now_ns(self) -> int:
        """The clock for a `Recorder`."""
        return round(self._jumping.now_s * 1e9)

    def stall(self, seconds: float) -> None:
        """The loop's thread is held up for so long: time passes, and nothing runs."""
        self._jumping.now_s += seconds


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def virtual_loop() -> VirtualTimeLoop:
    """The running loop, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


def virtual_clock_ns() -> int:
    """Nanoseconds of the running virtual loop."""
    return virtual_loop().now_ns()
