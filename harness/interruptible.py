"""Ctrl-C and SIGTERM as an end at once, by an exception, so that what was begun is taken away on the way out."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
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
