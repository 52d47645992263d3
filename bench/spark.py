"""Spark: until the session is there, with and without the start-up archive.

Every repetition is an interpreter and a JVM of its own. `python -m bench.spark [--plain]` is one of them and prints its
seconds as JSON; `--plain` leaves the start-up archive out.
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
from fencepost.harness.warehouse.spark_session import SparkHandle, prepare_archive
from fencepost.harness.warehouse.training import exercise

_CHILD_S: Final = 300


def run(repeats: int = 5) -> list[Figure]:
    """Measure the start with and without the archive; the figures are medians."""
    prepare_archive(exercise)
    plain = [_child("--plain") for _ in range(repeats)]
    quick = [_child() for _ in range(repeats)]
    note = f"median of {repeats}, each in a new JVM"
    return [
        Figure("Spark session, no start-up archive", statistics.median(plain), "s", "as measured", note),
        Figure("Spark session", statistics.median(quick), "s", "<= 5 s", f"{note}, with the start-up archive"),
    ]


def _child(*arguments: str) -> float:
    command = [sys.executable, "-m", "bench.spark", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_CHILD_S, check=True)
    return float(json.loads(done.stdout))


def _measure(*, plain: bool) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as scratch,
        SparkHandle(scratch=Path(scratch), jvm_flags=[] if plain else None) as handle,
    ):
        began = time.perf_counter()
        handle.session(timeout_s=120)
        return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(_measure(plain="--plain" in sys.argv)))
