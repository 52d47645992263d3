"""The processes of a group, read from /proc: which remain, the state of every thread, processor time.

/proc has the numbers of the pid namespace that mounted it. Inside a container the lab may have to use the outer /proc,
so it identifies a process by its pidfd: the fdinfo in that same /proc holds the number of the process there.
"""

import os
import signal
import time
from pathlib import Path


def number_in_proc(pidfd: int) -> int | None:
    """Return the number under which /proc shows the process of `pidfd`; None when it is gone and reaped."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "Pid":
            return int(value) if int(value) > 0 else None
    return None


def _stat(path: str) -> list[str] | None:
    """Return the fields of a stat file from the state letter on (field 3 of proc(5) is index 0); None when gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets; only the text after the last bracket has a fixed form.
    return text[text.rindex(")") + 2 :].split()


def group_members(group: int) -> list[int]:
    """Return the living processes (no zombies) of a process group; all numbers are those of /proc."""
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(f"/proc/{entry}/stat")
            if fields is not None and int(fields[2]) == group and fields[0] not in "ZX":
                members.append(int(entry))
    return members


def thread_states(group: int) -> dict[int, str]:
    """Return the state letter of every thread of every living process of the group."""
    states = {}
    for member in group_members(group):
        try:
            threads = os.listdir(f"/proc/{member}/task")
        except (FileNotFoundError, ProcessLookupError):
            continue
        for thread in threads:
            fields = _stat(f"/proc/{member}/task/{thread}/stat")
            if fields is not None and fields[0] not in "ZX":
                states[int(thread)] = fields[0]
    return states


def in_words(command: bytes) -> str:
    """A command line of /proc as a person reads it."""
    return command.replace(b"\0", b" ").decode(errors="replace").strip()


def command_line(pid: int) -> list[str]:
    """Return the arguments with which a process of ours was started; none when it is gone or unreadable."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return []
    try:
        number = number_in_proc(pidfd)
        argv = Path(f"/proc/{number}/cmdline").read_bytes() if number is not None else b""
    except OSError:
        return []
    finally:
        os.close(pidfd)
    return [word.decode(errors="replace") for word in argv.split(b"\0")[:-1]]


def cpu_ns(pid: int) -> int:
    """Return the processor time of all threads of a process, also of ended threads; 0 when the process is gone."""
    try:
        # The process's CPU clock as clock_getcpuclockid(3) makes it: ~pid, shifted, CPUCLOCK_SCHED.
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal the whole group at once; do nothing when it is gone."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
