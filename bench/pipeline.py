"""What a person waits for: from the last operation to verdict and report, and from Ctrl-C to the end of the command."""

import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from fencepost.harness.history import OpEvent
from fencepost.harness.results.reader import read_history

ROOT = Path(__file__).resolve().parents[1]
_PLAN = ("--system", "etcd", "--workload", "register", "--nemesis", "partition:leader")


def _start(results: str, time_limit: str) -> "subprocess.Popen[str]":
    arguments = ["run", *_PLAN, "--time-limit", time_limit, "--seed", "1", "--results", results]
    command = [sys.executable, "-m", "fencepost.harness.cli", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _after_last_operation() -> float:
    """Return the seconds from the last completion of a 30 s run to the report's file."""
    with tempfile.TemporaryDirectory() as results:
        child = _start(results, "30s")
        child.communicate(timeout=180)
        (folder,) = [plan.parent for plan in Path(results).glob("*/*/plan.toml")]
        zero_s: float = json.loads((folder / "run.json").read_text())["zero"]["wall_clock_s"]
        last_ns = max(event.time_ns for event in read_history(folder).events if isinstance(event, OpEvent))
        return (folder / "report.html").stat().st_mtime - (zero_s + last_ns / 1e9)


def _after_ctrl_c() -> float:
    """Return the seconds from SIGINT during a fault to the end of the command, healed, judged and reported."""
    with tempfile.TemporaryDirectory() as results:
        child = _start(results, "60s")
        assert child.stderr is not None
        next(line for line in child.stderr if "fault: partition" in line)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        return time.monotonic() - began


def run(repeats: int = 3) -> list[Figure]:
    judged = [_after_last_operation() for _ in range(repeats)]
    stopped = [_after_ctrl_c() for _ in range(repeats)]
    return [
        Figure(
            "last operation to verdict and report",
            statistics.median(judged),
            "s",
            "at most 2 s",
            f"etcd, register, 30 s, facts and page; {min(judged):.1f} to {max(judged):.1f} s in {repeats}",
        ),
        Figure(
            "Ctrl-C in a fault to the end of the command",
            statistics.median(stopped),
            "s",
            "at most 10 s",
            f"healed, judged and reported; {min(stopped):.1f} to {max(stopped):.1f} s in {repeats}",
        ),
    ]
