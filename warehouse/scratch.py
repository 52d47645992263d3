"""The folder of a Spark JVM's temporary files, and those that killed harnesses left.

Whoever uses such a folder holds a lock on a file in it. The kernel drops the lock when that process dies, however it
dies, so a folder whose lock is free is nobody's.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "fencepost-spark-"
_LOCK: Final = "lock"


class Scratch:
    """A new folder in `parent` (None: the system's folder for temporary files); removes abandoned ones beside it."""

    def __init__(self, parent: Path | None) -> None:
        beside = Path(tempfile.gettempdir()) if parent is None else parent
        beside.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(beside)
        self.folder: Final = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=beside)).resolve()
        made = self.folder / f".{_LOCK}"
        self._lock = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under this name only once it is locked, or another process would take the folder for an abandoned one.
        made.rename(self.folder / _LOCK)

    def remove(self) -> None:
        """Remove the folder; call it once."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(beside: Path) -> None:
    for folder in beside.glob(f"{_PREFIX}*"):
        try:
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # In use, another user's, or of a version that had no lock.
            continue
        shutil.rmtree(folder, ignore_errors=True)
