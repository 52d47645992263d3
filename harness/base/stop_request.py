"""Ending early: Ctrl-C, SIGTERM, SIGHUP and the deadline of a command, in one place.

Asked once, a run stops its operations, heals, and is judged by what there is. A person who asks twice gets the prompt
back at once; everything is healed all the same, since the runner's death takes the whole lab with it.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from fencepost.harness.base.durations import parse_duration_ns

#: What judging and reporting may take of `--deadline`.
JUDGE_SHARE_S: Final = 5.0
#: After the wish to end the runner has this long to heal and to finish; then it is ended (which heals too).
STOP_GRACE_S: Final = 7.0


class StopRequest:
    """A wish to end, shared by all runs of a command; by hand twice it is an order."""

    def __init__(self) -> None:
        self.asked = False
        self._presses = 0
        self._actions: list[Callable[[], None]] = []
        self._before: dict[signal.Signals, Any] = {}

    @property
    def by_hand(self) -> bool:
        """A person asked, not a deadline."""
        return self._presses > 0

    @property
    def insisted(self) -> bool:
        """A person asked twice."""
        return self._presses > 1

    def check(self) -> None:
        """Raise StoppedTwice once a person has insisted."""
        if self.insisted:
            raise StoppedTwice

    def install(self) -> None:
        """Handle SIGINT, SIGTERM and SIGHUP from now on, until `uninstall`; main thread only."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, lambda *_: self.request(by_hand=True))
        # Under nohup a terminal that goes away is no wish to end; else kernel and shell may both tell of it.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            handler = signal.signal(signal.SIGHUP, lambda *_: self.request(by_hand=not self.by_hand))
            self._before[signal.SIGHUP] = handler

    def uninstall(self) -> None:
        """Give the signals back to who had them. Idempotent."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def request(self, *, by_hand: bool = False) -> None:
        """Ask for the end; what is registered by `on_request` acts at once."""
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
        """Ask for the end in time for a verdict before `text` (a duration; "" for none) has passed."""
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
    """The person insisted: everything has been ended, nothing more is judged.

    Like KeyboardInterrupt no Exception: what guards the report against a defect of one of its parts may not take a
    person's order for one.
    """
