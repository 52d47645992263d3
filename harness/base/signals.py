"""Ctrl-C, SIGTERM and SIGHUP as an end at once, by an exception, so that what was begun is taken away on the way out.

And the stretches in which such an exception may not come out of nowhere: wherever a process is started or waited for.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: How long a signal that is held back may wait while a process is waited for.
_HEEDED_EVERY_S: Final = 0.05
#: SIGHUP comes when the terminal goes away.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C and SIGTERM, whatever they did before.

    A run takes both as a wish to heal and to judge what there is; while a server is built or another tool is asked
    there is nothing to heal, and it would go on for minutes. SIGTERM by itself would leave what was half done. What
    ignores a signal goes on ignoring it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in taken:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Ctrl-C and SIGTERM are only noted meanwhile; the function that it gives does what they ask for, as does the end.

    An exception out of nowhere is lost in what Python does before and behind a fork (hooks such as those of `logging`
    print it and go on), leaves a process running where it comes between its start and the `try` that ends it, and where
    it comes when `Popen.wait` or `poll` has just taken their lock, that stays taken, and the next `wait` never returns.
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
        for taken, handler in before.items():
            signal.signal(taken, handler)
        stop_if_asked()


def ended_within(process: "subprocess.Popen[bytes]", timeout_s: float, stop_if_asked: Callable[[], None]) -> int | None:
    """The exit status; None after `timeout_s`. Call it inside `held_back`. Raises what `stop_if_asked` raises."""
    end = time.monotonic() + timeout_s
    while True:
        stop_if_asked()
        left = end - time.monotonic()
        try:
            return process.wait(min(max(left, 0.0), _HEEDED_EVERY_S))
        except subprocess.TimeoutExpired:
            if left <= 0:
                return None
