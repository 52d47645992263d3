"""Ending early: Ctrl-C, SIGTERM, SIGHUP and the deadline of a command, in one place.

After one request a run stops its operations, heals, and is judged by what was recorded. A second request by a person
ends the command at once; everything is healed all the same, since the lab dies with the runner.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from fencepost.harness.base.durations import parse_duration_ns

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
