"""The session of a command: Spark's own, quiet, on this interpreter's Python and on any Java."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.artifacts.java import Java
from fencepost.warehouse import spark_session
from fencepost.warehouse.spark_session import SparkHandle, first_line

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def test_a_session_that_is_in_use_is_taken_and_lives_on(spark: SparkSession) -> None:
    with SparkHandle("local[1]") as handle:
        assert handle.session().sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


def test_the_workers_run_on_this_python(spark: SparkSession) -> None:
    def python(_: object) -> object:
        import fencepost

        yield sys.executable, fencepost.__file__

    import fencepost

    rows = spark.sparkContext.parallelize([1], 1).mapPartitions(python).collect()  # type: ignore[arg-type, var-annotated]
    assert rows == [(sys.executable, fencepost.__file__)]


@pytest.mark.parametrize(("master", "hint"), [("local[2]", "fencepost doctor"), ("spark://host:7077", "their logs")])
def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, master: str, hint: str) -> None:
    def fail(_: str) -> None:
        # As Java does, which is another process.
        os.write(2, b"one\nno room\n")
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(spark_session, "_builder", fail)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    before = dict(os.environ)
    with SparkHandle(master) as handle, pytest.raises(HarnessError, match="gave no session at") as caught:
        handle.session()
    assert "JAVA_GATEWAY_EXITED" in caught.value.message and caught.value.message.endswith("\none\nno room")
    assert hint.lower() in (caught.value.hint or "").lower()
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("release", "is_itself"),
    [('MODULES="java.base"', False), ('MODULES="java.base jdk.incubator.vector"', True), ("", True)],
)
def test_a_java_without_the_module_is_started_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, is_itself: bool
) -> None:
    monkeypatch.setattr(spark_session, "cache_folder", lambda: tmp_path)
    (tmp_path / "release").write_text(release)
    java = Java(binary=Path("/bin/echo"), home=tmp_path, version="25")
    home = spark_session._java_home(java)
    assert (home == tmp_path) is is_itself
    if not is_itself:
        words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", "", "end"]
        done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
        assert done.stdout == "-cp a b --add-opens=x  end\n"


def test_of_a_java_exception_the_line_that_says_what_happened_is_told() -> None:
    text = "An error occurred while calling o1.x.\n: java.lang.Error: no room\n\tat a.b(c)"
    assert first_line(Exception(text)) == "java.lang.Error: no room"
    assert first_line(Exception()) == "Exception"


_LONG_QUERY = "select sum(id * id % 7) from range(10000000000000)"


@pytest.mark.long
def test_ctrl_c_during_a_query_ends_it_and_leaves_no_process(tmp_path: Path) -> None:
    from tests.warehouse.commits import add_one

    add_one(str(tmp_path / "warehouse"), "a")
    words = [
        "warehouse",
        "query",
        _LONG_QUERY,
        "--warehouse",
        str(tmp_path / "warehouse"),
        "--spark-master",
        "local[1]",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost.harness.cli", *words], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as job:
        jvm = await_job(job.pid)
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=120)
    assert job.returncode == 130, said
    assert "Traceback" not in said and "ERROR" not in said
    deadline = time.monotonic() + 60
    while Path(f"/proc/{jvm}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def await_job(pid: int) -> int:
    """Wait until the JVM that this process started has worked for a while; returns its pid."""
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13])) > 1500:
                return int(child)
        time.sleep(0.2)
    raise AssertionError("Spark did not start")
