"""A file that a person asked for: written completely or not at all, and never over an existing one."""

import os
from collections.abc import Iterable
from pathlib import Path

from fencepost.harness.base.errors import UsageError


def check_new(path: Path, *, what: str, hint: str) -> None:
    """Check before any work that the file can be written.

    Raises:
        UsageError: it exists, or its folder does not or takes no such file.
    """
    try:
        is_there = path.exists() or path.is_symlink()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=hint) from None
    if is_there:
        raise UsageError(f"{path} exists already; {what} is never overwritten", hint=hint)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", hint=hint)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: nothing can be written into {path.parent}", hint=hint)


def write_new(path: Path, lines: Iterable[str], *, what: str, hint: str) -> None:
    """Write `path`; raises UsageError as `check_new` does, or when the system refuses."""
    check_new(path, what=what, hint=hint)
    hidden = path.with_name(f".fencepost.{os.getpid()}")  # not longer than the name itself may be
    try:
        with hidden.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines)
        os.link(hidden, path)  # unlike rename, this never replaces a file that appeared meanwhile
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=hint) from None
    finally:
        hidden.unlink(missing_ok=True)
