"""Files written completely or not at all, locks that the kernel frees, and where fencepost itself stands."""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fencepost
from fencepost.harness.base.errors import UsageError

_LOOK_S: Final = 0.05


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a hidden name to write to, which becomes `path` at the end; after an exception nothing is left of it."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield hidden
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file completely or not at all; an OSError names the file itself."""
    try:
        with replaced(path) as hidden:
            hidden.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def locked(path: Path, wait_s: float = 0.0, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Hold the lock of a file; yields False when another process kept it for `wait_s`.

    Args:
        waiting: called once, before this waits.
    """
    deadline = time.monotonic() + wait_s
    has_said = False
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield False
                    return
            if not has_said:
                waiting()
                has_said = True
            time.sleep(_LOOK_S)
        yield True


def check_new(path: Path, *, what: str, hint: str) -> None:
    """Check before any work that a file that a person asked for can be written; it never replaces one.

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


def source_tree() -> Path:
    """Return the folder that holds the package `fencepost`: for a child's PYTHONPATH or working folder."""
    return Path(fencepost.__file__).resolve().parent.parent
