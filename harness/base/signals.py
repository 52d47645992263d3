"""Ctrl-C, SIGTERM and SIGHUP: turned into KeyboardInterrupt, so that context managers clean up.

`held_back` delays that exception where it must not be raised: while a process is started or waited for.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: How long a delayed signal may wait while a process is waited for.
_CHECK_EVERY_S: Final = 0.05
#: SIGHUP comes when the terminal goes away.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C, SIGTERM and SIGHUP while the context lasts.

    A run handles them by healing and judging what was recorded. While an image is built or another tool runs there is
    nothing to heal, and the work would go on for minutes; the default action of SIGTERM would leave half of it behind.
    An ignored signal stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in handled:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Only note Ctrl-C, SIGTERM and SIGHUP while the context lasts; act on them at its end.

    Yields a function that acts on the noted signals at once. An exception at the wrong moment does harm:

    - in Python's hooks around a fork it is lost (those of `logging` print it and go on);
    - between the start of a process and the `try` that ends it, the process keeps running;
    - inside `Popen.wait` or `poll` it leaves their lock locked, and the next `wait` never returns.
    """
    noted: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def stop_if_asked() -> None:
        while noted:
            number = noted.pop(0)
            before[number](number, None)

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, lambda number, frame: noted.append(number))
    try:
        yield stop_if_asked
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)
        stop_if_asked()


def ended_within(process: "subprocess.Popen[bytes]", timeout_s: float, stop_if_asked: Callable[[], None]) -> int | None:
    """Wait for the process; returns its exit status, or None after `timeout_s`.

    Call it inside `held_back`, with the function that it yields; raises what that function raises.
    """
    end = time.monotonic() + timeout_s
    while True:
        stop_if_asked()
        left = end - time.monotonic()
        try:
            return process.wait(min(max(left, 0.0), _CHECK_EVERY_S))
        except subprocess.TimeoutExpired:
            if left <= 0:
                return None
