"""Whether strace can trace the servers of a runtime on this machine, and the remedy where it cannot."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.errors import MachineError
from harness.runtime.provider import Check, Setting

_YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_NOBODY: Final = 3
#: Delays at entry, and paths of open files at every call ("-y" together with "-P"), work from here on.
_OLDEST: Final = (5, 0)
_REMEDY: Final = "sudo apt-get install strace (or your distribution's package of that name)"
_ASKED_S: Final = 5.0


def check() -> Check:
    """The line of `fencepost doctor`."""
    name = "strace, for disk faults"
    path = shutil.which("strace")
    if path is None:
        return Check(name, False, "absent", "no strace on the PATH; disk, lost-write and power-loss need it", _REMEDY)
    if shutil.which("setpriv") is None:
        why = "no setpriv on the PATH, by which a tracer ends with the harness"
        return Check(name, False, path, why, "sudo apt-get install util-linux")
    version = _version(path)
    if version is None or version < _OLDEST:
        return Check(name, False, path, "it is older than 5.0, or does not tell its version", _REMEDY)
    if _yama() >= _NOBODY:
        why = "kernel.yama.ptrace_scope=3 lets nobody trace a process"
        return Check(name, False, path, why, "set it to 2 or less and start the machine anew")
    return Check(name, True, f"{'.'.join(map(str, version))} at {path}")


def why_not(setting: Setting) -> str | None:
    """ "reason; remedy", or None."""
    found = check()
    if not found.ok:
        return f"{found.why}; {found.remedy}"
    return _why_no_containers() if setting.runtime == "containers" else None


def _version(path: str) -> tuple[int, int] | None:
    asked = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=_ASKED_S, check=False)
    found = re.search(r"version (\d+)\.(\d+)", asked.stdout)
    return (int(found[1]), int(found[2])) if found else None


def _yama() -> int:
    try:
        return int(_YAMA.read_text())
    except (OSError, ValueError):
        return 0


def _why_no_containers() -> str | None:
    from harness.runtime import engine

    if os.geteuid() != 0:
        return "servers in containers may be traced by root only; run as root, or use --runtime lab"
    try:
        client = engine.connect()
    except MachineError as error:
        return f"{error.message}; {error.hint}"
    try:
        facts = engine.facts(client)
    finally:
        client.close()
    if not facts.same_kernel:
        return "the engine's containers run on another kernel than this one; use --runtime lab"
    if not facts.may_enter:
        return "this engine's containers cannot be entered from here; use a local engine, or --runtime lab"
    return None
