"""Standard input, output and error on which no write fails, so that no exit code depends on who reads them.

A reader that went away, a closed descriptor and a full disk drop what is written from then on; the first reason is
kept. A dropped line must not cost a verdict: Python itself and click would end with 1, or with 120 at the last flush.
"""

import errno
import io
import os
import select
import sys
from typing import Any, Final, TextIO

#: A reader that has seen enough, and a stream that nobody wanted: nothing to warn about.
_WANTED: Final = frozenset({errno.EPIPE, errno.EBADF})
#: A value that the encoding does not know must not cost the verdict: it is written as an escape.
_ESCAPES: Final = "backslashreplace"


class _Unfailing(io.FileIO):
    """Writes to a descriptor until that fails once, then drops everything: a text with a hole would mislead."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        left = memoryview(data)
        while left and self.failure is None:
            try:
                count = super().write(left)
            except OSError as error:
                self.failure = error
            else:
                # None: another process made the stream non-blocking, and its reader is slow.
                left = left[count or 0 :]
                if not count:
                    select.select([], [self], [])
        return len(data)


def protect() -> None:
    """Replace the process's own standard streams by ones that cannot fail; somebody else's stay.

    A descriptor that is closed becomes /dev/null: else the next file that is opened would get its number, and whatever
    a child process writes to its standard error.
    """
    for descriptor, flags in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free, so this one
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (it stays open as long as the process)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _unfailing(1, sys.stdout)
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors=_ESCAPES)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _unfailing(2, sys.stderr)


def _unfailing(descriptor: int, old: TextIO | None) -> TextIO:
    settings: dict[str, Any] = {"encoding": "utf-8", "errors": "strict"}
    if isinstance(old, io.TextIOWrapper):
        names = ("encoding", "errors", "line_buffering", "write_through")
        settings = {name: getattr(old, name) for name in names}
    if settings["errors"] == "strict":
        settings["errors"] = _ESCAPES
    return io.TextIOWrapper(io.BufferedWriter(_Unfailing(descriptor)), **settings)


def output_failure() -> OSError | None:
    """Why a part of standard output was lost; None when it was not, or when nobody wanted it."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = raw.failure if isinstance(raw, _Unfailing) else None
    return None if failure is None or failure.errno in _WANTED else failure
