"""Binaries at paths that a person gives."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError

#: How long a binary may take to say its version.
_VERSION_TIMEOUT_S: Final = 10.0


def executable(given: str | Path, *, what: str) -> Path:
    """The absolute path of an executable that a person named; raises UsageError saying what it is instead."""
    path = Path(given).expanduser().absolute()
    hint = f"give the path of an executable {what} binary"
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint=hint)
    if not path.is_file():
        raise UsageError(f"{path}: expected an executable file, found a folder", hint=hint)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path}: the file is not executable", hint=f"chmod +x {path}")
    return path


def asked_version(command: Sequence[str], pattern: str, *, what: str) -> str:
    """What a binary says of itself: group 1 of `pattern` in the output of `command`; raises UsageError if it does not.

    The output of a binary that is no `what` is quoted, since it usually says what it is.
    """
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"`{' '.join(command)}` did not answer within {_VERSION_TIMEOUT_S:g} s", hint=f"is it {what}?"
        ) from None
    except OSError as error:
        raise UsageError(
            f"`{' '.join(command)}` does not run here: {error.strerror}",
            hint=f"is it {what}, built for this machine's processor?",
        ) from None
    output = done.stdout + done.stderr
    found = re.search(pattern, output)
    if found is None:
        raise UsageError(
            f"`{' '.join(command)}` does not name a version of {what}; it said: {output.strip()[:200]!r}",
            hint=f"is it {what}?",
        )
    return found.group(1)
