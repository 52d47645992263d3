"""A file that a person asked for: written whole or not at all, and never over another."""

import os
from collections.abc import Iterable
from pathlib import Path

from fencepost.harness.base.errors import UsageError


def check_new(path: Path, *, what: str, hint: str) -> None:
    """Raises UsageError when there is such a file already, or no folder for it: before any work is done for it."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; {what} is never overwritten", hint=hint)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", hint=hint)


def write_new(path: Path, lines: Iterable[str], *, what: str, hint: str) -> None:
    """Writes `path`; raises UsageError as `check_new` does, or with what the system says."""
    check_new(path, what=what, hint=hint)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with hidden.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(lines)
        os.link(hidden, path)  # unlike rename, this refuses to replace what came in the meantime
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=hint) from None
    finally:
        hidden.unlink(missing_ok=True)
