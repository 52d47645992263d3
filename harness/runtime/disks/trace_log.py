"""Reads the log of strace (`-f -y -T -o`): which calls were begun, delayed, failed, and which never happened.

    9  fdatasync(7</data/0.wal>) = 0 (DELAYED) <0.100335>
    9  write(7</data/0.wal>, ""..., 100 <unfinished ...>
    9  <... write resumed>) = -1 EIO (Input/output error) (INJECTED) <0.000011>
    9  write(7</data/0.wal>, ""..., 100) = ?

A line that another thread's line interrupted is continued by "resumed". A call that is being held has no end yet. A
call whose thread was killed meanwhile returned nothing, " = ?": when a thread is killed while a tracer holds it at the
entry of a call, the kernel skips the call.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_BEGUN: Final = re.compile(r"^(\d+) +([a-z]\w*)\((?:\d+<([^>]*)>)?")
_RESUMED: Final = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>")
_RETURNED: Final = re.compile(r"\) *= (-?(?:\d+|0x[0-9a-f]+))")
_AFFECTED: Final = re.compile(r"\((DELAYED|INJECTED)\)")
_TOOK: Final = re.compile(r"<(\d+\.\d+)>\s*$")


@dataclass(slots=True)
class TracedCalls:
    """The calls of a log: those affected, by name; the times of delayed ones; (call, file) of those not returned."""

    affected: Counter[str] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)
    unreturned: list[tuple[str, str]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.affected.total()

    def __add__(self, other: "TracedCalls") -> "TracedCalls":
        return TracedCalls(
            affected=self.affected + other.affected,
            took_s=[*self.took_s, *other.took_s],
            unreturned=[*self.unreturned, *other.unreturned],
        )


def read_log(path: Path) -> TracedCalls:
    """Read the log as it is now; an absent one has no calls."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return TracedCalls()
    return read_calls(text)


def read_calls(text: str) -> TracedCalls:
    calls = TracedCalls()
    open_calls: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        begun, resumed = _BEGUN.match(line), _RESUMED.match(line)
        if begun:
            open_calls[begun[1]] = (begun[2], begun[3] or "")
        thread = begun or resumed
        if thread is None or not _RETURNED.search(line):
            continue
        open_calls.pop(thread[1], None)
        affected = _AFFECTED.search(line)
        if affected:
            calls.affected[thread[2]] += 1
            took = _TOOK.search(line)
            if took and affected[1] == "DELAYED":
                calls.took_s.append(float(took[1]))
    calls.unreturned = list(open_calls.values())
    return calls
