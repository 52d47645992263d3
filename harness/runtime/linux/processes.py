"""The processes of a group, read from /proc: which are left, the state of every thread, processor time.

Numbers in /proc are those of the pid namespace that mounted it. Inside a container the lab may have to live with the
outer /proc; so a process is found there by its pidfd, whose fdinfo gives its number in exactly the /proc one reads.
"""

import os
import signal
import time
from pathlib import Path


def number_in_proc(pidfd: int) -> int | None:
    """The number under which /proc shows the process of `pidfd`; None when it is gone and reaped."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "Pid":
            return int(value) if int(value) > 0 else None
    return None


def _stat(path: str) -> list[str] | None:
    """The fields of a stat file from the state letter on (field 3 of proc(5) is index 0); None when it is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets; what follows its last bracket is regular.
    return text[text.rindex(")") + 2 :].split()


def group_members(group: int) -> list[int]:
    """The living processes (no zombies) of a process group, both as /proc numbers them."""
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(f"/proc/{entry}/stat")
            if fields is not None and int(fields[2]) == group and fields[0] not in "ZX":
                members.append(int(entry))
    return members


def thread_states(group: int) -> dict[int, str]:
    """The state letter of every thread of every living process of the group."""
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


def command_line(pid: int) -> list[str]:
    """The words that a process of ours was begun with; none when it is gone or cannot be read from here."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return []
    try:
        number = number_in_proc(pidfd)
        said = Path(f"/proc/{number}/cmdline").read_bytes() if number is not None else b""
    except OSError:
        return []
    finally:
        os.close(pidfd)
    return [word.decode(errors="replace") for word in said.split(b"\0")[:-1]]


def cpu_ns(pid: int) -> int:
    """Processor time of all threads of a process, ended ones too; 0 when it is gone."""
    try:
        # The process's CPU clock as clock_getcpuclockid(3) makes it: ~pid, shifted, CPUCLOCK_SCHED.
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal the whole group at once; nothing when it is gone."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
