"""The launcher: the JVM stands apart from the harness, ends with it, and fails within its deadline."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from fencepost.harness.base.errors import HarnessError
from fencepost.warehouse import spark_session
from fencepost.warehouse.gateway import GatewayJvm
from fencepost.warehouse.spark_session import SparkHandle

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_end(handle: SparkHandle) -> None:
    """Wait until its JVM can be waited for, and leave that to the handle: being killed takes a moment."""
    assert handle.pid is not None
    os.waitid(os.P_PID, handle.pid, os.WEXITED | os.WNOWAIT)


def test_it_stands_in_a_session_of_its_own_and_stop_leaves_nothing(tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path)
    assert handle.pid is None
    handle.boot()
    handle.boot()
    pid = cast(int | None, handle.pid)  # mypy still takes it for None
    assert pid is not None
    assert os.getsid(pid) == os.getpgid(pid) == pid != os.getsid(0)
    handle.stop(end_s=0.5)
    handle.stop()
    assert not runs(pid)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HarnessError, match="was stopped"):
        handle.boot()


def test_stop_without_boot_does_nothing(tmp_path: Path) -> None:
    with SparkHandle(scratch=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_dies_is_reported_at_once(tmp_path: Path) -> None:
    handle = SparkHandle.start("local[1]", scratch=tmp_path)
    assert handle.pid is not None
    os.killpg(handle.pid, signal.SIGKILL)
    await_end(handle)
    with pytest.raises(HarnessError, match="its JVM ended with status -9"):
        handle.session(timeout_s=30)
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_does_not_start_says_why(tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path, jvm_flags=["--add-modules=no.such.module"])
    with pytest.raises(HarnessError, match=r"(?s)ended with status 1.*no\.such\.module"):
        handle.session(timeout_s=30)


def test_a_second_session_is_refused_and_the_first_lives_on(spark: SparkSession, tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path)
    with pytest.raises(HarnessError, match="another Spark session is in use"):
        handle.session(timeout_s=60)
    assert spark.range(3).count() == 3


#: A JVM that never gets ready, however long this process is kept from looking; whoever waits for it waits for ever.
NEVER_READY = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup")


def test_a_deadline_holds(tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path, jvm_flags=NEVER_READY)
    with pytest.raises(HarnessError, match=r"no session at local\[1\] within 0.2 s: its JVM was not ready"):
        handle.session(timeout_s=0.2)
    assert handle.pid is not None
    assert not runs(handle.pid)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkHandle]:
    """A handle whose JVM seems to be ready; connecting to it is the test's. The other tests' session stays as it is."""
    monkeypatch.setattr(spark_session, "require_none_active", lambda: None)
    monkeypatch.setattr(spark_session, "disconnect", lambda session: None)
    monkeypatch.setattr(GatewayJvm, "await_gateway", lambda jvm, deadline: (1, "secret"))
    with SparkHandle("local[1]", scratch=tmp_path, jvm_flags=NEVER_READY) as handle:
        handle.boot()
        yield handle
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_dies_while_it_is_connected_to_is_reported(
    never_ready: SparkHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(port: int, secret: str, *, master: str) -> MagicMock:
        never_ready.abandon()
        raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(spark_session, "connect", refused)
    with pytest.raises(HarnessError, match="its JVM ended with status -9"):
        never_ready.session(timeout_s=60)


def test_a_session_whose_jvm_was_killed_at_its_deadline_is_none(
    never_ready: SparkHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer that kills it may be quicker than a call which is all but done; the call may fail of it, or not."""

    def connected(port: int, secret: str, *, master: str) -> MagicMock:
        await_end(never_ready)
        return MagicMock()

    monkeypatch.setattr(spark_session, "connect", connected)
    with pytest.raises(HarnessError, match="its JVM was not ready"):
        never_ready.session(timeout_s=0.1)


def test_a_call_that_fails_since_its_jvm_was_killed_at_its_deadline_says_so(
    never_ready: SparkHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(port: int, secret: str, *, master: str) -> MagicMock:
        await_end(never_ready)
        raise ConnectionResetError("connection reset by peer")

    monkeypatch.setattr(spark_session, "connect", failed)
    with pytest.raises(HarnessError, match="its JVM was not ready"):
        never_ready.session(timeout_s=0.1)


def test_it_ends_when_the_harness_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from fencepost.warehouse.spark_session import SparkHandle\n"
        "print(SparkHandle.start('local[1]', scratch=Path(sys.argv[1])).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        harness.kill()
    try:
        assert within(60, lambda: not runs(pid))
    finally:
        if runs(pid):
            os.killpg(pid, signal.SIGKILL)


def test_ctrl_c_stays_with_the_command(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    handler = signal.getsignal(signal.SIGINT)
    assert "pyspark" not in getattr(handler, "__module__", "")


_LONG_JOB = """
import sys
from pathlib import Path
from fencepost.warehouse.spark_session import SparkHandle
try:
    with SparkHandle("local[1]", scratch=Path(sys.argv[1])) as handle:
        spark = handle.session(timeout_s=110)
        print("ready", flush=True)
        spark.range(10**13).selectExpr("sum(id * id % 7)").collect()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.long
def test_ctrl_c_during_a_job_ends_it_at_once_and_without_a_word_of_py4j(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LONG_JOB, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None and job.stderr is not None
        assert job.stdout.readline() == "ready\n", job.stderr.read()
        time.sleep(2)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=30)
    assert (job.returncode, out) == (0, "stopped\n")
    assert "Traceback" not in err and "ERROR" not in err, err
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_is_abandoned_fails_its_calls_and_is_tidied_up(tmp_path: Path) -> None:
    """Also one that was ready: what says where its gateway was is still there."""
    handle = SparkHandle("local[1]", scratch=tmp_path)
    handle.abandon()
    handle.boot()
    pid = handle.pid
    assert pid is not None
    assert within(60, lambda: any(tmp_path.glob("*/connection")))
    handle.abandon()
    await_end(handle)
    with pytest.raises(HarnessError, match="its JVM ended with status -9"):
        handle.session(timeout_s=30)
    assert not runs(pid)
    assert list(tmp_path.iterdir()) == []
