"""The gate: a command that stops itself, and that executes the server when it is continued.

It allows us to arm a server before its first instruction. It is a shell command, so that the server keeps its process,
session and descriptors.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.clocks import held_threads as tracing

_MARK: Final = "fencepost-clock-gate"
_SHELL: Final = "/bin/sh"


def through_gate(argv: tuple[str, ...]) -> Sequence[str]:
    """Put a command behind a gate; for `Node.wrap_argv`."""
    return (_SHELL, "-c", 'kill -STOP $$; exec "$@"', _MARK, *argv)


def is_gate(pid: int) -> bool:
    """Say whether this process is still a gate that has not executed its server."""
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return argv[:1] == [_SHELL.encode()] and _MARK.encode() in argv[:5]


def is_shut(pid: int) -> bool:
    """Say whether this process is a gate that has stopped itself."""
    return tracing.state(pid) in ("T", "t") and is_gate(pid)


def has_shell() -> bool:
    return os.access(_SHELL, os.X_OK)
