"""Ending early: Ctrl-C, SIGTERM, SIGHUP and the deadline of a command, in one place.

Signals become KeyboardInterrupt, so that context managers clean up. `held_back` delays that exception where it must not
be raised: while a process is started or waited for.

After one request a run stops its operations, heals, and is judged by what was recorded. A second request by a person
ends the command at once; everything is healed all the same, since the lab dies with the runner.
"""

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from fencepost.harness.base.quantities import parse_duration_ns

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


#: The part of `--deadline` that is reserved for judging and reporting.
JUDGE_SHARE_S: Final = 5.0
#: After a request the runner has this long to heal and to finish; then it is killed (which heals too).
STOP_GRACE_S: Final = 7.0


class StopRequest:
    """A request to end, shared by all runs of a command; a second one by hand ends it at once."""

    def __init__(self) -> None:
        self.asked = False
        self._presses = 0
        self._actions: list[Callable[[], None]] = []
        self._before: dict[signal.Signals, Any] = {}

    @property
    def by_hand(self) -> bool:
        """Whether a person asked, not only a deadline."""
        return self._presses > 0

    @property
    def insisted(self) -> bool:
        """Whether a person asked twice."""
        return self._presses > 1

    def check(self) -> None:
        """Raise StoppedTwice once a person has insisted."""
        if self.insisted:
            raise StoppedTwice

    def install(self) -> None:
        """Handle SIGINT, SIGTERM and SIGHUP from now on, until `uninstall`; main thread only."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, lambda *_: self.request(by_hand=True))
        # Under nohup a closed terminal is no request; else the kernel and the shell may both send SIGHUP for one.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            handler = signal.signal(signal.SIGHUP, lambda *_: self.request(by_hand=not self.by_hand))
            self._before[signal.SIGHUP] = handler

    def uninstall(self) -> None:
        """Restore the earlier signal handlers. Idempotent."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def request(self, *, by_hand: bool = False) -> None:
        """Request the end; runs every action of `on_request` at once."""
        self.asked = True
        self._presses += by_hand
        for action in list(self._actions):
            action()

    @contextlib.contextmanager
    def on_request(self, action: Callable[[], None]) -> Iterator[None]:
        """Call `action` at every request while the context lasts."""
        self._actions.append(action)
        try:
            yield
        finally:
            self._actions.remove(action)

    @contextlib.contextmanager
    def deadline(self, text: str) -> Iterator[None]:
        """Request the end early enough for a verdict before `text` (a duration; "" for none) has passed."""
        if not text:
            yield
            return
        whole_s = parse_duration_ns(text, what="deadline") / 1e9
        timer = threading.Timer(max(whole_s - JUDGE_SHARE_S - STOP_GRACE_S, 1.0), self.request)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class StoppedTwice(BaseException):
    """A person asked twice: everything has been ended, nothing more is judged.

    Like KeyboardInterrupt it is no Exception, so that the report, which survives a defect in one of its parts, does not
    mistake a person's order for a defect.
    """
