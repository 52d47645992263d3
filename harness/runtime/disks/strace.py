"""One strace attached to one running server: which calls it tampers with and how, its log, and its end.

It is attached to a running process, so a fault needs no restart. SIGTERM ends it, and it then releases every thread. It
gets the same signal when the harness ends, however that happens; inside the lab the kernel ends it with everything
else.
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
from fencepost.harness.runtime.disks.trace_log import TracedCalls, read_log

#: Longest wait for strace to attach, on a busy machine too; it never attaches to a frozen process.
_ATTACH_S: Final = 4.0
_END_S: Final = 3.0
_LOOK_S: Final = 0.004
_LONGEST_END: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """What strace does: `action` as its `-e inject` has it ("delay_enter=100000" in us, "error=EIO") to `calls`.

    With `paths`, only calls on these files count; they need not exist yet.
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
    """A running strace; it is started at once, and `attached` waits until it holds the process."""

    def __init__(self, pid: int, tampering: Tampering, log: Path) -> None:
        self.pid, self.log = pid, log
        self._looked_to = 0
        self._messages_fd = os.memfd_create("strace-said")
        self._process = launch(pid, [*tampering.argv, "-o", str(log)], self._messages_fd)

    async def attached(self) -> None:
        """Wait until every thread is traced, or a call that was hit ended the process; raise HarnessError otherwise."""
        deadline = time.monotonic() + _ATTACH_S
        while not is_traced(self.pid):
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                if ended and not _is_there(self.pid):
                    if self.calls().count:
                        # The first call that was hit ended it, for example an error while writing its log.
                        return
                    raise HarnessError(f"process {self.pid} ended while strace was being attached to it")
                reason = self.messages() or ("it ended" if ended else f"nothing within {_ATTACH_S:g} s")
                await self.end()
                raise HarnessError(f"strace could not be attached to process {self.pid}: {reason}")
            await asyncio.sleep(_LOOK_S)

    def calls(self) -> TracedCalls:
        return read_log(self.log)

    def let_die(self) -> None:
        """End strace at once when the process is being killed: it would delay the end of a thread that it holds.

        By then all threads have got their SIGKILL, so the kernel skips the calls at which they are held.
        """
        if self._process.poll() is None and self._is_dying():
            self._process.kill()

    def _is_dying(self) -> bool:
        """Whether the log shows a thread that was killed since the last look."""
        try:
            with self.log.open("rb") as file:
                # A line that was incomplete at the last look is complete now.
                file.seek(max(self._looked_to - _LONGEST_END, 0))
                text = file.read()
                self._looked_to = file.tell()
        except FileNotFoundError:
            return False
        return b"+++ killed by" in text or b" = ?\n" in text

    def messages(self) -> str:
        """strace's own messages."""
        return "" if self._messages_fd < 0 else os.pread(self._messages_fd, 1 << 12, 0).decode(errors="replace").strip()

    async def end(self) -> None:
        """Release the process. Held calls then happen, unless the process is dead. Idempotent."""
        await end(self._process)
        if self._messages_fd >= 0:
            os.close(self._messages_fd)
            self._messages_fd = -1


def launch(
    pid: int, options: Sequence[str], messages_fd: int, *, pass_fds: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start strace on all threads of a process; its messages go to the descriptor `messages_fd`."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "strace", "-f", "-qq", "-y", "-s", "0", *options, "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=messages_fd,
        pass_fds=pass_fds,
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        # A session of its own: the tracer must outlive the node's process group, and Ctrl-C is not for it.
        start_new_session=True,
    )


async def end(process: "subprocess.Popen[bytes]") -> None:
    """End strace by SIGTERM, or else by SIGKILL, after which the kernel releases the threads."""
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
    """Return the tracer of each thread of a process, 0 for none; empty when the process is gone."""
    tracers = []
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
            tracers.append(int(fields.get("TracerPid", "0")))
    return tracers


def is_traced(pid: int) -> bool:
    """Whether every thread of the process is traced."""
    tracers = tracers_of(pid)
    return bool(tracers) and all(tracers)


def _is_there(pid: int) -> bool:
    return bool(tracers_of(pid))
