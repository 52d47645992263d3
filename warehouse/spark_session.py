"""The embedded Spark: one JVM of our own and the one PySpark session that uses it.

`SparkHandle.start` returns at once, and the JVM boots while the cluster heals and settles. `SparkHandle.session` waits
for it. `prepare_archive` makes the archive from which later JVMs start faster.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, UsageError
from fencepost.harness.runtime.artifacts import java
from fencepost.warehouse.executors import shuffle_partitions
from fencepost.warehouse.gateway import JVM_FLAGS, NOT_READY, GatewayJvm, jars
from fencepost.warehouse.pyspark_connection import connect, disconnect, require_none_active
from fencepost.warehouse.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Flags for a job of minutes, instead of the start-up archive: Java compiles its code fully, which starts more slowly.
FULLY_COMPILED: Final = ("-XX:TieredStopAtLevel=4",)

_ARCHIVE: Final = "spark"

#: How long a JVM may take to end after its standard input closed, before it is killed.
_END_S: Final = 10.0
#: Lines of the JVM's log that tell why a cluster gave no session.
_LOG_LINES: Final = 3


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
        began = time.monotonic()
        deadline = began + timeout_s
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
            why = str(error) if isinstance(error, HarnessError) else self._jvm.fate() or first_line(error)
            log = self._jvm.last_lines()
            now = time.monotonic()
            when = f"within {timeout_s:g} s" if now >= deadline else f"and failed after {now - began:.0f} s"
            self.stop(end_s=1.0)
            hint = "the history is kept: `fencepost check` reads it again"
            if not self._master.startswith("local"):
                log = log[-_LOG_LINES:]
                hint = (
                    "does a master answer there, and do its executors stay? Their logs say why one ended. Without "
                    "--spark-master the processors of this machine are used"
                )
            message = f"Spark gave no session at {self._master} {when}: {why}"
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


@contextlib.contextmanager
def spark_session(master: str, root: str | None = None) -> "Iterator[SparkSession]":
    """The session of one command; the JVM ends with it.

    Args:
        root: the warehouse that is read, whose files are looked through if Spark fails.

    Raises:
        UsageError: a part of the warehouse is torn.
        HarnessError: Spark failed. Its message is read before the JVM ends, which alone knows it.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with SparkHandle(master) as handle:
        try:
            yield handle.session()
        except (PySparkException, Py4JError) as error:
            raise spark_failure(error, root) from None


def spark_failure(error: Exception, root: str | None = None) -> FencepostError:
    """What an exception of Spark means for a person: a torn part of the warehouse at `root`, or our own failure."""
    if root is not None:
        try:
            store = open_store(root)
            store.refuse_torn(store.adds(), whole=True)
        except UsageError as torn:
            return torn
    return HarnessError(
        f"Spark failed: {first_line(error)}",
        hint="is there room on the disk and memory for it? Otherwise report this as a defect of fencepost",
    )


def first_line(error: Exception) -> str:
    """The line of a Java exception that says what happened, without its frames."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip()]
    texts = [
        line for line in lines if not line.startswith(("at ", "An error occurred while calling", "JVM stacktrace"))
    ]
    return next(iter(texts or lines), type(error).__name__)


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
