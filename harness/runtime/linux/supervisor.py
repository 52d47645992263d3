"""The way into the lab: three processes, of which any one's death ends everything inside.

    runner command   (outside)  unshares, forks, waits, passes signals in and the exit status out
    +-- pid 1        (inside)   forks the harness, reaps orphans, exits with the harness's status
        +-- harness  (inside)   where `enter()` returns

Pid 1 stays this small so that it cannot fail with the harness, and so that nobody forks from a process with threads.
When it exits the kernel kills every process of its pid namespace and drops every namespace, mount and rule: a harness
that crashes, and a command killed with -9, leave nothing. Each level asks for SIGKILL at its parent's death; the race
with a parent that is dead already is closed by looking once more afterwards.

Only the standard library is imported: `enter()` runs before anything heavy, while the process has one thread. So the
harness can be a plain fork, and no second interpreter has to start.
"""

import os
import signal
import sys
import threading
import traceback
from typing import Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.linux import namespaces

#: Set by who starts the runner command (to its own pid), so that a starter that died early is noticed.
PARENT_VARIABLE: Final = "FENCEPOST_PARENT"

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM)
_WATCHED: Final = {signal.SIGCHLD, *_PASSED_ON}
_READY: Final = b"ready"
_INSIDE: Final = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWPID | namespaces.NEWUTS | namespaces.NEWIPC


def enter() -> None:
    """Return only in the harness process inside fresh namespaces; the calling process becomes the waiting outer one.

    Start the runner command in a session of its own and signal it explicitly: each SIGINT and SIGTERM that it gets
    reaches the harness exactly once. Inheritable descriptors (`pass_fds`) stay open in the harness. The exit status
    of the outer process is the harness's, or 128 + n when that died of signal n. The starter must be a thread that
    outlives the run.

    Raises:
        MachineError: the machine refuses; the message names what is to blame, the hint the remedy.
    """
    if threading.active_count() != 1:
        raise HarnessError("the lab can be entered by a single-threaded process only")
    starter = int(os.environ.pop(PARENT_VARIABLE, os.getppid()))
    # Blocked signals wait for sigwait; they are passed to children blocked, so none is lost at their start.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        _unshare()
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        reason, remedy = namespaces.why_refused(error)
        raise MachineError(f"the lab needs user and network namespaces: {reason}", hint=remedy) from error
    namespaces.die_with_parent()
    if os.getppid() != starter:
        os._exit(_died_of(signal.SIGKILL))
    report_read, report_write = os.pipe()
    # Nobody writes to it: its end of file says that the outer process is gone (getppid() is 0 in pid 1 either way).
    life_read, life_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    init = os.fork()
    if init == 0:
        os.close(report_read)
        os.close(life_write)
        _be_init(report_write, life_read)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os.close(report_write)
    os.close(life_read)
    said = os.read(report_read, 4096)
    os.close(report_read)
    if said != _READY:
        os.waitpid(init, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise _refusal(said)
    raise SystemExit(_wait_for(init))


def accompany() -> None:
    """For a runner that stays outside of namespaces: SIGTERM when its starter dies, so that it heals and removes.

    The starter must be a thread that outlives the run. The variable stays set: it names the owner of what is made.
    """
    starter = int(os.environ.get(PARENT_VARIABLE, os.getppid()))
    namespaces.die_with_parent(signal.SIGTERM)
    if os.getppid() != starter:
        os._exit(_died_of(signal.SIGTERM))


def _unshare() -> None:
    try:
        namespaces.unshare_with_user(_INSIDE)
    except OSError:
        # Real root on a machine that forbids user namespaces needs none.
        if os.geteuid() != 0:
            raise
        namespaces.unshare(_INSIDE)


def _refusal(said: bytes) -> MachineError:
    """What pid 1 reported before it gave up."""
    number, _, what = said.decode(errors="replace").partition(" ")
    error = OSError(int(number or 0), what or "pid 1 of the lab died at its start")
    reason, remedy = namespaces.why_refused(error)
    return MachineError(f"the lab could not be entered: {reason}", hint=remedy)


def _died_of(signal_number: int) -> int:
    return 128 + signal_number


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _died_of(-code)


def _wait_for(child: int) -> int:
    """Pass signals on to `child` and reap every child until it ends; returns its exit code."""
    while True:
        arrived = signal.sigwait(_WATCHED)
        if arrived != signal.SIGCHLD:
            os.kill(child, arrived)
            continue
        # One SIGCHLD may stand for several deaths. As pid 1 we also inherit orphans.
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return _exit_code(status)
            if pid == 0:
                break


def _be_init(report: int, life: int) -> None:
    """Pid 1: own mounts and /proc, then the harness, whose exit code becomes ours. Returns in the harness only."""
    code = 255
    try:
        namespaces.die_with_parent()
        os.set_blocking(life, False)
        try:
            os.read(life, 1)
            os._exit(code)  # end of file: the outer process died before we asked to die with it
        except BlockingIOError:
            os.close(life)
        # A terminal's Ctrl-C goes to the foreground group; in a session of our own we get it from the outer process
        # only.
        os.setsid()
        _prepare_mounts()
        harness = os.fork()
        if harness == 0:
            os.close(report)
            _be_harness()
            return
        os.write(report, _READY)
        os.close(report)
        code = _wait_for(harness)
    except OSError as error:
        os.write(report, f"{error.errno} {error.strerror}".encode())
    except Exception:
        traceback.print_exc()
    # Not sys.exit: the clean-up of modules belongs to the outer process. The kernel kills whoever is left.
    os._exit(code)


def _be_harness() -> None:
    """Die with pid 1, also when it is dead already."""
    try:
        namespaces.die_with_parent()
    except OSError:
        traceback.print_exc()
        os._exit(255)
    if os.getppid() != 1:
        os._exit(_died_of(signal.SIGKILL))


def _prepare_mounts() -> None:
    namespaces.make_mounts_private()
    try:
        namespaces.mount_proc()
    except PermissionError:
        # In a container whose /proc is masked: process numbers are then read through fdinfo (processes.py).
        return
