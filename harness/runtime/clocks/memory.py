"""Access to another process's memory through /proc/PID/mem, which can also write to its read-only pages.

Such a write gives the process its own copy of the page (FOLL_FORCE, proc(5)). An open file stays bound to the program
that ran when it was opened: after an exec or exit it reads nothing, so it never reaches another program.
"""

import errno
import os
from typing import NamedTuple


class ClockError(Exception):
    """Raised when a process cannot be armed, set or disarmed; the text says why."""


class Gone(ClockError):
    """Raised when the process, or the program that it ran, has ended."""


class Unfinished(ClockError):
    """Raised when the process is just beginning a program and has no vDSO yet."""


class Mapping(NamedTuple):
    """One line of /proc/PID/maps."""

    start: int
    end: int
    access: str
    path: str


class Memory:
    """The memory of one program, open until `close`; every access raises Gone once the program has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._fd = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise Gone(f"process {pid} has ended") from None
        except PermissionError as error:
            raise ClockError(f"process {pid} may not be inspected: {error.strerror}") from None

    def close(self) -> None:
        os.close(self._fd)

    def read(self, at: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, at)
        except OSError as error:
            raise self._fault(error, at) from None
        if len(data) != size:
            raise Gone(f"process {self.pid} has ended or runs another program")
        return data

    def write(self, at: int, data: bytes) -> None:
        try:
            count = os.pwrite(self._fd, data, at)
        except OSError as error:
            raise self._fault(error, at) from None
        if count != len(data):
            raise Gone(f"process {self.pid} has ended or runs another program")

    def read_up_to(self, at: int, size: int) -> bytes:
        """Read at most `size` bytes, up to the end of the mapping; page by page, because one read gives all or none."""
        data = b""
        while len(data) < size:
            count = min(size - len(data), 4096 - (at + len(data)) % 4096)
            try:
                part = os.pread(self._fd, count, at + len(data))
            except OSError:
                break
            data += part
            if len(part) < count:
                break
        return data

    def is_same(self) -> bool:
        """Say whether the program that ran at the opening still runs."""
        try:
            return bool(os.pread(self._fd, 1, self._known))
        except OSError:
            return False

    #: An address that stays mapped for as long as the program runs; a caller that knows one sets it.
    _known = 0

    def remember(self, at: int) -> None:
        """Remember that `at` stays mapped for as long as the program runs."""
        self._known = at

    def _fault(self, error: OSError, at: int) -> ClockError:
        if error.errno == errno.ESRCH:
            return Gone(f"process {self.pid} has ended")
        return ClockError(f"memory of process {self.pid} at {at:#x}: {error.strerror}")


def mappings(pid: int | str) -> list[Mapping]:
    """Return the mappings of a process; empty for a process that is ending."""
    lines = []
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(maxsplit=5)
                start, _, end = fields[0].partition("-")
                path = fields[5].rstrip("\n") if len(fields) > 5 else ""
                lines.append(Mapping(int(start, 16), int(end, 16), fields[1], path))
    except (FileNotFoundError, ProcessLookupError):
        raise Gone(f"process {pid} has ended") from None
    except PermissionError as error:
        raise ClockError(f"process {pid} may not be inspected: {error.strerror}") from None
    return lines
