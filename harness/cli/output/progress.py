"""Progress on stderr: one line that is rewritten on a terminal, plain lines elsewhere."""

import contextlib
import os
import shutil
import sys
import time
from typing import Any, Final, TextIO

from fencepost.harness.history import DISK_FULL, HARNESS_ERROR, STOPPED_EARLY, PhaseName

#: Without a terminal a tick is shown this often.
_PLAIN_EVERY_S: Final = 5.0
#: Their length is a deadline.
_ENDS_EARLY: Final = frozenset({PhaseName.SETTLE, PhaseName.FINAL})


class Progress:
    """Shows phase, time left, operations per second, the fault in force and who leads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown_at = 0.0
        self._drawn = False
        self._fault: str | None = None

    def __call__(self, message: dict[str, Any]) -> None:
        topic = message.get("topic")
        if topic == "phase":
            left, phase = message.get("left_s"), message["phase"]
            most = "at most " if phase in _ENDS_EARLY else ""
            self.line(f"{phase}{f' ({most}{left:.3g} s)' if left else ''}")
        elif topic == "tick":
            self._tick(message)
        elif topic == STOPPED_EARLY:
            self.line("stopping: no new operations, healing; press Ctrl-C again to stop immediately without a verdict")
        elif topic == DISK_FULL:
            self.line("the disk is full: no new operations; judging what there is")
        elif topic == HARNESS_ERROR:
            self.line("the harness failed inside: no new operations; healing and judging what there is")
        elif topic == "warning":
            self.line(f"warning: {message['text']}")
        elif topic == "preparing":
            self.line(message["text"])
        elif topic == "folder":
            self.line(f"results in {shorten(message['folder'])}")

    def line(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        self._write(f"  {text}\n")

    def close(self) -> None:
        self._clear()

    def _tick(self, message: dict[str, Any]) -> None:
        left = message.get("left_s")
        leader = message.get("leader")
        epoch = message.get("epoch")
        parts = [
            message["phase"],
            f"{left:4.1f} s left" if left is not None else "",
            f"{message['ops_per_s']:5.0f} ops/s",
            f"leader {leader} (epoch {epoch})" if leader else "no leader",
            f"fault: {message['fault']}" if message.get("fault") else "no fault",
        ]
        text = " | ".join(part for part in parts if part)
        now = time.monotonic()
        if self._live:
            self._clear()
            width = shutil.get_terminal_size().columns - 3
            self._write(f"  {text[:width]}")
            self._drawn = True
        elif now - self._shown_at > _PLAIN_EVERY_S or message.get("fault") != self._fault:
            self._shown_at, self._fault = now, message.get("fault")
            self.line(text)

    def _clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        # A terminal that went away must not cost the verdict.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def shorten(path: str) -> str:
    """A path below the current folder relative to it, else as it is."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
