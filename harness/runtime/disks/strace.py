"""One strace attached to one running server: what it shall do to which calls, its log, and its end.

It is attached to a live process, so that a fault begins without a restart, and is told to end by SIGTERM, by which it
lets every thread go. It gets the same signal when the harness ends, however that ends; inside the lab the kernel ends
it with everything else.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.disks.trace_log import Calls, read_log

#: On a busy machine; what is frozen cannot be attached to.
_ATTACH_S: Final = 4.0
_END_S: Final = 3.0
_LOOK_S: Final = 0.004
_LONGEST_END: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """What strace does: `action` as its `-e inject` has it ("delay_enter=100000" in us, "error=EIO") to `calls`.

    With `paths` only to calls on these files, which need not be there yet.
    """

    calls: tuple[str, ...]
    action: str
    paths: tuple[str, ...] = ()

    @property
    def argv(self) -> list[str]:
        # "?": a call that this architecture lacks is no error.
        names = ",".join(f"?{call}" for call in self.calls)
        paths = [word for path in self.paths for word in ("-P", path)]
        return ["-T", *paths, "-e", f"trace={names}", "-e", f"inject={names}:{self.action}"]


class Tracer:
    """Begun when made; `attached` says when it holds the process."""

    def __init__(self, pid: int, tampering: Tampering, log: Path) -> None:
        self.pid, self.log = pid, log
        self._looked_to = 0
        self._said = os.memfd_create("strace-said")
        self._process = launch(pid, [*tampering.argv, "-o", str(log)], self._said)

    async def attached(self) -> None:
        """Wait until it traces every thread, or has hit what ended the process; raises HarnessError with its reason."""
        deadline = time.monotonic() + _ATTACH_S
        while not is_traced(self.pid):
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                if ended and not _is_there(self.pid):
                    if self.calls().count:
                        # It was held, and what it met at once was its end: an error of its log, say.
                        return
                    raise HarnessError(f"process {self.pid} ended while strace was being attached to it")
                said = self.said() or ("it ended" if ended else f"nothing within {_ATTACH_S:g} s")
                await self.end()
                raise HarnessError(f"strace could not be attached to process {self.pid}: {said}")
            await asyncio.sleep(_LOOK_S)

    def calls(self) -> Calls:
        return read_log(self.log)

    def let_die(self) -> None:
        """Once the process is being killed: end strace at once. It keeps the end of a held thread back until its time.

        All threads have their SIGKILL by then, so the kernel skips what they are held at.
        """
        if self._process.poll() is None and self._is_dying():
            self._process.kill()

    def _is_dying(self) -> bool:
        """Whether the log tells of a thread that was killed since the last look."""
        try:
            with self.log.open("rb") as file:
                # What was cut off at the last look is seen whole now.
                file.seek(max(self._looked_to - _LONGEST_END, 0))
                text = file.read()
                self._looked_to = file.tell()
        except FileNotFoundError:
            return False
        return b"+++ killed by" in text or b" = ?\n" in text

    def said(self) -> str:
        """strace's own messages."""
        return "" if self._said < 0 else os.pread(self._said, 1 << 12, 0).decode(errors="replace").strip()

    async def end(self) -> None:
        """Let the process go. What is held at its entry then happens, unless the process is dead. Idempotent."""
        await end(self._process)
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


def launch(pid: int, words: Sequence[str], said: int, *, pass_fds: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """strace with these options on all threads of a process; its messages go to the descriptor `said`."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "strace", "-f", "-qq", "-y", "-s", "0", *words, "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        pass_fds=pass_fds,
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        # A node's group is killed at once, and its tracer must outlive it; nor is Ctrl-C for it.
        start_new_session=True,
    )


async def end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, and where that does not help SIGKILL, upon which the kernel lets the threads go."""
    for stop in (process.terminate, process.kill):
        if process.poll() is not None:
            return
        stop()
        deadline = time.monotonic() + _END_S
        while process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
    if process.poll() is None:
        raise HarnessError(f"strace (process {process.pid}) is still there {_END_S:g} s after SIGKILL")


def tracers_of(pid: int) -> list[int]:
    """For each thread of a process who traces it, 0 for nobody; empty when the process is gone."""
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if fields.get("State", "Z")[0] not in "ZX":
            found.append(int(fields.get("TracerPid", "0")))
    return found


def is_traced(pid: int) -> bool:
    """Whether every thread of the process is traced by somebody."""
    found = tracers_of(pid)
    return bool(found) and all(found)


def _is_there(pid: int) -> bool:
    return bool(tracers_of(pid))
