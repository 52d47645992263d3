"""Sleeps at lines that are drawn: what a busy machine may do to any of them, at any moment."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_OURS: Final = tuple(f"{ROOT / folder}/" for folder in ("fencepost", "tests"))
#: Of the library, what passes through states that others may change: files, processes, sockets that are ready.
_LIBRARY: Final = tuple(
    f"/{name}.py" for name in ("base_subprocess", "pathlib", "selectors", "shutil", "subprocess", "tempfile")
)
_SHORTEST_S: Final = 0.05
#: What a child of a test draws from, as `SEED LONGEST_S`.
IN_CHILDREN: Final = "FENCEPOST_TEST_PAUSES"
_CHILDS_COUNT: Final = 4
_CHILDS_LINES_MAX: Final = 400_000

_Trace = Callable[[FrameType, str, Any], Any]


class Pauser:
    """From `start` to `stop` each thread that begins, and the one that starts it, sleeps at `count` lines in all.

    The number of each line is drawn evenly by its magnitude, from 1 to `lines_max`, since a set-up has few lines and a
    test may have many: the first are as likely as those far behind. A pause lasts 0.05 to `longest_s` seconds.
    """

    def __init__(self, draw: random.Random, *, count: int, lines_max: int, longest_s: float) -> None:
        self._draw, self._longest_s = draw, longest_s
        magnitudes = [draw.random() for _ in range(count)]
        self._ahead = sorted(int(lines_max**magnitude) for magnitude in magnitudes)
        self._passed = 0
        self._wanted: dict[CodeType, bool] = {}
        #: Where it slept, for how long, and in which thread.
        self.told: list[str] = []

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> _Trace | None:
        code = frame.f_code
        wanted = self._wanted.get(code)
        if wanted is None:
            name = code.co_filename
            wanted = self._wanted[code] = name.startswith(_OURS) or name.endswith(_LIBRARY)
        return self._line if wanted else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> _Trace:
        if event == "line":
            self._passed += 1
            if self._ahead and self._passed >= self._ahead[0]:
                self._ahead.pop(0)
                duration_s = self._draw.uniform(_SHORTEST_S, self._longest_s)
                place = f"{frame.f_code.co_filename.removeprefix(f'{ROOT}/')}:{frame.f_lineno}"
                self.told.append(f"{place}: {duration_s:.2f} s in {threading.current_thread().name}")
                time.sleep(duration_s)
                if not self._ahead:
                    self.stop()
        return self._line


def begin_in_child(words: list[str]) -> None:
    """In a Python process that a test started with these words; not in another pytest, which has pauses of its own."""
    said = os.environ.get(IN_CHILDREN)
    if not said or any("pytest" in word for word in words[:4]):
        return
    seed, _, longest = said.rpartition(" ")
    draw = random.Random(f"{seed} {words}")
    Pauser(draw, count=_CHILDS_COUNT, lines_max=_CHILDS_LINES_MAX, longest_s=float(longest)).start()
