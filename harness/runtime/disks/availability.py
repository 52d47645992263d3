"""Decides whether strace can trace servers on this machine; where it cannot, names the remedy."""

import re
import shutil
import subprocess
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.linux.may_trace import NOBODY, YAMA, yama_scope
from fencepost.harness.runtime.provider import Check, Need, Placement

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
        return Check(
            name,
            False,
            "absent",
            "strace is not on the PATH; the faults disk, lost-write and power-loss need it",
            _REMEDY,
        )
    if shutil.which("setpriv") is None:
        why = "setpriv is not on the PATH; it makes a tracer end with the harness"
        return Check(name, False, path, why, "sudo apt-get install util-linux")
    version = _version(path)
    if version is None or version < _OLDEST:
        return Check(name, False, path, "strace is older than 5.0, or reports no version", _REMEDY)
    if yama_scope(_YAMA) >= NOBODY:
        why = "kernel.yama.ptrace_scope=3 forbids tracing to everybody"
        return Check(name, False, path, why, "set it to 2 or less and reboot")
    return Check(name, True, f"{'.'.join(map(str, version))} at {path}")


def why_not(placement: Placement) -> Refusal | None:
    """Return why servers cannot be traced in this placement; None when they can."""
    strace = check()
    if not strace.ok:
        return Refusal(strace.why or strace.state, strace.remedy or "see fencepost doctor")
    return placement.why_not(Need.TRACE)


def _version(path: str) -> tuple[int, int] | None:
    answer = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=_ASKED_S, check=False)
    version = re.search(r"version (\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else None
