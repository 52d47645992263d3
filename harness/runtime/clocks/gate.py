"""A command that stops itself and executes the server when it is continued: so the server can be armed at its birth.

A shell does it, so that the server has the process, the session and the descriptors that it would have had.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.clocks import held_threads as tracing

_MARK: Final = "fencepost-clock-gate"
_SHELL: Final = "/bin/sh"


def through_gate(argv: tuple[str, ...]) -> Sequence[str]:
    """For `Node.wrap_argv`."""
    return (_SHELL, "-c", 'kill -STOP $$; exec "$@"', _MARK, *argv)


def is_gate(pid: int) -> bool:
    """Whether this process has yet to execute its server."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[:1] == [_SHELL.encode()] and _MARK.encode() in words[:5]


def is_shut(pid: int) -> bool:
    """Whether it is a gate that has stopped itself."""
    return tracing.state(pid) in ("T", "t") and is_gate(pid)


def has_shell() -> bool:
    return os.access(_SHELL, os.X_OK)
