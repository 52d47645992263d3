"""Tampers with the calls of a server for as long as a fault lasts: over restarts, and on files that are made later.

strace matches only complete paths, so a pattern stands for the files that fit it now. When another such file appears,
the tracer is replaced by one that includes it; for some milliseconds in between, calls are not tampered with. Calls on
all files need no paths, and no replacement.
"""

import asyncio
import fnmatch
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.disks.strace import Tampering, Tracer, tracers_of
from fencepost.harness.runtime.disks.trace_log import TracedCalls
from fencepost.harness.runtime.node import Node

#: System calls by the value of `calls=`. A server writes its sockets with the same calls as its files.
CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "sync": ("fsync", "fdatasync", "sync_file_range", "msync"),
    "write": ("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate"),
    "read": ("read", "readv", "pread64", "preadv", "preadv2"),
    "fsync": ("fsync",),
    "fdatasync": ("fdatasync",),
}
#: Calls that are made on files only.
_FILES_ONLY: Final = frozenset({"sync", "fsync", "fdatasync"})
EVERY_FILE: Final = "*"
_LOOK_S: Final = 0.02


def files_of(node: Node, pattern: str) -> tuple[str, ...]:
    """Return the files of the node's data directory that fit the pattern now, by the server's own paths."""
    inside = node.place.data
    if inside.is_dir():
        seen = inside = inside.resolve()
    elif node.pid is not None:
        # In a container: the server's file system, as seen from here.
        seen = Path(f"/proc/{node.pid}/root{inside}")
    else:
        return ()
    paths = []
    for folder, _, names in os.walk(seen):
        for name in names:
            relative = os.path.relpath(os.path.join(folder, name), seen)
            if fnmatch.fnmatchcase(relative, pattern):
                paths.append(str(inside / relative))
    return tuple(sorted(paths))


class TracedNode:
    """One node under one tampering. `logs` is a path to which ".1", ".2", ... is added for each tracer."""

    def __init__(self, node: Node, *, calls: str, files: str, action: str, logs: Path) -> None:
        self.node = node
        self._calls, self._files, self._action = CALLS[calls], files, action
        self._by_path = calls not in _FILES_ONLY or files != EVERY_FILE
        self._logs = logs
        self._tracers: list[Tracer] = []
        self._paths: tuple[str, ...] = ()
        self._follows = False
        self._watching: asyncio.Task[None] | None = None
        self.replaced = 0

    async def begin(self, *, follow: bool = True) -> None:
        """Attach, and stay attached over restarts; raise HarnessError. A node that is down is traced from its start."""
        self.node.on_start.append(self._started)
        self._watching = asyncio.create_task(self._watch())
        if self.node.pid is not None:
            self._launch(self.node.pid)
        if self._tracers:
            await self._tracers[-1].attached()
        self._follows = self._by_path and follow

    def calls(self) -> TracedCalls:
        """Return what the logs of all tracers show so far."""
        total = TracedCalls()
        for tracer in self._tracers:
            total += tracer.calls()
        return total

    async def end(self) -> str | None:
        """Release the server; return what is wrong afterwards, None when nothing is. Idempotent."""
        if self._started in self.node.on_start:
            self.node.on_start.remove(self._started)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        for tracer in self._tracers:
            await tracer.end()
        # A tracer of another fault may hold it for a moment; ours are gone, which is what counts.
        return f"{self.node.name}: still traced" if self.node.pid and any(tracers_of(self.node.pid)) else None

    def _launch(self, pid: int) -> None:
        self._paths = files_of(self.node, self._files) if self._by_path else ()
        if self._by_path and not self._paths:
            return
        tampering = Tampering(calls=self._calls, action=self._action, paths=self._paths)
        log = self._logs.with_name(f"{self._logs.name}.{len(self._tracers) + 1}")
        self._tracers.append(Tracer(pid, tampering, log))

    def _started(self, node: Node) -> None:
        if node.pid is not None:
            self._launch(node.pid)

    async def _watch(self) -> None:
        """Release a server that is being killed, and replace the tracer when another file fits the pattern."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for tracer in self._tracers:
                tracer.let_die()
            pid = self.node.pid
            if not self._follows or pid is None or set(files_of(self.node, self._files)) <= set(self._paths):
                continue
            if self._tracers:
                await self._tracers[-1].end()
            if self.node.pid != pid:
                # It was restarted meanwhile, and has a tracer that knows the present files.
                continue
            self._launch(pid)
            self.replaced += 1
            try:
                await self._tracers[-1].attached()
            except HarnessError:
                # It ended meanwhile, or cannot be traced: the next round handles that, and the counts show it.
                continue
