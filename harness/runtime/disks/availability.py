"""Whether strace can trace the servers of a runtime on this machine, and the remedy where it cannot."""

import re
import shutil
import subprocess
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.linux.may_trace import NOBODY, YAMA, yama_scope
from fencepost.harness.runtime.provider import Check, Placement

_YAMA: Final = YAMA
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
    if yama_scope(_YAMA) >= NOBODY:
        why = "kernel.yama.ptrace_scope=3 lets nobody trace a process"
        return Check(name, False, path, why, "set it to 2 or less and start the machine again")
    return Check(name, True, f"{'.'.join(map(str, version))} at {path}")


def why_not(placement: Placement) -> Refusal | None:
    """Why servers cannot be traced there; None when they can."""
    found = check()
    if not found.ok:
        return Refusal(found.why or found.found, found.remedy)
    return placement.why_untraceable()


def _version(path: str) -> tuple[int, int] | None:
    asked = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=_ASKED_S, check=False)
    found = re.search(r"version (\d+)\.(\d+)", asked.stdout)
    return (int(found[1]), int(found[2])) if found else None
