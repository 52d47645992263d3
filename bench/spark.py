"""Spark: until the session is there, with and without the start-up archive, and the analysis of two histories.

Every repetition is an interpreter and a JVM of its own. `python -m bench.spark HISTORY [--plain]` is one of them
and prints its seconds as JSON; `--plain` leaves the start-up archive out.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.figure import Figure
from fencepost.harness.warehouse.archive_training import exercise
from fencepost.harness.warehouse.spark_session import SparkHandle, prepare_archive
from tests.warehouse.histories import random_history, store

OPERATIONS: Final = 100_000
_SMALL: Final = 10_000
_CHILD_S: Final = 300


def run(repeats: int = 5) -> list[Figure]:
    """Medians, with and without the archive."""
    prepare_archive(exercise)
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        small = store(random_history(1, operations=_SMALL, length_ms=30_000, keys=20, lanes=10), Path(folder) / "small")
        large = store(
            random_history(1, operations=OPERATIONS, length_ms=30_000, keys=200, lanes=100), Path(folder) / "large"
        )
        plain = [_child(small, "--plain") for _ in range(repeats)]
        quick = [_child(small) for _ in range(repeats)]
        heavy = [_child(large) for _ in range(repeats)]
    note = f"median of {repeats}, each in a new JVM"
    archived = f"{note}, with the start-up archive"
    small_, large_ = f"{_SMALL:,} operations", f"{OPERATIONS:,} operations"
    return [
        Figure("Spark session, no start-up archive", _median(plain, "session_s"), "s", "as measured", note),
        Figure("Spark session", _median(quick, "session_s"), "s", "<= 5 s", archived),
        Figure(f"first analysis, {small_}, no archive", _median(plain, "first_s"), "s", "as measured", note),
        Figure(f"first analysis, {small_}", _median(quick, "first_s"), "s", "<= 10 s", archived),
        Figure(f"second analysis, {small_}", _median(quick, "second_s"), "s", "<= 5 s", archived),
        Figure(f"first analysis, {large_}", _median(heavy, "first_s"), "s", "<= 15 s", archived),
        Figure(f"second analysis, {large_}", _median(heavy, "second_s"), "s", "as measured", archived),
        Figure("Spark JVM, resident", _median(heavy, "resident_mb"), "MB", "as measured", f"after {large_}"),
    ]


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.spark", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_CHILD_S, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measure(history: str, *, plain: bool) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as scratch,
        SparkHandle(scratch=Path(scratch), jvm_flags=[] if plain else None) as handle,
    ):
        began = time.perf_counter()
        session = handle.session(timeout_s=120)
        ready = time.perf_counter()
        from fencepost.harness.warehouse.pipeline import analyse

        analyse(session, history)
        first = time.perf_counter()
        analyse(session, history)
        second = time.perf_counter()
        status = Path(f"/proc/{handle.pid}/status").read_text()
    resident_kb = int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])
    return {
        "session_s": ready - began,
        "first_s": first - ready,
        "second_s": second - first,
        "resident_mb": resident_kb / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], plain="--plain" in sys.argv)))
