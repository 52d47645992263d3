"""Memory that a history of a million events takes: read from JSON lines, sealed, and read from Parquet.

Each step is a process of its own, so that its peak is its own; every field that an operation can have is filled.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figure import Figure, peak_mb
from fencepost.harness.generators import Draw
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.results.reader import read_history, seal
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.results.run_folder import HISTORY_LINES

_STEPS = ("lines", "lines-paired", "seal", "parquet", "parquet-paired")


def write_history(folder: Path, events: int) -> None:
    """Write operations of 20 processes with everything that a reply can carry."""
    recorder = Recorder(folder / HISTORY_LINES, reserve_bytes=0)
    draw = Draw(1, 0, 0)
    for i in range(events // 2):
        node, key = f"n{draw.below(3) + 1}", f"r{draw.below(50)}"
        invocation = recorder.invoke(i % 20, "write", node, key, i)
        answer = Completion(
            Outcome.OK, i, position=(7 << 32) + i, value_position=(7 << 32) + i - 3, epoch=7, session=1 << 60
        )
        recorder.complete(invocation, answer)
    recorder.close_now()


def step(name: str, folder: Path) -> None:
    begun = time.perf_counter()
    if name == "seal":
        seal(folder)
        events = 0
    else:
        history = read_history(folder)
        events = len(history.events)
        if name.endswith("paired"):
            events += len(history.operations)
    load = os.getloadavg()[0]
    seconds = round(time.perf_counter() - begun, 2)
    print(json.dumps({"step": name, "held": events, "peak_mb": round(peak_mb()), "seconds": seconds, "load": load}))


def run(events: int = 1_000_000) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as name:
        write_history(Path(name), events)
        for each in _STEPS:
            argv = [sys.executable, "-m", "bench.memory", each, name]
            out = subprocess.run(argv, check=True, timeout=600, stdout=subprocess.PIPE, text=True).stdout
            step = json.loads(out)
            figures.append(
                Figure(
                    f"memory of {events} events, {each}",
                    step["peak_mb"],
                    "MB",
                    "at most 1000 MB",
                    f"peak resident memory of the whole process; {step['seconds']} s; load {step['load']:.1f}",
                )
            )
    return figures


if __name__ == "__main__":
    step(sys.argv[1], Path(sys.argv[2]))
