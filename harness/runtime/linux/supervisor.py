"""The entrance to the lab: three processes; if any of them dies, everything inside ends.

    runner command   (outside)  unshares, forks, waits, passes signals in and the exit status out
    +-- pid 1        (inside)   forks the harness, reaps orphans, exits with the harness's status
        +-- harness  (inside)   where `enter()` returns

Pid 1 stays this small so that it cannot fail with the harness, and so that no process with threads forks. When it
exits, the kernel kills every process of its pid namespace and drops every namespace, mount and rule: a crashed harness,
or a command killed with -9, leaves nothing behind. Each level asks for SIGKILL at its parent's death, and then checks
once more whether the parent had died before.

This module imports only the standard library: `enter()` runs before any heavy import, while the process has one thread.
So the harness can be a plain fork, and no second interpreter has to start.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError
from fencepost.harness.base.files import source_tree
from fencepost.harness.runtime.linux import namespaces

#: The starter of the runner command sets this to its own pid, so that the runner notices a starter that died early.
PARENT_VARIABLE: Final = "FENCEPOST_PARENT"

#: Among the arguments of such a process: it stays outside, since its nodes live in containers.
_PLAIN: Final = "--plain"
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM)
_WATCHED: Final = {signal.SIGCHLD, *_PASSED_ON}
_READY: Final = b"ready"
_INSIDE: Final = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWPID | namespaces.NEWUTS | namespaces.NEWIPC


def start(
    module: str,
    *arguments: str,
    log: Path,
    in_namespaces: bool = True,
) -> subprocess.Popen[str]:
    """Start `python -m MODULE ARGUMENTS`, a process that holds a cluster; its main function calls `inside`.

    Its stdout is a pipe of lines, its stderr goes into `log`. It has a session of its own, so that Ctrl-C reaches it
    only once, through its starter; and it notices when that dies, even before it has entered the lab.
    """
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments, *([] if in_namespaces else [_PLAIN])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd=source_tree(),
            start_new_session=True,
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            text=True,
        )


def inside(arguments: Sequence[str], body: Callable[[list[str]], int]) -> int:
    """Enter the lab unless the arguments say otherwise, then do `body` with the rest of them; returns an exit status.

    What is heavy is imported in `body`: threads must not exist while namespaces are entered. Where the machine refuses,
    one line on stdout says so, as JSON with the topic `error`.
    """
    try:
        if _PLAIN in arguments:
            accompany()
        else:
            enter()
    except FencepostError as error:
        refusal = {"topic": "error", "message": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        sys.stdout.write(json.dumps(refusal) + "\n")
        return int(error.exit_code)
    return body([word for word in arguments if word != _PLAIN])


def enter() -> None:
    """Return only in the harness process inside fresh namespaces; the calling process becomes the waiting outer one.

    Start the runner command in its own session and signal it explicitly: each SIGINT and SIGTERM that it receives
    reaches the harness exactly once. The outer process
    exits with the harness's status, or 128 + n if signal n killed the harness. The starter must be a thread that
    outlives the run.

    Raises:
        MachineError: the machine refuses; the message names the cause, the hint the remedy.
    """
    if threading.active_count() != 1:
        raise HarnessError("only a single-threaded process can enter the lab")
    starter = int(os.environ.pop(PARENT_VARIABLE, os.getppid()))
    # Blocked signals wait for sigwait; children inherit the block, so no signal is lost at their start.
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
    # Nobody writes to it: its end of file means that the outer process is gone (in pid 1 getppid() is always 0).
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
    report = os.read(report_read, 4096)
    os.close(report_read)
    if report != _READY:
        os.waitpid(init, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise _refusal(report)
    raise SystemExit(_wait_for(init))


def accompany() -> None:
    """Let a runner outside of namespaces get SIGTERM when its starter dies, so that it heals and cleans up.

    The starter must be a thread that outlives the run. The variable stays set: it names the owner of everything made.
    """
    starter = int(os.environ.get(PARENT_VARIABLE, os.getppid()))
    namespaces.die_with_parent(signal.SIGTERM)
    if os.getppid() != starter:
        os._exit(_died_of(signal.SIGTERM))


def _unshare() -> None:
    try:
        namespaces.unshare_with_user(_INSIDE)
    except OSError:
        # Real root needs no user namespace, even on a machine that forbids them.
        if os.geteuid() != 0:
            raise
        namespaces.unshare(_INSIDE)


def _refusal(report: bytes) -> MachineError:
    """Make an error from the report that pid 1 wrote before it gave up."""
    number, _, what = report.decode(errors="replace").partition(" ")
    error = OSError(int(number or 0), what or "pid 1 of the lab died at its start")
    reason, remedy = namespaces.why_refused(error)
    return MachineError(f"the lab could not be entered: {reason}", hint=remedy)


def _died_of(signal_number: int) -> int:
    return 128 + signal_number


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _died_of(-code)


def _wait_for(child: int) -> int:
    """Pass signals on to `child` and reap every child until it ends; return its exit code."""
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
    """Be pid 1: make mounts and /proc, fork the harness, exit with its code. Returns only in the harness."""
    code = 255
    try:
        namespaces.die_with_parent()
        os.set_blocking(life, False)
        try:
            os.read(life, 1)
            os._exit(code)  # end of file: the outer process died before this one asked to die with it
        except BlockingIOError:
            os.close(life)
        # A terminal's Ctrl-C goes to the foreground group; in its own session this process gets it only from the outer
        # process.
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
    # Not sys.exit: the outer process cleans up its modules. The kernel kills all remaining processes.
    os._exit(code)


def _be_harness() -> None:
    """Die with pid 1, even if it has died already."""
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
        # In a container with a masked /proc; process numbers then come from fdinfo (processes.py).
        return
