"""Binaries at paths that a person gives."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError

#: How long a binary may take to report its version.
_VERSION_TIMEOUT_S: Final = 10.0


def executable(given: str | Path, *, what: str) -> Path:
    """Return the absolute path of an executable that a person gave; raise UsageError if it is something else."""
    # Unlike `Path.expanduser` it leaves the tilde where there is no home.
    path = Path(os.path.expanduser(given)).absolute()
    hint = f"give the path of an executable {what} binary"
    if not path.exists():
        raise UsageError(f"{path}: this file does not exist", hint=hint)
    if not path.is_file():
        raise UsageError(f"{path}: expected an executable file, found a folder", hint=hint)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path}: the file is not executable", hint=f"chmod +x {path}")
    return path


def reported_version(command: Sequence[str], pattern: str, *, what: str) -> str:
    """Return the version that a binary reports: group 1 of `pattern` in the output of `command`.

    Raises:
        UsageError: the binary does not run or names no version. The message quotes its output, which usually says what
            the binary is.
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
    version = re.search(pattern, output)
    if version is None:
        raise UsageError(
            f"`{' '.join(command)}` names no version of {what}; its output: {output.strip()[:200]!r}",
            hint=f"is it {what}?",
        )
    return version.group(1)
