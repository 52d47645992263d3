"""All processes of a node: the first one, its descendants, and all other processes of its session.

A child whose parent ended keeps its session, and in a container its new parent is the container's first process. Once
no process is left, the tree stays empty for ever, because the kernel may reuse the numbers.
"""

import os
from pathlib import Path
from typing import NamedTuple


class _Origin(NamedTuple):
    state: str
    parent: int
    session: int
    started: int


class ProcessTree:
    """The living processes of `first`, as /proc numbers them. Other processes are read only once, so it is cheap."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.is_over = False
        self._strangers: set[int] = set()
        origin = _origin(first)
        #: Each with its start time, since the kernel may reuse a number.
        self._known = {first: origin.started} if origin is not None else {}

    def members(self) -> list[int]:
        """Return the numbers of the processes in order; empty when none is left."""
        if self.is_over:
            return []
        there = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._strangers &= there
        alive = {}
        for pid in there - self._strangers:
            origin = _origin(pid)
            if origin is not None and origin.state not in "ZX":
                alive[pid] = origin
        mine = {pid for pid, started in self._known.items() if pid in alive and alive[pid].started == started}
        if mine:
            mine |= {pid for pid, origin in alive.items() if origin.session == self.first}
        # A child may have a smaller number than its parent.
        while more := {pid for pid in alive.keys() - mine if alive[pid].parent in mine}:
            mine |= more
        self._strangers |= alive.keys() - mine
        self._known = {pid: alive[pid].started for pid in mine}
        self.is_over = not mine
        return sorted(mine)


def _origin(pid: int) -> _Origin | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command's name may hold spaces and brackets; only the text after the last bracket has a fixed form (proc(5)).
    fields = text[text.rindex(")") + 2 :].split()
    return _Origin(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))
