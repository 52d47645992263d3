"""The same job on a Spark master of its own: a standalone master and worker on loopback, executors without Python."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from checkers.spark.results import Analysis
from harness import spark_session
from harness.history import History
from harness.runtime import java
from tests.spark import twin
from tests.spark.histories import random_history, store

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]

ANALYSE = """
import sys
from pathlib import Path
import msgspec
from checkers.spark.pipeline import analyse
from harness.spark_session import SparkHandle
with SparkHandle(sys.argv[1], scratch=Path(sys.argv[2])) as handle:
    print(msgspec.json.encode(analyse(handle.session(timeout_s=100), sys.argv[3])).decode())
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[Path]:
    """A Spark daemon; yields its log, and ends it afterwards."""
    log = folder / f"{arguments[0].rsplit('.', 1)[1]}.log"
    command = [str(java.find_java().binary), *spark_session.JVM_FLAGS, "-cp", spark_session.class_path(), *arguments]
    # Executors must start with the same Java and without any Python.
    environment = {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(java.find_java().home),
        "SPARK_HOME": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def test_a_standalone_master_gives_the_same_analysis(tmp_path: Path) -> None:
    port = free_port()
    events = random_history(5)
    uri = store(events, tmp_path / "history.parquet")
    master = f"spark://127.0.0.1:{port}"
    (tmp_path / "jars").symlink_to(spark_session.spark_home() / "jars")
    with ExitStack() as stack:
        own = ["--host", "127.0.0.1", "--webui-port", "0"]
        stack.enter_context(daemon(tmp_path, "org.apache.spark.deploy.master.Master", *own, "--port", str(port)))
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
        log = stack.enter_context(daemon(tmp_path, "org.apache.spark.deploy.worker.Worker", *own, *work, master))
        done = subprocess.run(
            [sys.executable, "-c", ANALYSE, master, str(tmp_path / "scratch"), uri],
            cwd=ROOT,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=115,
            check=False,
        )
        assert done.returncode == 0, done.stderr + log.read_text()
    assert msgspec.convert(json.loads(done.stdout), Analysis) == twin.analyse(History(events))
