"""The launcher: the JVM stands apart from the harness, ends with it, and fails within its deadline."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from harness.errors import HarnessError
from harness.spark_session import SparkHandle

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
    with pytest.raises(HarnessError, match="ended with status -9"):
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


def test_a_deadline_holds(tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path)
    began = time.monotonic()
    with pytest.raises(HarnessError, match=r"no session at local\[1\] within 0.2 s: its JVM was not ready"):
        handle.session(timeout_s=0.2)
    assert time.monotonic() - began < 10
    assert handle.pid is not None
    assert not runs(handle.pid)


def test_it_ends_when_the_harness_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from harness.spark_session import SparkHandle\n"
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


def test_a_jvm_that_is_abandoned_fails_its_calls_and_is_tidied_up(tmp_path: Path) -> None:
    handle = SparkHandle("local[1]", scratch=tmp_path)
    handle.abandon()
    handle.boot()
    pid = handle.pid
    assert pid is not None
    handle.abandon()
    with pytest.raises(HarnessError, match="JVM ended"):
        handle.session(timeout_s=30)
    assert not runs(pid)
    assert list(tmp_path.iterdir()) == []
