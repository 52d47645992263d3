"""The embedded Spark: one JVM of our own and the one PySpark session that uses it.

`SparkHandle.start` returns at once, and the JVM boots while the cluster heals and settles. `SparkHandle.session` waits
for it. `prepare_archive` makes the archive from which later JVMs start faster.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.artifacts import java
from fencepost.harness.warehouse.executors import shuffle_partitions
from fencepost.harness.warehouse.gateway import JVM_FLAGS, NOT_READY, GatewayJvm, jars
from fencepost.harness.warehouse.pyspark_connection import connect, disconnect, require_none_active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Flags for a job of minutes, instead of the start-up archive: Java compiles its code fully, which starts more slowly.
FULLY_COMPILED: Final = ("-XX:TieredStopAtLevel=4",)

_ARCHIVE: Final = "spark"

#: How long a JVM may take to end after its standard input closed, before it is killed.
_END_S: Final = 10.0


class SparkHandle:
    """One Spark JVM and the one session that uses it. Nothing runs before `boot`; an interpreter has at most one.

    Args:
        master: any Spark master URL; its executors must reach the history under the same URI.
        scratch: the folder for Spark's temporary files. The handle makes a folder in it and removes that. None: the
            system's.
        jvm_flags: flags instead of those that use the start-up archive of `prepare_archive`.
    """

    def __init__(
        self, master: str = "local[*]", *, scratch: Path | None = None, jvm_flags: Sequence[str] | None = None
    ) -> None:
        self._master = master
        self._scratch = scratch
        self._jvm_flags = jvm_flags
        self._jvm: GatewayJvm | None = None
        self._session: SparkSession | None = None
        self._connected = False
        self._stopped = False

    @classmethod
    def start(cls, master: str = "local[*]", *, scratch: Path | None = None) -> "SparkHandle":
        """Return a handle whose JVM is booting."""
        handle = cls(master, scratch=scratch)
        handle.boot()
        return handle

    def boot(self) -> None:
        """Start the JVM and return at once; a second call does nothing.

        Raises:
            MachineError: no Java or no PySpark.
            HarnessError: the handle was stopped.
        """
        if self._stopped:
            raise HarnessError("Spark was stopped and cannot be started again")
        if self._jvm is None:
            flags = _archive_flags() if self._jvm_flags is None else self._jvm_flags
            self._jvm = GatewayJvm(self._master, self._scratch, flags)

    @property
    def pid(self) -> int | None:
        """The pid of the JVM and of its process group; None before `boot`."""
        return self._jvm.process.pid if self._jvm else None

    def session(self, timeout_s: float = 60.0) -> "SparkSession":
        """Return the session; the first call boots the JVM if necessary and waits for its gateway.

        Raises:
            HarnessError: the JVM ended, or was not ready in time and was stopped; with the end of its log.
        """
        if self._session is not None:
            return self._session
        deadline = time.monotonic() + timeout_s
        self.boot()
        assert self._jvm is not None
        try:
            gateway = self._jvm.await_gateway(deadline)
            require_none_active()
            with self._jvm.killed_at(deadline) as late:
                self._connected = True
                self._session = connect(*gateway, master=self._master)
                self._session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions(self._session)))
            if late.is_set():
                # The JVM was killed just before the call returned, so the session is useless.
                raise HarnessError(NOT_READY)
        except Exception as error:
            # Before the gateway is closed: the text of a Java exception is read from it.
            why = str(error) if isinstance(error, HarnessError) else self._jvm.fate() or str(error)
            log = self._jvm.last_lines()
            self.stop(end_s=1.0)
            message = f"Spark gave no session at {self._master} within {timeout_s:g} s: {why}"
            hint = "the history is kept: `fencepost check` reads it again"
            if not self._master.startswith("local"):
                hint = "does a master answer there? Without --spark-master the processors of this machine are used"
            raise HarnessError("\n".join([message, *log]), hint=hint) from error
        return self._session

    def abandon(self) -> None:
        """Kill the JVM at once, so that a call under way fails. For signal handlers and timers; `stop` must follow."""
        if self._jvm is not None:
            self._jvm.kill()

    def stop(self, end_s: float = _END_S) -> None:
        """End the session and the JVM and remove the scratch folder; the second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        if self._jvm is None:
            return
        with self._jvm.killed_at(time.monotonic() + end_s):
            if self._connected:
                disconnect(self._session)
                self._session = None
            self._jvm.end()

    def __enter__(self) -> "SparkHandle":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Whoever presses Ctrl-C waits for no job to end.
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.abandon()
        self.stop()


def prepare_archive(exercise: "Callable[[SparkSession, Path], None]") -> Path | None:
    """Make the JVM's start-up archive once and return its path; None if this Java cannot make one.

    It takes about a minute and 200 MB in the user's cache folder, and halves the time to the first result.

    Args:
        exercise: runs in a session with a scratch folder; the archive holds the classes that it loads.
    """

    def record(flags: list[str]) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="fencepost-spark-") as scratch,
            SparkHandle("local[2]", scratch=Path(scratch), jvm_flags=flags) as handle,
        ):
            exercise(handle.session(timeout_s=180), Path(scratch))
            # The JVM writes the archive when it ends.
            handle.stop(end_s=300)

    return java.archive(_ARCHIVE, _key(), record)


def prepared_archive() -> Path | None:
    """Return the path of the archive if `prepare_archive` has made one."""
    return java.existing_archive(_ARCHIVE, _key())


def _key() -> list[str]:
    return [*java.jar_parts(jars()), *JVM_FLAGS]


def _archive_flags() -> list[str]:
    return java.find_java().using(prepared_archive())
